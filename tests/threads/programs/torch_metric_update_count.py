"""Keeps a running accuracy in a compiled metric module that counts its own updates."""

# /// thread
# address = "https://github.com/meta-pytorch/torchrec/pull/4338"
# asked = "A compiled metric's update is recompiled at each call until the recompile limit fails the job."
# answer = """\
# update() adds to an integer attribute of the module, and Dynamo holds module integers constant; set \
# allow_unspec_int_on_nn_module = True."""
# stack = "torch"
# mechanism = "module_attribute"
# argument = "self._update_count"
# before = "0"
# after = "1"
# line = 37
# lines_accepted = [37, 39, 43, 46]
# compiles = [6, 2]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Set torch._dynamo.config.allow_unspec_int_on_nn_module = True before the first call."
# cure_lines = [
#     {line = 42, code = "torch._dynamo.config.allow_unspec_int_on_nn_module = True\ntorch.manual_seed(0)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn


class RunningAccuracy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("correct", torch.zeros(()))
        self._update_count = 0

    def forward(self, logits, labels):
        self._update_count += 1
        self.correct = self.correct + (logits.argmax(dim=1) == labels).float().mean()
        return self.correct / self._update_count


torch.manual_seed(0)
metric = torch.compile(RunningAccuracy(), backend="eager")
for _ in range(6):
    logits, labels = torch.randn(32, 4), torch.randint(4, (32,))
    print("value", repr(metric(logits, labels).item()))
