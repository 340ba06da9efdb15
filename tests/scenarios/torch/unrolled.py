"""A Python loop over time steps is a part of the graph as often as it turns."""
# expect: nothing
# finding: unrolled

import torch

import coldstep


@torch.compile(backend="eager")
def run(sequence, weight):
    state = torch.zeros(4)
    for t in range(sequence.shape[0]):
        state = torch.tanh(sequence[t] + weight * state)
    return state


for _ in range(4):
    with coldstep.step():
        run(torch.ones(40, 4), torch.ones(4))
