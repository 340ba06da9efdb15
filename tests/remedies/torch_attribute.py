import torch

torch.manual_seed(0)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.l(x).sum() * (1.0 / self.calls)


m = M()
c = torch.compile(m, backend="aot_eager")
for _i in range(5):
    loss = c(torch.ones(2, 4))
    print("loss", loss.item())
