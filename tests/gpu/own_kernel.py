"""Runs a Triton kernel of its own, and one that Triton tunes, on the device $DEVICE; Triton prints what that took."""

import os

import torch
import triton
import triton.language as tl

import coldstep


@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


tuned_kernel = triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 512, 1024, 2048) for warps in (2, 4, 8)],
    key=["n"],
)(add_kernel)

device = os.environ["DEVICE"]
x = torch.zeros(1 << 24, device=device)
out = torch.empty_like(x)
with coldstep.trace("run.pftrace"):
    for _ in range(4):
        with coldstep.step():
            add_kernel[(x.numel() // 512,)](x, out, x.numel(), BLOCK=512)
            tuned_kernel[lambda given: (triton.cdiv(x.numel(), given["BLOCK"]),)](x, out, x.numel())
            coldstep.wait(out)
assert out.sum().item() == x.numel()
