"""A key that is there or not."""
# expect: container batch {'x'} -> "{'x', 'mask'}"

import torch

import coldstep


@torch.compile(backend="eager")
def step(batch):
    return batch["x"] * batch["mask"] if "mask" in batch else batch["x"] * 2


x = torch.ones(3)
for batch in ({"x": x}, {"x": x}, {"x": x, "mask": x + 1}, {"x": x}):
    with coldstep.step():
        coldstep.wait(step(batch))
