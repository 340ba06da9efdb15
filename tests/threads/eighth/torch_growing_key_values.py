"""Generates speech tokens one by one; keys and values of the steps before are concatenated."""

import torch
from torch import nn
from torch.nn import functional as F


class DynamicCache:
    """Keys and values of every step so far."""

    def __init__(self):
        self.key = torch.zeros(1, 2, 0, 8)
        self.value = torch.zeros(1, 2, 0, 8)

    def update(self, key, value):
        self.key = torch.cat((self.key, key), dim=2)
        self.value = torch.cat((self.value, value), dim=2)
        return self.key, self.value


class Decoder(nn.Module):
    def __init__(self, vocabulary=32, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, token, position, cache):
        x = self.embed(token)
        query, key, value = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        keys, values = cache.update(key, value)
        attended = F.scaled_dot_product_attention(query, keys, values)
        return self.head(x + attended.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Decoder().eval()
compiled = torch.compile(model, backend="aot_eager")
with torch.no_grad():
    cache = DynamicCache()
    token = torch.tensor([[3]])
    for step in range(8):
        logits = compiled(token, torch.tensor([step]), cache)
        token = logits[:, -1:].argmax(-1)
        print("value", repr(logits.max().item()))
# /// thread
# address = "https://github.com/huggingface/parler-tts/pull/89"
# asked = "Each pass of the forward method is compiled again while it generates."
# answer = """\
# The keys and values are cached dynamically, so the tensors change their shapes and strides in each pass; a static \
# cache has one shape, and the model is compiled once."""
# stack = "torch"
# mechanism = "shape"
# argument = "cache.key"
# before = "(1, 2, 0, 8)"
# after = "(1, 2, 1, 8)"
# line = 16
# lines_accepted = [43, 31, 17, 18]
# compiles = [3, 1]
# counted = "compiles of forward (compilation metrics of Dynamo)"
# cure = "Write into a cache of one size, and mask what is not there yet."
# cure_lines = [
#   {line = 12, code = "        self.key = torch.zeros(1, 2, 8, 8)"},
#   {line = 13, code = "        self.value = torch.zeros(1, 2, 8, 8)"},
#   {line = 15, code = "    def update(self, key, value, position):"},
#   {line = 16, code = "        self.key.index_copy_(2, position, key)"},
#   {line = 17, code = "        self.value.index_copy_(2, position, value)"},
#   {line = 31, code = "        keys, values = cache.update(key, value, position)"},
#   {line = 32, code = """
#         seen = torch.arange(8) <= position
#         attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen[None])"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
