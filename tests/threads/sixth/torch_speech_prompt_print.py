"""Generates codes from a dialogue's text, with the preparation of the generation compiled."""

import torch
from torch import nn


class Dia(nn.Module):
    def __init__(self, vocabulary=256, width=32, text_length=64):
        super().__init__()
        self.text_length = text_length
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 16)

    def encode_text(self, text):
        byte_text = text.encode("utf-8").replace(b"[S1]", b"\x01").replace(b"[S2]", b"\x02")
        tokens = torch.tensor(list(byte_text), dtype=torch.long)
        return nn.functional.pad(tokens, (0, self.text_length - tokens.shape[0]))

    @torch.compile
    def prepare_generation(self, tokens, temperature):
        hidden = self.encoder(self.embedding(tokens)[None])
        print("prepared", tokens.shape[0], "tokens")
        context = hidden.mean(1)
        return torch.softmax(self.head(context) / temperature, dim=-1)

    def generate(self, text):
        tokens = self.encode_text(text)
        with torch.no_grad():
            return self.prepare_generation(tokens, 1.3)


torch.manual_seed(0)
model = Dia().eval()
for text in ["[S1] Hello there.", "[S2] Hi! How are you?", "[S1] Fine, thanks.", "[S2] See you soon, then."]:
    print("value", repr(model.generate(text).max().item()))
# /// thread
# address = "https://github.com/nari-labs/dia/pull/165"
# asked = "_prepare_generation is compiled and recompiled in several graphs, and fullgraph=True fails."
# answer = """\
# print (and bytes.replace) are Python builtins that break the graph; move the encoding out, and remove the \
# print."""
# stack = "torch"
# mechanism = "other: graph break at a builtin that Dynamo does not trace"
# argument = "print"
# before = ""
# after = ""
# line = 23
# lines_accepted = [20, 21, 30]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Remove the print."
# cure_lines = [
#   {line = 23, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
