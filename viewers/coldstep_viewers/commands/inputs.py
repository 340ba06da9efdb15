"""The traces that a command is given: read whole or as far as they can be, and never written over."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TypeVar

from coldstep.converting.rewrite import merge
from coldstep.errors import TraceError, refuse_to_replace
from coldstep.job.parts import parts_of
from coldstep.loading import load
from coldstep.model import Trace
from coldstep_viewers.commands.output import give_up, or_fail

Read = TypeVar("Read")


def loaded(path: str, step: str | None = None) -> Trace:
    """The trace at `path`; a file that is none becomes one line on stderr and exit code 2.

    `step` names its steps where it marks none.
    """
    with or_fail():
        return opened(path, step)


def opened(path: str, step: str | None = None, *, job: bool = True) -> Trace:
    """The same, but of a file that is none it raises TraceError; without `job`, of the one process that wrote it."""
    gc.disable()  # of a trace's millions of objects none is garbage: to look for some takes a fourth of the time
    try:
        return load(path, step=step, job=job)
    finally:
        gc.freeze()  # nor is any while it is shown
        gc.enable()


def readable(paths: Iterable[str], read: Callable[[str], Read], lost: list[str]) -> Iterator[tuple[str, Read]]:
    """Read each, one at a time, for there may be hundreds; `lost` gets the reason for each that cannot be read."""
    for path in paths:
        try:
            yield path, read(path)
        except TraceError as error:
            lost.append(str(error))


def all_loaded(paths: Iterable[str]) -> tuple[list[tuple[str, Trace]], list[str]]:
    """The traces that can be read, by path, and of each other one why it cannot; exit code 2 where that is all."""
    lost: list[str] = []
    found = list(readable(paths, opened, lost))
    if not found:
        give_up(lost)
    return found, lost


@contextmanager
def in_one_file(path: str) -> Iterator[str]:
    """The trace at `path` as one file, all processes in it: of a job's FILE a temporary one. Raises TraceError."""
    parts = parts_of(path)
    if parts == [path]:
        yield path
        return
    with TemporaryDirectory(prefix="coldstep-") as folder:
        merge(parts, out := os.path.join(folder, os.path.basename(path)))
        yield out


def protect(inputs: Iterable[str], out: str) -> None:
    """Refuse to write `out` over one of the files that are read."""
    with or_fail():
        refuse_to_replace(inputs, out)
