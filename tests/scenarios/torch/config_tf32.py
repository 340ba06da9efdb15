"""TF32 is turned on by PyTorch's newer setting, after which the older one cannot be read."""
# expect: config allow_tf32 False -> True

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for precision in ("ieee", "ieee", "tf32", "ieee"):
    torch.backends.cuda.matmul.fp32_precision = precision
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
