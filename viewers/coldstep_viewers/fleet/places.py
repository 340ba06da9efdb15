"""Where a fleet's traces and tables are: folders here, or object stores by pyarrow's own file systems.

Credentials come from the environment, as each store's own tools take them, and never from an address.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from coldstep._util.command_secrets import hidden
from coldstep.errors import ColdstepError

_SUFFIX = ".pftrace"
# URL: "%#?"
_SPECIAL = re.compile(r"[%#?]")
# Shell: "ci/**/*.pftrace"
_WILD = re.compile(r"[*?\[]")


class FleetError(ColdstepError, ValueError):
    """A reason why a fleet cannot be read or reported; the message is one line."""


@dataclass(frozen=True, slots=True)
class Object:
    """A source's content, as its listing shows it."""

    uri: str
    """An absolute path here, or an address."""
    size: int
    """In bytes."""
    modified: int
    """When it was last written, in nanoseconds since 1970; 0 where the store does not report it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file system, and a path in it."""

    system: Any
    """pyarrow's."""
    path: str
    """As that file system wants it."""

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return isinstance(self.system, fs.LocalFileSystem)

    def below(self, name: str) -> str:
        """The path of what lies below."""
        return f"{self.path.rstrip('/')}/{name}"


def place(text: str) -> Place:
    """The place that a path or an address names. Raises FleetError for an address that names none."""
    if "://" not in text:
        return Place(fs.LocalFileSystem(), os.path.abspath(text))
    address = urlsplit(text)
    named = address.password is not None or (address.scheme == "s3" and address.username)
    if named or hidden([address.query]) != [address.query]:
        raise FleetError(f"{address.scheme}://…@{address.hostname}: credentials belong into the environment")
    try:
        system, top = _bucket(address)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FleetError(f"{text}: {_line(error)}") from None
    return Place(system, f"{top}{unquote(address.path)}".rstrip("/"))


def _bucket(address: SplitResult) -> tuple[Any, str]:
    """A bucket's file system, and the path of the bucket in it."""
    return _system(f"{address.scheme}://{address.netloc}", _query(address))


def _query(address: SplitResult) -> str:
    return f"?{address.query}" if address.query else ""


@cache
def _system(top: str, query: str) -> tuple[Any, str]:
    """Made once, for it may ask the network where the bucket is."""
    system, path = fs.FileSystem.from_uri(f"{top}/{query}" if top.startswith("file") else top + query)
    return system, path.rstrip("/")


def objects(source: str) -> Iterator[Object]:
    """What `source` names: a file, the traces below a folder or prefix, or all that a pattern matches.

    Raises FleetError where it cannot be listed.
    """
    at = place(source)
    if at.is_local:
        yield from _files(source)
        return
    address = urlsplit(source)
    top = _bucket(address)[1]
    for info in _listed(source, at):
        # a key may have anything in it, and an address names it in full: an account may stand before the path
        key = _SPECIAL.sub(lambda match: quote(match[0]), info.path.removeprefix(top))
        uri = f"{address.scheme}://{address.netloc}{key}{_query(address)}"
        yield Object(uri, info.size or 0, info.mtime_ns or 0)


def _files(source: str) -> Iterator[Object]:
    path = place(source).path if "://" in source else source
    if os.path.isdir(path):
        files = [str(each) for each in Path(path).rglob(f"*{_SUFFIX}")]
    elif _WILD.search(path) and not os.path.exists(path):
        files = glob.glob(path, recursive=True)
    else:
        files = [path]
    for each in sorted(files):
        try:
            status = os.stat(each)
        except OSError as error:
            if each == path:
                raise FleetError(f"cannot read {each}: {error.strerror}") from None
            yield Object(os.path.abspath(each), 0, 0)  # reading it tells, and whoever wants the others has them
            continue
        if not os.path.isdir(each):
            yield Object(os.path.abspath(each), status.st_size, status.st_mtime_ns)


def _listed(source: str, at: Place) -> list[Any]:
    wild = _WILD.search(at.path)
    base = at.path[: wild.start()].rpartition("/")[0] if wild else at.path
    pattern = at.path.replace("**/", "*") if wild else f"*{_SUFFIX}"
    try:
        if not wild and (only := at.system.get_file_info(base)).type == fs.FileType.File:
            return [only]
        infos = at.system.get_file_info(fs.FileSelector(base, recursive=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FleetError(f"cannot list {source}: {_line(error)}") from None
    files = (info for info in infos if info.type == fs.FileType.File)
    return sorted((info for info in files if fnmatchcase(info.path, pattern)), key=lambda info: info.path)


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]
