"""A call into a C library."""
# expect: nothing
# settles: 1
# break: unsupported_call

import zlib

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    y = x + 1
    zlib.crc32(b"abc")
    return y * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
