"""Trains a small regressor whose forward warns about an argument that is no longer used."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x, group=None):
        hidden = torch.tanh(self.first(x))
        if group is None:
            warnings.warn("group will be required", stacklevel=2)
        return self.second(hidden)


torch.manual_seed(0)
regressor = Regressor()
model = torch.compile(regressor, backend="eager")
optimizer = torch.optim.SGD(regressor.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)

for _ in range(4):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/135688"
# asked = "Graph break due to the unsupported Python builtin _warnings.warn."
# answer = """\
# Add the function to torch._dynamo.config.reorderable_logging_functions, so that it is called at the end of the \
# graph; the asker confirms that it helps."""
# stack = "torch"
# mechanism = "other: graph break at a builtin that Dynamo does not trace"
# argument = "warnings.warn"
# before = ""
# after = ""
# line = 20
# lines_accepted = [17, 21, 31]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Add warnings.warn to the reorderable logging functions before the model is compiled."
# cure_lines = [
#   {line = 24, code = """
# torch.manual_seed(0)
# torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
