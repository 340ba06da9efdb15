"""Trains with an optimizer that updates one parameter after the other, compiled, and counts its steps."""

import torch
from torch import nn
from torch.nn import functional as F


@torch.compile(backend="aot_eager", fullgraph=True)
def update(param, grad, state, lr, beta):
    state["momentum"].lerp_(grad, 1 - beta)
    param.add_(state["momentum"].sign(), alpha=-lr)
    state["step"] += 1


class SignedMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if not state:
                    state.update(step=0, momentum=torch.zeros_like(param))
                update(param, param.grad, state, group["lr"], group["beta"])


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 8, bias=False))
optimizer = SignedMomentum(network.parameters())
x = torch.randn(16, 8)
for _ in range(6):
    loss = F.mse_loss(network(x), x.roll(1, 1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/Koratahiu/Advanced_Optimizers/pull/6"
# asked = "With the count of steps inside the compiled update of a parameter, its guards fail at each step."
# answer = """\
# The count is a Python number of the state, guarded as 0: increment it outside the compiled function."""
# stack = "torch"
# mechanism = "python_scalar"
# argument = "state['step']"
# before = "0"
# after = "1"
# line = 12
# lines_accepted = [8, 9, 25, 26]
# compiles = [2, 1]
# counted = "compiles of update (counters['stats']['unique_graphs'])"
# cure = "Count outside."
# cure_lines = [
#   {line = 12, code = ""},
#   {line = 26, code = '''
#                 update(param, param.grad, state, group["lr"], group["beta"])
#                 state["step"] += 1'''},
# ]
# cure_environment = {}
# losses = "close"
# ///
