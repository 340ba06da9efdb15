import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into = torch.nn.Linear(4, 4)
        self.recurrent = torch.nn.GRU(4, 4)
        self.out = torch.nn.Linear(4, 1)

    def forward(self, x):
        hidden = self.into(x)
        hidden, _ = self.recurrent(hidden)
        return self.out(hidden)


torch.manual_seed(0)
model = torch.compile(Tagger(), backend="aot_eager")
with torch.no_grad():
    for i in range(3):
        print("loss", model(torch.arange(8.0).reshape(2, 4) + i).sum().item())
