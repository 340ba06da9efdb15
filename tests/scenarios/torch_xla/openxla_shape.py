"""torch.compile(backend="openxla"): a smaller batch makes Dynamo compile again, and XLA its new graph."""
# expect: shape x "f32[5,4] @xla:0" -> "f32[3,4] @xla:0"
# settles: 2
# settling: shape
# settling: -

import torch
import torch_xla

import coldstep

device = torch_xla.device()
weight = torch.ones(4, 3).to(device)
torch_xla.sync()


@torch.compile(backend="openxla")
def forward(x):
    return (x @ weight).relu().sum()


for size in (5, 3, 3, 3, 3):
    x = torch.ones(size, 4).to(device)
    with coldstep.step():
        coldstep.wait(forward(x))
