"""The last batch is smaller."""
# expect: shape batch['x'] f32[8,4] -> f32[5,4]
# settles: 1

import torch

import coldstep


@torch.compile(backend="eager")
def train_step(batch):
    return (batch["x"] ** 2).sum()


for size in (8, 8, 8, 8, 5):
    batch = {"x": torch.ones(size, 4)}
    with coldstep.step():
        coldstep.wait(train_step(batch))
