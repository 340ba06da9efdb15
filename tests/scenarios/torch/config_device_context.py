"""A default device as a context."""
# expect: config torch_function_modes none -> DeviceContext
# before: torch 2.6: a device as a context compiles nothing

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3)
for device in (None, None, "cpu", None):
    with coldstep.step(), torch.device(device) if device else coldstep.annotate("no device"):
        coldstep.wait(step(x))
