"""A text classifier behind a pipeline; its forward is compiled, and warmed up with one prompt."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary=100, width=16, labels=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(width, labels)

    def forward(self, input_ids, attention_mask):
        x = self.layer(self.embed(input_ids), src_key_padding_mask=~attention_mask)
        return self.head((x * attention_mask.unsqueeze(-1)).sum(1) / attention_mask.sum(1, keepdim=True))


class Pipeline:
    """Tokenizes a text and classifies it."""

    def __init__(self, model):
        self.model = model

    def tokenize(self, text):
        input_ids = torch.tensor([[sum(map(ord, word)) % 100 for word in text.split()]])
        return {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids, dtype=torch.bool)}

    def __call__(self, text):
        with torch.inference_mode():
            return self.model(**self.tokenize(text)).softmax(-1).max().item()


torch.manual_seed(0)
pipe = Pipeline(Classifier().eval())
pipe.model.forward = torch.compile(pipe.model.forward)
WARM_UP = "This was a masterpiece. Not completely faithful to the books, but enthralling from beginning to end."
for _ in range(2):
    pipe(WARM_UP)
for prompt in ("I am not happy.", "It was fine for what it cost.", "Never again, I would rather read the book."):
    print("value", repr(pipe(prompt)))
# /// thread
# address = "https://github.com/huggingface/optimum-intel/pull/1189"
# asked = "The warm-up of models to which torch.compile is applied does not work."
# answer = "The prompts have other lengths than the one of the warm-up: other shapes, which are compiled anew."
# stack = "torch"
# mechanism = "shape"
# argument = "input_ids"
# before = "(1, 16)"
# after = "(1, 4)"
# line = 36
# lines_accepted = [31, 41, 26]
# compiles = [2, 1]
# counted = "compiles of forward (compilation metrics of Dynamo)"
# cure = "Compile for any length at first."
# cure_lines = [
#   {line = 36, code = "pipe.model.forward = torch.compile(pipe.model.forward, dynamic=True)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
