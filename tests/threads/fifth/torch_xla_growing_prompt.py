"""Generates tokens greedily on an XLA device, whose scores are handed to a processor on the CPU."""

import torch
import torch_xla
from torch import nn

VOCAB, WIDTH, MAX_LENGTH = 24, 16, 12


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        hidden = torch.tanh(self.mix(hidden.cumsum(1)))
        return self.head(hidden)


class RepetitionPenaltyProcessor:
    def __init__(self, penalty=1.3):
        self.penalty = penalty

    def __call__(self, input_ids, scores):
        seen = torch.zeros_like(scores).scatter(1, input_ids, 1.0).bool()
        return torch.where(seen, scores / self.penalty, scores)


def greedy_search(model, input_ids, processor, device):
    batch, seq_length = input_ids.shape
    padded = torch.zeros(batch, MAX_LENGTH, dtype=torch.long)
    padded[:, :seq_length] = input_ids
    while seq_length < MAX_LENGTH:
        logits = model(padded.to(device))
        scores = logits[:, :seq_length].cpu()
        next_scores = processor(padded[:, :seq_length], scores[:, -1])
        padded[:, seq_length] = next_scores.argmax(-1)
        seq_length += 1
    return padded


torch.manual_seed(0)
device = torch_xla.device()
model = Decoder().eval().to(device)
with torch.no_grad():
    for prompt in ([[3, 7, 1]], [[5, 2, 9]]):
        tokens = greedy_search(model, torch.tensor(prompt), RepetitionPenaltyProcessor(), device)
        print("value", tokens.sum().item())
# /// thread
# address = "https://github.com/huggingface/optimum-neuron/pull/137"
# asked = "Greedy search compiles again for each new token."
# answer = """\
# The scores are sliced to seq_length, which grows, on the device, before they are moved to the CPU; move them \
# first, and slice there."""
# stack = "torch_xla"
# mechanism = "shape"
# argument = "logits"
# before = "3"
# after = "4"
# line = 38
# lines_accepted = [36, 37, 41]
# compiles = [9, 1]
# counted = "compilations (met.metric_data('CompileTime')[0])"
# cure = "Slice on the CPU."
# cure_lines = [
#   {line = 38, code = "        scores = logits.cpu()[:, :seq_length]"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
