"""An LSTM's state: None at first, then a tuple."""
# expect: type state None -> "tuple of 2"
# settles: 2
# settling: type

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, state=None):
    h, c = (x, x) if state is None else state
    return (x + h).tanh(), (x * c).sigmoid()


state = None
for _ in range(5):
    with coldstep.step():
        state = coldstep.wait(step(torch.ones(3), state))
