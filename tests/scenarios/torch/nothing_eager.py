"""Nothing is compiled at all."""
# expect: nothing

import torch

import coldstep

for size in (8, 6, 5):
    with coldstep.step():
        coldstep.wait(torch.ones(size).sin())
