"""Two modules of one class, with one parameter and with two."""

# shows: rules.dynamo REMEDIES[container of a module]
import torch


class Norm(torch.nn.Module):
    def __init__(self, affine):
        super().__init__()
        self.register_parameter("scale", torch.nn.Parameter(torch.ones(4)))
        if affine:
            self.register_parameter("shift", torch.nn.Parameter(torch.zeros(4)))

    def forward(self, x):
        for p in self.parameters():
            x = x * p
        return x


norms = [Norm(False), Norm(True)]


@torch.compile(backend="eager")
def f(n, x):
    return n(x).sum()


x = torch.ones(2, 4)
for n in norms:
    print("loss", float(f(n, x)))
