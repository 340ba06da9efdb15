"""Serves a small speech model whose clients choose temperature and top_k of the sampling."""

import torch
from torch import nn

torch.manual_seed(0)
VOCABULARY = 40


class TokenModel(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + torch.tanh(self.mix(x.mean(1, keepdim=True))))[:, -1]


def sample(logits, T=1.0, top_k=8):
    values, _ = torch.topk(logits, top_k)
    logits = torch.where(logits < values[:, -1:], -torch.inf, logits)
    return torch.softmax(logits / T, dim=-1)


model = TokenModel()


@torch.compile(backend="aot_eager")
def generate_next(tokens, T, top_k):
    return sample(model(tokens), T, top_k)


@torch.no_grad()
def answer(prompt, T, top_k=8):
    tokens = prompt
    for _ in range(3):
        probabilities = generate_next(tokens, T, top_k)
        tokens = torch.cat((tokens[:, 1:], torch.multinomial(probabilities, 1)), dim=1)
    return probabilities


prompt = torch.randint(0, VOCABULARY, (1, 6))
for T in (0.7, 0.9, 1.1, 0.8, 0.6, 1.3):
    print("value", repr(answer(prompt, T).max().item()))
# /// thread
# address = "https://github.com/WhisperSpeech/WhisperSpeech/issues/44"
# asked = "torch.compile recompiles the model when the sampling temperature T or top_k is changed."
# answer = "Wrap them in tensors before they are passed to generate_next."
# stack = "torch"
# mechanism = "python_scalar"
# argument = "T"
# before = "0.7"
# after = "0.9"
# line = 40
# lines_accepted = [46, 31, 33, 25]
# compiles = [2, 1]
# counted = "compiles of generate_next (compilation metrics of Dynamo)"
# cure = "Wrap the temperature in a tensor."
# cure_lines = [
#   {line = 40, code = "        probabilities = generate_next(tokens, torch.tensor(T), top_k)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
