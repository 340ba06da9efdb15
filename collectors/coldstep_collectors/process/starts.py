"""Notices each process that this one starts: through `subprocess`, through `multiprocessing`, by a fork."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

from coldstep.clock import now

_EXEC = ("os", "pty", "subprocess")  # modules that fork to run another program at once
_forked: list[Callable[[FrameType], None]] = []
_watches_forks = False


def around_popen(
    popen: Any, began: Callable[[Any, object, int, FrameType], None], ended: Callable[[Any], None]
) -> Callable[[], str | None]:
    """Call `began` for every process started through `subprocess.Popen`, and `ended` when its end is known there."""
    init, poll, wait = popen.__init__, popen.poll, popen.wait

    @wraps(init)
    def started(self: Any, args: object, *rest: Any, **options: Any) -> None:
        ns = now()
        init(self, args, *rest, **options)
        began(self, args, ns, sys._getframe(1))

    @wraps(poll)
    def polled(self: Any) -> Any:
        running = self.returncode is None
        result = poll(self)
        if running and result is not None:
            ended(self)
        return result

    @wraps(wait)
    def waited(self: Any, *args: Any, **options: Any) -> Any:
        running = self.returncode is None
        result = wait(self, *args, **options)
        if running and result is not None:
            ended(self)
        return result

    return _replace(popen, {"__init__": started, "poll": polled, "wait": waited})


def around_start(process: Any, began: Callable[[Any, object, int, FrameType], None]) -> Callable[[], str | None]:
    """Call `began` for every process started through `multiprocessing`, whichever its start method, with the function
    that it runs."""
    start = process.start

    @wraps(start)
    def started(self: Any) -> None:
        ns, target = now(), getattr(self, "_target", None)  # which the process forgets as it starts
        start(self)
        began(self, target, ns, sys._getframe(1))

    return _replace(process, {"start": started})


def after_forks(forked: Callable[[FrameType], None]) -> Callable[[], str | None]:
    """Call `forked` in this process after each fork of its program's own, but for those that run another program."""
    global _watches_forks
    if not _watches_forks:  # which cannot be undone
        _watches_forks = True
        os.register_at_fork(after_in_parent=_after_fork)
    _forked.append(forked)
    return lambda: _forked.remove(forked)


def _after_fork() -> None:
    frame = sys._getframe(1)
    module = str(frame.f_globals.get("__name__", ""))
    if module not in _EXEC and not module.startswith("multiprocessing."):
        for forked in _forked:
            forked(frame)


def _replace(owner: Any, ours: dict[str, Any]) -> Callable[[], str | None]:
    """Put these methods in the place of a class's own; what takes them away again, where they are still there."""
    real = {name: getattr(owner, name) for name in ours}
    for name, hook in ours.items():
        setattr(owner, name, hook)

    def undo() -> str | None:
        kept = [name for name, hook in ours.items() if getattr(owner, name) is not hook]
        for name in ours.keys() - kept:
            setattr(owner, name, real[name])
        called = f", {owner.__name__}.".join(kept)
        return f"wrappers of {owner.__name__}.{called}, which other wrappers call" if kept else None

    return undo
