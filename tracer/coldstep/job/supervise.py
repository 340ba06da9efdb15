"""Runs a command as the shell would, and waits for it: terminal, signals and exit code are the command's."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_KEYS = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the command itself


def supervise(path: str, command: list[str], prepare: Callable[[], None]) -> int:
    """Run the program at `path` until it ends: its exit code, or minus the signal that ended it. `prepare()` is called
    in the new process. Raises OSError where the program cannot be run."""
    errors, tells = os.pipe()  # closed by the program's beginning
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, *_KEYS})
    pid = os.fork()
    if pid == 0:
        _become(path, command, prepare, before, tells)
    os.close(tells)
    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    for number in _KEYS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with open(errors, "rb") as file:
        error = file.read()
    _, status = os.waitpid(pid, 0)
    if error:
        raise OSError(int(error), os.strerror(int(error)))
    return os.waitstatus_to_exitcode(status)


def _become(path: str, command: list[str], prepare: Callable[[], None], mask: set[int], tells: int) -> NoReturn:
    try:
        prepare()
        # Python ignores these from its own start on, and its children would, too
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execv(path, command)
    except OSError as error:
        os.write(tells, str(error.errno).encode())
    finally:
        os._exit(127)


def end_as(code: int) -> NoReturn:
    """End as the command ended, by the same signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
