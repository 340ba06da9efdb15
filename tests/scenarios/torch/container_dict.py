"""Another set of keys."""
# expect: container losses {'a'} -> "{'a', 'b'}"

import torch

import coldstep


@torch.compile(backend="eager")
def total(losses):
    return sum(loss.sum() for loss in losses.values())


x = torch.ones(3)
for losses in ({"a": x}, {"a": x}, {"a": x, "b": x * 2}, {"a": x}):
    with coldstep.step():
        coldstep.wait(total(losses))
