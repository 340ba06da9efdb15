"""Fine-tunes on packed sequences without padding: the attention asks for the longest sequence's length itself."""

import torch
from torch import nn

HIDDEN, HEADS, LAYERS, LONGEST = 32, 4, 3, 32


def packed_attention(q, k, v, position_ids, max_length, decay):
    starts = (position_ids == 0).cumsum(-1)
    same = starts[:, None] == starts[None, :]
    distance = (position_ids[:, None] - position_ids[None, :]).clamp(0, max_length - 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5 - decay[:max_length][distance]
    allowed = same & (position_ids[:, None] >= position_ids[None, :])
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(~allowed, -1e9).softmax(-1), v)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.register_buffer("decay", torch.linspace(0.0, 1.0, LONGEST))

    def forward(self, hidden, position_ids, max_length=None):
        q, k, v = self.qkv(hidden).view(hidden.shape[0], 3, HEADS, -1).unbind(1)
        if max_length is None:
            max_length = position_ids.max().item() + 1
        return self.out(packed_attention(q, k, v, position_ids, max_length, self.decay).flatten(1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, HIDDEN)
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, 50)

    def forward(self, input_ids, position_ids, labels, **kwargs):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = hidden + layer(hidden, position_ids, **kwargs)
        return nn.functional.cross_entropy(self.head(hidden), labels)


def collate(lengths):
    input_ids = torch.randint(0, 50, (sum(lengths),))
    position_ids = torch.cat([torch.arange(length) for length in lengths])
    return {"input_ids": input_ids, "position_ids": position_ids, "labels": input_ids.roll(-1)}


torch.manual_seed(0)
model = Model()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for lengths in ([8, 5, 7], [6, 8, 6], [8, 8, 4], [4, 8, 8]):
    loss = compiled(**collate(lengths))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/huggingface/trl/pull/2158"
# asked = "Padding-free fine-tuning with torch_compile has graph breaks in each attention layer."
# answer = """\
# The layer reads the longest sequence's length from the device, which breaks the graph; let the data collator \
# work it out on the host and pass it with the batch."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "position_ids.max().item()"
# before = ""
# after = ""
# line = 28
# lines_accepted = [25, 39, 42, 54, 57]
# compiles = [1, 0]
# counted = "graph breaks (counters['graph_break'])"
# cure = "Put max_length into what collate returns."
# cure_lines = [
#   {line = 49, code = """
#     batch = {"input_ids": input_ids, "position_ids": position_ids, "labels": input_ids.roll(-1)}
#     return {**batch, "max_length": max(lengths)}"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
