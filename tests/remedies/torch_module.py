import torch

torch.manual_seed(0)
layers = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), backend="aot_eager")
for n in (8, 8, 5, 6):
    batch = torch.ones(n, 3)
    loss = layers(batch).sum()
    print("loss", loss.item())
