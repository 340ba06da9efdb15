"""Sees into how many parts PyTorch divides a graph under DistributedDataParallel: one for each bucket of gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from coldstep_collectors.patch import Patch

MODULE = "torch._dynamo.backends.distributed"


def watch(module: ModuleType, divided: Callable[[int], Any]) -> Patch | None:
    """Have `divided(parts)` called for each graph of several; None where that cannot be."""
    owner = getattr(module, "DDPOptimizer", None)
    real = getattr(owner, "compile_fn", None)
    if owner is None or real is None:
        return None

    def compile_fn(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(self, *args, **kwargs)
        finally:
            if (parts := len(getattr(self, "buckets", ()))) > 1:
                divided(parts)

    return Patch(owner, "compile_fn", compile_fn)
