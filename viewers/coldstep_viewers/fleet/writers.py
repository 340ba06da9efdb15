"""One writer of a fleet's tables at a time: by a lock where files have one, else by claims that every writer lists.

An object store has no locks, and not every one creates an object only where there is none; but all list whatever was
put before. So a writer puts a claim, and then lists: of two, the one that put later sees the other's and gives way,
and two that see each other both do, and come again after a moment of chance. A claim is renewed while its writer
works, and one that was not for long does not count. Only times of the store itself are compared.
"""

from __future__ import annotations

import errno
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

import pyarrow as pa
from pyarrow import fs

from coldstep_viewers.fleet.places import FleetError, Place

_RENEWED_EVERY_S, _DEAD_AFTER_S = 60, 900
_TRIES, _PAUSE_S = 5, 1.0
_CLAIM = "claim"


@contextmanager
def locked(folder: Place, who: str, tables: str) -> Iterator[None]:
    """While this process writes: no other of the same name on this machine may. Raises FleetError."""
    import fcntl  # not everywhere, and only here

    folder.system.create_dir(folder.path, recursive=True)
    # appended to, for it may be a link that somebody else put there
    with open(folder.below(f"{who}.lock"), "a") as file, ExitStack() as otherwise:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise _taken(tables) from None
            otherwise.enter_context(claimed(folder, who, tables))  # a network's folder may have no locks
        yield


@contextmanager
def claimed(folder: Place, who: str, tables: str) -> Iterator[None]:
    """While this process writes: no other of the same name may, wherever it runs. Raises FleetError."""
    claim = folder.below(f"{who}.{secrets.token_hex(8)}.{_CLAIM}")
    over = Event()
    renewing = Thread(target=_renew, args=(folder, claim, over), daemon=True)
    try:
        _claim(folder, who, claim, tables)
        renewing.start()
        yield
    finally:
        over.set()
        if renewing.is_alive():
            renewing.join()
        _remove(folder, claim)


def _claim(folder: Place, who: str, claim: str, tables: str) -> None:
    for tried in range(_TRIES):
        if tried:
            _remove(folder, claim)
            time.sleep(random.uniform(0, _PAUSE_S))
        _put(folder, claim)
        if not _others(folder, who, claim):
            return
    raise _taken(tables, f"; where that died, its claim lapses within {_DEAD_AFTER_S // 60} minutes")


def _others(folder: Place, who: str, claim: str) -> bool:
    """Whether another's claim counts; those that do not any longer are removed."""
    infos = folder.system.get_file_info(fs.FileSelector(folder.path, recursive=False))
    claims = {info.path: info for info in infos if info.base_name.startswith(f"{who}.") and info.extension == _CLAIM}
    own = claims.pop(claim, None)
    if own is None:
        return True  # a listing that lags says nothing of others
    now = own.mtime_ns or 0
    dead = [path for path, info in claims.items() if (info.mtime_ns or now) < now - _DEAD_AFTER_S * 1_000_000_000]
    for path in dead:
        _remove(folder, path)
    return len(claims) > len(dead)


def _renew(folder: Place, claim: str, over: Event) -> None:
    while not over.wait(_RENEWED_EVERY_S):
        with suppress(OSError, pa.ArrowException):  # the next time, then
            _put(folder, claim)


def _put(folder: Place, path: str) -> None:
    with folder.system.open_output_stream(path) as file:
        file.write(b"\n")  # not every store keeps what is empty


def _remove(folder: Place, path: str) -> None:
    with suppress(OSError, pa.ArrowException):  # it was not put, or another one was first
        folder.system.delete_file(path)


def _taken(tables: str, unless: str = "") -> FleetError:
    return FleetError(f"another coldstep fleet load is writing {tables}: wait for it{unless}")
