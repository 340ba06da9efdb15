"""Batches in processes of this machine: one that dies takes no more with it than the one trace that killed it.

`concurrent.futures` gives up everything where one worker dies, and does not report the cause.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import current_thread, main_thread

import psutil
import pyarrow as pa

from coldstep.errors import first_line
from coldstep_viewers.fleet.ingest import Batch, ingest, without
from coldstep_viewers.fleet.limits import BYTES
from coldstep_viewers.fleet.places import FleetError
from coldstep_viewers.fleet.store import Marker

TRIES = 3
"""So often is a trace read that kills whoever reads it."""
KILLED = f"it killed each of the {TRIES} processes that read it"


def number() -> int:
    """How many workers this machine has processors and memory for."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, psutil.virtual_memory().available // BYTES))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    batch: Batch
    tries: int


def run(batches: Sequence[Batch], out: str) -> Iterator[Marker]:
    """The marker of each batch as it comes. Raises FleetError where the tables cannot be written."""
    waiting = deque((batch, 0) for batch in batches)
    workers: dict[Connection, _Worker] = {}
    try:
        for _ in range(min(number(), len(waiting))):
            _add(workers, out, *waiting.popleft())
        while workers:
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                worker = workers[pipe]
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    _end(workers, pipe)
                    if len(worker.batch) == 1 and worker.tries + 1 == TRIES:
                        yield without(worker.batch, out, KILLED)
                    else:
                        waiting.extendleft(reversed(again(worker.batch, worker.tries)))
                    if waiting:
                        _add(workers, out, *waiting.popleft())
                    continue
                if isinstance(answer, str):
                    raise FleetError(f"cannot write {out}: {answer}")
                if waiting:
                    worker.batch, worker.tries = waiting.popleft()
                    _send(pipe, worker.batch)
                else:
                    _end(workers, pipe)
                yield answer
    finally:
        for worker in workers.values():
            worker.process.kill()  # what it has not committed, nobody sees
        for pipe in list(workers):
            _end(workers, pipe)


def again(batch: Batch, tries: int) -> list[tuple[Batch, int]]:
    """The next try of a batch whose worker died: its halves; of a single trace, itself."""
    if len(batch) == 1:
        return [(batch, tries + 1)]
    middle = len(batch) // 2
    return [(batch[:middle], 0), (batch[middle:], 0)]


def _add(workers: dict[Connection, _Worker], out: str, batch: Batch, tries: int) -> None:
    # spawned, for Arrow's threads would not survive a fork
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, out), daemon=True)
    with _uninterrupted():
        process.start()
        workers[ours] = _Worker(process, batch, tries)
    theirs.close()
    _send(ours, batch)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: half started, a worker would complain. And what starts here is never told of one: it is for us."""
    resource_tracker.ensure_running()  # with the first worker it would begin, and let signals in again
    came: list[int] = []
    ours = current_thread() is main_thread()  # else it comes there
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if ours else None
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread; others take it all the same
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        if ours:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


def _end(workers: dict[Connection, _Worker], pipe: Connection) -> None:
    """Of one that is dead, or has nothing more to do."""
    worker = workers.pop(pipe)
    pipe.close()
    worker.process.join()


def _send(pipe: Connection, batch: Batch) -> None:
    with suppress(OSError):  # that it is dead is told when it is waited for
        pipe.send(batch)


def _serve(pipe: Connection, out: str) -> None:
    """Do what comes through the pipe until that is closed."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve more than the limits allow
    while True:
        try:
            batch = pipe.recv()
        except (EOFError, OSError):
            return
        answer: Marker | str
        try:
            answer = ingest(batch, out)
        except (OSError, pa.ArrowException, FleetError) as error:
            answer = first_line(error)
        with suppress(OSError):  # whoever asked may be gone
            pipe.send(answer)
