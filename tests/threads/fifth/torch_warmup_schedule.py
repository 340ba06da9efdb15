"""Trains a small encoder with a warm-up of the learning rate; the optimizer's step is compiled, too."""

import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WARMUP_STEPS, MAX_STEPS, BASE_LR = 4, 10, 3e-3


def lr_lambda(step):
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / (MAX_STEPS - WARMUP_STEPS)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


class Encoder(nn.Module):
    def __init__(self, vocab_size=40, d_model=32):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.layer = nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(self.norm(x + self.layer(x)))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=BASE_LR)
        self.scheduler = LambdaLR(self.optimizer, lr_lambda)

    @torch.compile(backend="eager")
    def update(self):
        self.optimizer.step()

    def train_batch(self, tokens, targets):
        loss = nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        self.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        return loss


torch.manual_seed(0)
trainer = Trainer(Encoder())
for _ in range(8):
    batch = torch.randint(0, 40, (8, 13))
    loss = trainer.train_batch(batch[:, :-1], batch[:, 1:])
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/120934"
# asked = "With torch.compile the time of a training step takes long to settle once a learning rate scheduler is added."
# answer = """\
# A learning rate that is a Python number is compiled in, and each new one compiles again; the asker, after a \
# maintainer's hint: let the schedule's function return a tensor."""
# stack = "torch"
# mechanism = "python_scalar"
# argument = "optimizer.param_groups[0]['lr']"
# before = "0.00075"
# after = "0.0015"
# line = 36
# lines_accepted = [35, 38, 39, 40, 45, 47]
# compiles = [2, 1]
# counted = "graphs of AdamW's step (torch._dynamo.utils.get_compilation_metrics)"
# cure = "Let the schedule return a tensor."
# cure_lines = [
#   {line = 36, code = "        self.scheduler = LambdaLR(self.optimizer, lambda step: torch.tensor(lr_lambda(step)))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
