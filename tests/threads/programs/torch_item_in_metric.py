"""Trains a draft head with a compiled loss that also computes the accuracy over the masked tokens."""

# /// thread
# address = "https://github.com/sgl-project/SpecForge/pull/222"
# asked = "Training prints 'Graph break from Tensor.item()' at the accuracy of the compiled loss."
# answer = """\
# The accuracy is turned into a Python number inside the compiled function; keep it a tensor and read it outside."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "hits.sum().item() / (mask.sum().item() + 1e-6)"
# before = ""
# after = ""
# line = 35
# lines_accepted = [31, 35, 43]
# compiles = [3, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Leave out .item() in the accuracy ; the loop reads the number outside the compiled function."
# cure_lines = [{line = 35, code = "    accuracy = hits.sum() / (mask.sum() + 1e-6)"}]
# cure_environment = {}
# losses = "close"
# ///

import torch
from torch import nn

torch.manual_seed(0)
head = nn.Linear(16, 8)
optimizer = torch.optim.SGD(head.parameters(), lr=0.5)


@torch.compile(backend="eager")
def loss_and_accuracy(hidden, labels, mask):
    logits = head(hidden)
    hits = (logits.argmax(dim=-1) == labels) * mask
    accuracy = hits.sum().item() / (mask.sum().item() + 1e-6)
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    return (losses * mask).mean(), accuracy


for _ in range(4):
    hidden, labels = torch.randn(32, 16), torch.randint(8, (32,))
    mask = (torch.rand(32) < 0.8).float()
    loss, accuracy = loss_and_accuracy(hidden, labels, mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item() + float(accuracy)))
