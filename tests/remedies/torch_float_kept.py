import torch

torch.manual_seed(0)
w = torch.randn(4, 4)


@torch.compile(backend="aot_eager")
def sample(x, temperature):
    return torch.softmax((x @ w) / temperature, dim=-1)


for i in range(5):
    temperature = 0.1 * i + 0.7
    probabilities = sample(torch.ones(2, 4), temperature)
    print("loss", probabilities.max().item(), round(temperature, 2))
