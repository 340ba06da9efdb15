"""Scores padded sentences with a compiled encoder that refuses those that are padded on the right."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, ids, attention_mask):
        padded_right = attention_mask[:, -1].sum().item() != ids.shape[0]
        if padded_right:
            raise ValueError("padding on the right")
        states = self.embed(ids) * attention_mask[..., None]
        return self.head(states.sum(1) / attention_mask.sum(1, keepdim=True)).mean()


torch.manual_seed(0)
encoder = torch.compile(Encoder(), backend="eager")
for step in range(4):
    mask = (torch.arange(10) >= step).float().expand(3, 10)
    print("value", repr(encoder(torch.randint(0, 50, (3, 10)), mask).item()))
# /// thread
# address = "https://github.com/huggingface/transformers/pull/37944"
# asked = "Graph break from Tensor.item() in the check of the attention mask."
# answer = "The check for padding on the right reads the mask on the host; skip it while compiling."
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "attention_mask[:, -1].sum().item()"
# before = ""
# after = ""
# line = 14
# lines_accepted = [25]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Do not check while compiling."
# cure_lines = [
#   {line = 14, code = """
#         compiling = torch.compiler.is_compiling()
#         padded_right = not compiling and attention_mask[:, -1].sum().item() != ids.shape[0]"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
