"""Runs a compiled model, then registers a hook that clips the activations of its first layer, and runs it again."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model = torch.compile(network, backend="eager")
x = torch.randn(16, 4)


def clip(module, inputs, output):
    return output.clamp(-0.2, 0.2)


print("value", repr(model(x).square().mean().item()))
network[0].register_forward_hook(clip)
for _ in range(3):
    print("value", repr(model(x).square().mean().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/117758"
# asked = "Hooks that are registered after the first compilation of a compiled model do not run."
# answer = """\
# By default no guards are kept on the dicts of hooks; set torch._dynamo.config.skip_nnmodule_hook_guards to \
# False before the first call."""
# stack = "torch"
# mechanism = "module_attribute"
# argument = "register_forward_hook"
# before = ""
# after = ""
# line = 17
# lines_accepted = [8, 12, 16]
# compiles = [1, 2]
# counted = "compiles of the model (the second sees the hook)"
# cure = "Set torch._dynamo.config.skip_nnmodule_hook_guards to False."
# cure_lines = [
#   {line = 6, code = """
# torch.manual_seed(0)
# torch._dynamo.config.skip_nnmodule_hook_guards = False"""},
# ]
# cure_environment = {}
# losses = "other"
# ///
