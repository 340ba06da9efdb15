"""A recurrent network's hidden state is None at first."""
# expect: type hidden None -> f32[3]
# settles: 2
# settling: type
# pattern: lazily_created

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, hidden):
    return x.tanh() if hidden is None else (x + hidden).tanh()


hidden = None
for _ in range(5):
    with coldstep.step():
        hidden = coldstep.wait(step(torch.ones(3), hidden))
