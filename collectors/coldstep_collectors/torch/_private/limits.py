"""Dynamo's limit of variants of one function, and PyTorch's words for a compile that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coldstep._util.expressions import expression
from coldstep_collectors.torch._private import names

# PyTorch 2.9, 2.13: "FailOnRecompileLimitHit"
# PyTorch 2.9: "RecompileLimitExceeded"
_LIMIT = expression(r"(?:FailOn)?(?:Recompile|Cache)Limit(?:Exceeded|Hit)")
# PyTorch 2.13: "Dynamo recompile limit exceeded"
# PyTorch 2.9: "recompile_limit reached"
_LIMITED = expression(r"(?:recompile|cache) limit exceeded|(?:recompile|cache_size)_limit reached")


def is_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether a compile was refused because there are too many variants of its function."""
    kinds = type(error).__name__, str(metadata.get("fail_type"))
    if any(_LIMIT.fullmatch(kind) for kind in kinds):
        return True
    return _LIMITED.search(str(metadata.get("fail_reason"))) is not None


def is_hard_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether it was, and the call failed of it (fullgraph=True)."""
    kinds = type(error).__name__, str(metadata.get("fail_type"))
    return any(_LIMIT.fullmatch(kind) and kind.startswith("Fail") for kind in kinds)


def recompile_limit() -> int | None:
    """How many variants of one function Dynamo allows now."""
    limit = names.LIMIT.find()
    return limit if isinstance(limit, int) else None
