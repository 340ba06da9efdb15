"""Trains a denoiser whose compiled step gets the autocast that the trainer makes for each batch."""

import torch
from torch import nn
from torch.nn import functional as F


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encode = nn.Linear(16, width)
        self.decode = nn.Linear(width, 16)

    def forward(self, noisy):
        return self.decode(F.silu(self.encode(noisy)))


class Trainer:
    def __init__(self, model, dtype=torch.bfloat16):
        self.model = model
        self.dtype = dtype
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        self.compute_loss = torch.compile(self._compute_loss)

    def precision(self):
        return torch.autocast("cpu", dtype=self.dtype)

    def _compute_loss(self, noisy, clean, precision):
        with precision:
            restored = self.model(noisy)
        return F.mse_loss(restored.float(), clean)

    def training_step(self, noisy, clean):
        loss = self.compute_loss(noisy, clean, self.precision())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(Denoiser())
clean = torch.randn(8, 16)
for _ in range(6):
    noisy = clean + 0.1 * torch.randn(8, 16)
    print("loss", repr(trainer.training_step(noisy, clean)))
# /// thread
# address = "https://github.com/pytorch/pytorch/pull/194754"
# asked = "Replacing an autocast object with an equivalent one causes an unnecessary recompile."
# answer = """\
# The object itself is guarded by its identity (ID_MATCH) until this is merged; an object that is kept is the \
# same one each time."""
# stack = "torch"
# mechanism = "identity"
# argument = "precision"
# before = ""
# after = ""
# line = 26
# lines_accepted = [34, 29, 28, 46]
# compiles = [6, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Make the autocast once."
# cure_lines = [
#   {line = 21, code = """
#         self.dtype = dtype
#         self.autocast = torch.autocast("cpu", dtype=dtype)"""},
#   {line = 26, code = "        return self.autocast"},
# ]
# cure_environment = {}
# losses = "close"
# ///
