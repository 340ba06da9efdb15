"""Trains a speech synthesizer's decoder on phonemes that are repeated for as many frames as each lasts."""

import torch
from torch import nn
from torch.nn import functional as F


class LengthRegulator(nn.Module):
    def forward(self, phonemes, durations):
        expanded = torch.repeat_interleave(phonemes.flatten(0, 1), durations.flatten(), dim=0)
        return expanded.view(phonemes.shape[0], -1, phonemes.shape[2])


class Synthesizer(nn.Module):
    def __init__(self, phonemes=30, width=16, bins=8):
        super().__init__()
        self.embed = nn.Embedding(phonemes, width)
        self.encode = nn.Linear(width, width)
        self.regulate = LengthRegulator()
        self.decode = nn.Conv1d(width, bins, 3, padding=1)

    def forward(self, ids, durations, frames):
        hidden = F.relu(self.encode(self.embed(ids)))
        hidden = self.regulate(hidden, durations)
        return self.decode(hidden.transpose(1, 2))[:, :, :frames]


def batch(size=4, length=6, frames=24):
    """Each sentence lasts as long: silence fills it up."""
    durations = torch.randint(1, 4, (size, length))
    durations[:, -1] += frames - durations.sum(1)
    return torch.randint(0, 30, (size, length)), durations, torch.randn(size, 8, frames)


torch.manual_seed(0)
model = Synthesizer()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(5):
    ids, durations, mel = batch()
    loss = F.l1_loss(compiled(ids, durations, mel.shape[2]), mel)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/Lightning-AI/lightning-thunder/issues/173"
# asked = "repeat_interleave with a tensor of repeats, as NeMo's models use it, cannot be compiled."
# answer = "The overload with a tensor is data-dependent; give output_size, and it is not."
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "torch.repeat_interleave"
# before = ""
# after = ""
# line = 10
# lines_accepted = [24]
# compiles = [2, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Give output_size."
# cure_lines = [
#   {line = 10, code = """
#         count = phonemes.shape[0] * 24
#         expanded = torch.repeat_interleave(phonemes.flatten(0, 1), durations.flatten(), dim=0, output_size=count)"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
