"""A Triton kernel, compiled for an H100 that need not be there."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def fused(x, y, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at)) + tl.load(y + at))


def compiled(n: int) -> Any:
    """The kernel for blocks of n times 128."""
    pointers = dict.fromkeys(("x", "y", "out"), "*fp32")
    source = ASTSource(fused, pointers | {"BLOCK": "constexpr"}, {"BLOCK": 128 * n})
    return triton.compile(source, GPUTarget("cuda", 90, 32)).metadata.num_warps
