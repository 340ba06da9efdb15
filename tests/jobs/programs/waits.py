"""Waits, each in a trace of its own beside this file: those of a program that works in other processes and threads, and
some stretches that are none."""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LASTS_S = 1.0
CASES: dict[str, Callable[[], object]] = {}
WORKS = f"""
import time
until = time.monotonic() + {LASTS_S}
while time.monotonic() < until:
    began = time.process_time()
    while time.process_time() - began < 0.03: pass
    time.sleep(0.07)
"""
IDLES = ["sleep", str(LASTS_S)]


def case(wait: Callable[[], object]) -> Callable[[], object]:
    CASES[wait.__name__] = wait
    return wait


def work(_: object = None) -> int:
    """A third of a processor's."""
    exec(WORKS, {})
    return 1


def answer(connection: Any) -> None:
    connection.send(work())


def put(results: Any) -> None:
    results.put(work())


SPAWN = multiprocessing.get_context("spawn")


@case
def run() -> None:
    subprocess.run([sys.executable, "-c", WORKS], check=True)


@case
def communicate() -> None:
    subprocess.run(IDLES, check=True, capture_output=True)


@case
def system() -> None:
    os.system(" ".join(IDLES))


@case
def wait_within() -> None:
    subprocess.Popen(IDLES).wait(60)


@case
def join() -> None:
    process = SPAWN.Process(target=work)
    process.start()
    process.join()


@case
def two_joins() -> None:
    processes = [SPAWN.Process(target=work), SPAWN.Process(target=time.sleep, args=[2 * LASTS_S])]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


@case
def join_within() -> None:
    process = SPAWN.Process(target=work)
    process.start()
    process.join(60)


@case
def recv() -> None:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=answer, args=(theirs,))
    process.start()
    ours.recv()
    process.join()


@case
def get() -> None:
    results = SPAWN.Queue()
    process = SPAWN.Process(target=put, args=(results,))
    process.start()
    results.get()
    process.join()


@case
def pool_map() -> None:
    with SPAWN.Pool(1) as pool:
        pool.map(work, [0])


@case
def two_work() -> None:
    with SPAWN.Pool(2) as pool:
        pool.map(work, [0, 0], 1)


@case
def future() -> None:
    from concurrent.futures import ProcessPoolExecutor  # what a case starts imports this file, and needs none of that

    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        pool.submit(work).result()


@case
def loop() -> None:
    import asyncio

    async def main() -> None:
        await (await asyncio.create_subprocess_exec(sys.executable, "-c", WORKS)).wait()

    asyncio.run(main())


@case
def of_thread() -> None:
    results: queue.Queue[int] = queue.Queue()
    threading.Timer(LASTS_S, results.put, [1]).start()
    results.get()


@case
def thread_join() -> None:
    thread = threading.Thread(target=time.sleep, args=[LASTS_S])
    thread.start()
    thread.join()


@case
def accept() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Timer(LASTS_S, socket.create_connection, [server.getsockname()]).start()
        server.accept()


@case
def sleep() -> None:
    busy = subprocess.Popen([sys.executable, "-c", WORKS])
    time.sleep(LASTS_S)
    busy.kill()


@case
def works_itself() -> None:
    busy = subprocess.Popen([sys.executable, "-c", WORKS])
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        pass
    busy.kill()


def hold() -> None:
    """Keep the interpreter's lock in one call."""
    sum(range(40_000_000))


@case
def held() -> None:
    busy = subprocess.Popen([sys.executable, "-c", WORKS])
    hold()
    busy.kill()


@case
def held_by_another() -> None:
    busy = subprocess.Popen([sys.executable, "-c", WORKS])
    thread = threading.Thread(target=hold)
    thread.start()
    while thread.is_alive():
        pass
    busy.kill()


def of_zmq(receives: bool) -> None:
    import zmq

    context = zmq.Context()
    ours, theirs = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    theirs.connect(f"tcp://127.0.0.1:{ours.bind_to_random_port('tcp://127.0.0.1')}")
    threading.Timer(LASTS_S, theirs.send, [b"1"]).start()
    if not receives:
        poller = zmq.Poller()
        poller.register(ours, zmq.POLLIN)
        poller.poll()
    ours.recv()
    time.sleep(0.1)
    context.destroy(0)


@case
def zmq_poll() -> None:
    of_zmq(receives=False)


@case
def zmq_recv() -> None:
    of_zmq(receives=True)


QUEUE = """
import os, time
from contextlib import contextmanager

class MessageQueue:
    @contextmanager
    def acquire_read(self, until):
        while time.monotonic() < until:
            os.sched_yield()
        yield

    def dequeue(self, waits, works):
        now = time.monotonic()
        with self.acquire_read(now + waits):
            while time.monotonic() < now + waits + works:
                pass
"""


def of_vllm(waited: float, worked: float) -> None:
    """vLLM's queue in shared memory: its reader turns in a loop until there is a message, and then works on it."""
    folder = FOLDER / "vllm" / "distributed" / "device_communicators"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shm_broadcast.py").write_text(QUEUE)
    shm_broadcast: Any = import_module("vllm.distributed.device_communicators.shm_broadcast")
    shm_broadcast.MessageQueue().dequeue(waited, worked)


@case
def turns() -> None:
    of_vllm(LASTS_S, 0)


@case
def reads() -> None:
    of_vllm(0, LASTS_S)


if __name__ == "__main__":  # what it starts needs none of this
    import coldstep
    from coldstep_collectors.process import waits

    waits.SYSCALL = os.environ.get("SYSCALL", waits.SYSCALL)
    for name in sys.argv[1:] or CASES:
        try:
            with coldstep.trace(FOLDER / f"{name}.pftrace", collectors=["process"]):
                CASES[name]()
        except ModuleNotFoundError:
            (FOLDER / f"{name}.pftrace").unlink()
