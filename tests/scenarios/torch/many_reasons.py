"""Eight variants, for two arguments and a mode: the limit, and what led to it."""
# expect: python_scalar mode 'sum' -> 'mean'
# expect: python_scalar mode 'mean' -> 'max'
# expect: container xs "list of 1" -> "list of 2"
# expect: container xs "list of 2" -> "list of 3"
# finding: repeat_offender
# finding: cache_limit
# finding: not_settled
# finding: silent_eager

import torch

import coldstep

torch._dynamo.config.recompile_limit = 5


@torch.compile(backend="eager")
def step(x, mode, xs):
    return (x + 1 if mode == "sum" else x * 2) + len(xs)


for mode, length in [("sum", 1), ("mean", 1), ("max", 1), ("max", 2), ("max", 3), ("max", 4), ("max", 5), ("max", 5)]:
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), mode, [0] * length))
