"""Loads a forecaster's weights, with an option to compile the model, and forecasts a few windows."""

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 32)
        self.output = nn.Linear(32, 4)

    def load_checkpoint(self, weights, torch_compile=True):
        self.load_state_dict(weights)
        self.eval()
        if torch_compile:
            self = torch.compile(self, backend="eager")

    def forward(self, window):
        return self.output(torch.nn.functional.silu(self.hidden(window)))


torch.manual_seed(0)
weights = Forecaster().state_dict()
model = Forecaster()
model.load_checkpoint(weights, torch_compile=True)
with torch.no_grad():
    for _ in range(4):
        print("value", repr(model(torch.randn(8, 16)).sum().item()))
# /// thread
# address = "https://github.com/google-research/timesfm/issues/457"
# asked = "The model is never compiled although torch_compile=True and the log says that it compiles."
# answer = """\
# `self = torch.compile(self)` in a method only binds the local name again and the compiled model is thrown away; \
# assign the compiled forward to the module (pull request 459)."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "self"
# before = ""
# after = ""
# line = 17
# lines_accepted = [13, 16, 26, 29]
# compiles = [0, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Assign the compiled method to self.forward, which the module's call then uses."
# cure_lines = [
#   {line = 17, code = "            self.forward = torch.compile(self.forward, backend=\"eager\")"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
