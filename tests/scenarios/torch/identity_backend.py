"""A new backend function each time."""
# expect: identity backend mine -> "another mine"

import torch

import coldstep


def backend():
    def mine(graph, inputs):
        return graph.forward

    return mine


def step(x):
    return x.sin()


first, second = backend(), backend()
for mine in (first, first, second, first):
    with coldstep.step():
        coldstep.wait(torch.compile(step, backend=mine)(torch.ones(3)))
