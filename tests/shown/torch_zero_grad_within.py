"""zero_grad() in a compiled function."""

# shows: breaks _BY_REASON[`Optimizer\.zero_grad`]
import torch

model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)


@torch.compile(backend="eager")
def f(x):
    opt.zero_grad()
    return model(x).sum()


for _ in range(3):
    loss = f(torch.ones(2, 4))
    loss.backward()
    opt.step()
    print("loss", float(loss))
