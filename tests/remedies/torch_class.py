import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(4, 1)

    def forward(self, x):
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value):
                return value.view_as(value)

            @staticmethod
            def backward(ctx, gradient):
                return -0.5 * gradient

        return self.out(Reverse.apply(x * 2))


torch.manual_seed(0)
model = torch.compile(Net(), backend="aot_eager")
for i in range(3):
    loss = model(torch.arange(4.0) + i).sum()
    loss.backward()
    print("loss", loss.item())
