"""The stance forbids recompiling: PyTorch raises, and nothing is compiled."""
# expect: nothing
# settles: 1

import contextlib

import torch

import coldstep


@torch.compile(backend="eager", dynamic=False)
def step(x):
    return x * 2


for size in (4, 4, 5, 4):
    stance = torch.compiler.set_stance("fail_on_recompile" if size == 5 else "default")
    with coldstep.step(), stance, contextlib.suppress(RuntimeError):
        coldstep.wait(step(torch.ones(size)))
