"""Trains a classifier with a domain head whose gradient is turned around, compiled as a whole."""

import torch
from torch import nn


class DomainClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(8, 16)
        self.domain = nn.Linear(16, 2)

    def forward(self, x):
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value):
                return value.view_as(value)

            @staticmethod
            def backward(ctx, gradient):
                return -0.5 * gradient

        return self.domain(Reverse.apply(torch.relu(self.features(x))))


torch.manual_seed(0)
classifier = DomainClassifier()
model = torch.compile(classifier, backend="eager")
optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
x = torch.randn(32, 8)
domain = (x[:, 0] > 0).long()

for _ in range(5):
    loss = nn.functional.cross_entropy(model(x), domain)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/deepspeedai/DeepSpeed/pull/7062"
# asked = "A class that is defined in a method which is compiled breaks the graph (missing: LOAD_BUILD_CLASS)."
# answer = """\
# Dynamo does not trace the definition of a class; the fix moves the inner classes out of the compiled method."""
# stack = "torch"
# mechanism = "other: graph break at a class definition"
# argument = "Reverse"
# before = ""
# after = ""
# line = 14
# lines_accepted = [13, 23, 28, 34]
# compiles = [5, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs']): the class is new in each step"
# cure = "Define the class once, outside of forward."
# cure_lines = [
#   {line = 13, code = ""},
#   {line = 14, code = "    class Reverse(torch.autograd.Function):"},
#   {line = 23, code = """
#     def forward(self, x):
#         return self.domain(self.Reverse.apply(torch.relu(self.features(x))))"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
