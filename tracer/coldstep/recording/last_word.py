"""Has a trace record that SIGTERM's default action ended its process, and where; and the argument of `os._exit`.

Python runs a handler only when a call into C is over: a process in a long one would not end. `faulthandler` has one in
C. It needs no interpreter: it writes where its thread is, puts the default action back and raises the signal again, so
that the process dies of it, at once, as it would without us. `signal.getsignal` knows nothing of it, and any handler of
the program's replaces it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from coldstep._util.threads import SIGNALS
from coldstep.errors import contained
from coldstep.recording.output import above_stderr

_TERM = signal.SIGTERM
_SPARE = max(SIGNALS)  # one that nobody uses
_WORDS = 32  # more than any system's `struct sigaction` has; the handler is the first
_slot: weakref.ref[_File] | None = None  # what faulthandler writes to, unless somebody has given it something else


class _File:
    """What faulthandler holds on to; we do not, and so see when it lets go."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def flush(self) -> None:
        """All is written."""


class LastWord:
    """Of one trace, whose file takes words written behind its end (`pftrace.writer.OPEN_END`)."""

    def __init__(self, exits: Callable[[Any], None]) -> None:
        self._exits = exits
        self._fd = -1
        self._undo: list[Callable[[], None]] = []
        self._sees_exits = [True]

    def listen(self, file: str) -> None:
        """From now on."""
        self._fd = above_stderr(os.open(file, os.O_WRONLY | os.O_APPEND))
        self._arm()
        self._undo += [
            _around(signal, "signal", [True], after=lambda number, *_: self._arm() if number == _TERM else None),
            _around(os, "_exit", self._sees_exits, before=self._exits),
        ]

    def _arm(self) -> None:
        """Unless the program does something else with the signal."""
        global _slot
        if self._fd < 0 or not _may_be_taken():
            return
        if _file() is not None:
            faulthandler.unregister(_TERM)
        file: Any = _File(self._fd)
        faulthandler.register(_TERM, file=file, all_threads=False, chain=True)
        _slot = weakref.ref(file)

    def leave(self) -> None:
        """Take back all that `listen` changed; may be called again."""
        while self._undo:
            self._undo[-1]()
            self._undo.pop()
        if (file := _file()) is not None and file.fd == self._fd:
            if _may_be_taken():
                faulthandler.unregister(_TERM)
            else:  # the program's handler stays as it is, and this one is called by none
                faulthandler.register(_TERM, file=2, all_threads=False, chain=True)
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def in_child(self) -> None:
        """In a fork's child, which dies of the signal as it would, and does not write."""
        self._sees_exits.clear()
        if self._fd >= 0:
            self._write_to(os.devnull)

    def begin_anew(self) -> None:
        """There, before the first that may be recorded."""
        self._sees_exits.append(True)

    def goes_on(self, file: str) -> None:
        """In a fork's child that now has a file of its own."""
        if self._fd >= 0:
            self._write_to(file)
        else:
            self.listen(file)

    def _write_to(self, file: str) -> None:
        """With the same descriptor, which the handler holds."""
        fd = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)


def _file() -> _File | None:
    return _slot() if _slot is not None else None


def _may_be_taken() -> bool:
    """Whether the signal has its default action, or one that only we have added something to."""
    if signal.getsignal(_TERM) is not signal.SIG_DFL:
        return False
    return not _is_caught() or (_file() is not None and _is_faulthandlers())


def _is_caught() -> bool:
    """Whether the process has any handler of it, as the system knows."""
    try:
        with open("/proc/self/status") as status:
            caught = next(line.split()[1] for line in status if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return True
    return bool(int(caught, 16) >> (_TERM - 1) & 1)


def _is_faulthandlers() -> bool:
    """Whether the handler is faulthandler's, and not one that a library has put in its place from C."""
    ctypes = sys.modules.get("ctypes")  # which whatever brings such a library has imported
    if ctypes is None:
        return True
    handlers = []
    faulthandler.register(_SPARE, file=2)
    for number in (_TERM, _SPARE):
        action = (ctypes.c_void_p * _WORDS)()
        ctypes.CDLL(None).sigaction(number, None, action)
        handlers.append(action[0])
    faulthandler.unregister(_SPARE)
    return bool(handlers[0] == handlers[1])


def _around(
    owner: Any,
    name: str,
    is_on: list[bool],
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
) -> Callable[[], None]:
    """While there is something in `is_on`, have `before` or `after` called with what `owner.name` is called with;
    returns what undoes that."""
    real = getattr(owner, name)

    @wraps(real)
    def around(*args: Any, **kwargs: Any) -> Any:
        if before is not None and is_on:
            with contained():
                before(*args, **kwargs)
        result = real(*args, **kwargs)
        if after is not None and is_on:
            with contained():
                after(*args, **kwargs)
        return result

    def undo() -> None:
        is_on.clear()
        if getattr(owner, name) is around:
            setattr(owner, name, real)

    setattr(owner, name, around)
    return undo
