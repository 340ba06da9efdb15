"""How a trace ended: what ended its block and where, which frameworks there were, and how much memory it took."""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import Any

from coldstep._util.figures import duration
from coldstep._util.installed import cell_of
from coldstep.errors import first_line, text_of
from coldstep.events import Args
from coldstep.places import Places, location
from coldstep.vocabulary import of_trace

_CO_GENERATOR = 0x20  # inspect.CO_GENERATOR, without the import
_NO_MEMORY = ("resource_exhausted", "defaultcpuallocator: can't allocate", "std::bad_alloc", "out of memory allocating")


def is_forked_by_multiprocessing() -> bool:
    """Whether this process is: it ends by `os._exit`, with its exit code and when its threads have ended. What it calls
    before that (finalizers, from Python 3.13 on what `atexit` has) knows no code, or comes before the threads."""
    process = sys.modules.get("multiprocessing.process")
    above = process.parent_process() if process is not None else None
    return above is not None and above.pid == os.getppid()


def how_it_ended(error: BaseException | None) -> tuple[str, str | None]:
    """What ended the block, in a word of the schema, and the error's text."""
    if error is None:
        return "ok", None
    kind, text, line = type(error).__name__, text_of(error).lower(), first_line(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", line
    if isinstance(error, SystemExit):
        return ("ok", None) if _is_good(error.code) else ("exit", line)
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or any(words in text for words in _NO_MEMORY):
        return "out_of_memory", line
    return "exception", line


def _is_good(code: object) -> bool:
    """Whether a program that exits with it ends well; it may be any object, whose `==` may be the program's own."""
    return code is None or (isinstance(code, int) and not code)


def without_events(wall_ns: int) -> str:
    """The headline of a trace without events, so that such a file need not be read back."""
    return f"no steps marked; {duration(wall_ns)}, nothing compiled"


def place_of(error: BaseException | None) -> Args | None:
    """The innermost place in the user's files that an error came through; no library's, nor Inductor's own code."""
    place = None
    places = Places()
    at = error.__traceback__ if error is not None else None
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith("<") and places.is_users(code.co_filename):
            place = location(code.co_filename, at.tb_lineno, code.co_qualname)
        at = at.tb_next
    return place


def way_of(error: BaseException) -> list[tuple[CodeType, int]]:
    """The instructions that an error has come through, outermost first. Of the user's objects it keeps only code alive.

    Without the generators that it came out through first: one of `contextlib.contextmanager` leaves no trace on it.
    """
    way: list[tuple[CodeType, int]] = []
    at = error.__traceback__
    while at is not None:
        if way or at.tb_next is None or not at.tb_frame.f_code.co_flags & _CO_GENERATOR:
            way.append((at.tb_frame.f_code, at.tb_lasti))
        at = at.tb_next
    return way


def versions(words: dict[str, Any]) -> dict[str, str]:
    """The versions of Python and of the packages that have been imported of those that a trace's vocabulary knows."""
    names = of_trace(words).packages()
    versions_of = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {"python": sys.version.split()[0]} | {name: str(version) for name, version in versions_of.items() if version}


def cells() -> dict[str, str]:
    """What a notebook calls its cells ("In[8]"), by the files that their code is of; in another program, nothing."""
    lines = sys.modules.get("linecache")  # which each notebook has imported
    return {file: cell for file in list(getattr(lines, "cache", ())) if (cell := cell_of(file)) is not None}


def peak_rss_bytes() -> int:
    """The most resident memory that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
