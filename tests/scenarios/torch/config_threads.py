"""Another number of threads."""
# expect: config num_threads 1 -> 2

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for threads in (1, 1, 2, 1):
    torch.set_num_threads(threads)
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
