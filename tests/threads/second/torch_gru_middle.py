"""Trains a small denoiser of sensor series, a projection, a recurrent layer and a head, with torch.compile."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 8)
        self.recurrent = nn.GRU(8, 8, batch_first=True)
        self.decode = nn.Linear(8, 4)

    def forward(self, series):
        hidden = torch.tanh(self.encode(series))
        hidden, _ = self.recurrent(hidden)
        return self.decode(torch.relu(hidden))


torch.manual_seed(0)
denoiser = Denoiser()
model = torch.compile(denoiser, backend="eager")
optimizer = torch.optim.SGD(denoiser.parameters(), lr=0.1)
clean = torch.randn(6, 10, 4)
noisy = clean + 0.1 * torch.randn(6, 10, 4)

for _ in range(5):
    loss = nn.functional.mse_loss(model(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/167275"
# asked = "A compiled model with a GRU is not compiled as a whole: the graph is broken on purpose at the layer."
# answer = """\
# Dynamo does not trace RNN, GRU and LSTM modules unless torch._dynamo.config.allow_rnn is True; the fix of the \
# thread (pull request 171266) names that switch in the message."""
# stack = "torch"
# mechanism = "other: graph break at a module that Dynamo does not trace"
# argument = "self.recurrent"
# before = ""
# after = ""
# line = 16
# lines_accepted = [11, 17, 22]
# compiles = [1, 0]
# counted = "graph breaks that TORCH_LOGS=graph_breaks reports (the layer and the head then run eagerly)"
# cure = "Set torch._dynamo.config.allow_rnn to True before the model is compiled."
# cure_lines = [
#   {line = 20, code = """
# torch.manual_seed(0)
# torch._dynamo.config.allow_rnn = True"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
