"""Dynamo's limit of variants of one function, and PyTorch's words for a compile that it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import get_ident
from types import FrameType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.places import location
from coldstep_collectors.torch._private import names

# PyTorch 2.9, 2.13: "FailOnRecompileLimitHit"
# PyTorch 2.9: "RecompileLimitExceeded"
_LIMIT = expression(r"(?:FailOn)?(?:Recompile|Cache)Limit(?:Exceeded|Hit)")
# PyTorch 2.13: "Dynamo recompile limit exceeded"
# PyTorch 2.9: "recompile_limit reached"
_LIMITED = expression(r"(?:recompile|cache) limit exceeded|(?:recompile|cache_size)_limit reached")


def is_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether a compile was refused because there are too many variants of its function."""
    reason = str(metadata.get("fail_reason"))
    return bool(_limits(metadata, error)) or ("limit" in reason and _LIMITED.search(reason) is not None)


def is_hard_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether it was, and the call failed of it (fullgraph=True)."""
    return any(kind.startswith("Fail") for kind in _limits(metadata, error))


def _limits(metadata: Mapping[str, Any], error: BaseException | None) -> list[str]:
    """The names of errors, of those that a compile ended with, that are a limit's."""
    kinds = type(error).__name__, str(metadata.get("fail_type"))
    return [kind for kind in kinds if "Limit" in kind and _LIMIT.fullmatch(kind)]


@slotted
class OfThread:
    """A limit that a function reached on one thread: PyTorch keeps its settings for each (2.12 and later)."""

    compile: str
    function: str
    limit: int
    thread: int
    """Its number."""
    begins: Args | None
    """The first statement of the user's function that the thread runs."""


def of_thread(compile: str, function: str, users: Iterable[FrameType]) -> OfThread | None:
    """The limit that was reached just now; `users`: the frames of the user's own. None where it is not known."""
    if (limit := recompile_limit()) is None:
        return None
    begins = None
    for code in [each.f_code for each in users][-1:]:
        lines = [line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno]
        if lines and code.co_name != "<module>":
            begins = location(code.co_filename, min(lines), code.co_qualname)
    return OfThread(compile, function, limit, get_ident(), begins)


def recompile_limit() -> int | None:
    """How many variants of one function Dynamo allows now."""
    limit = names.LIMIT.find()
    return limit if isinstance(limit, int) else None
