"""The first of two blocks gets a tensor without gradients, the second what the first one made."""
# expect: requires_grad x f32[3] -> "f32[3] requires_grad"
# settles: 1
# pattern: fed_back_output

import torch

import coldstep


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.adapter = torch.nn.Parameter(torch.ones(3))


@torch.compile(backend="aot_eager")
def block(x, adapter):
    return x + x * adapter


blocks = [Block(), Block()]
for _ in range(5):
    x = torch.ones(3)
    with coldstep.step():
        for each in blocks:
            x = block(x, each.adapter)
        coldstep.wait(x.sum().backward())
