"""Speaks requests of different lengths with a compiled forward and a cache of a fixed size."""

import torch
from torch import nn

REQUESTS = [
    "hey how are you doing today",
    "please read the second chapter of the book aloud to me",
    "stop",
    "what is the weather like in the north of the country this week",
    "turn the lights off in the kitchen",
]


class Tokenizer:
    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.ids = {word: at + 1 for at, word in enumerate(words)}

    def __call__(self, text, padding=False, max_length=None):
        ids = [self.ids[word] for word in text.split()]
        mask = [1] * len(ids)
        if padding == "max_length":
            ids, mask = ([0] * (max_length - len(ids)) + ids), [0] * (max_length - len(mask)) + mask
        return torch.tensor([ids]), torch.tensor([mask])


class ParlerModel(nn.Module):
    def __init__(self, vocabulary=64, width=32, cache_length=8):
        super().__init__()
        self.text = nn.Embedding(vocabulary, width)
        self.prompt = nn.Linear(width, width)
        self.codes = nn.Embedding(32, width)
        self.register_buffer("cache", torch.zeros(cache_length, width))
        self.head = nn.Linear(width, 32)

    def forward(self, prompt_input_ids, prompt_attention_mask, code, position):
        self.cache[position] = self.codes(code)
        keys = torch.cat([self.prompt(self.text(prompt_input_ids[0])), self.cache])
        seen = torch.cat([prompt_attention_mask[0] > 0, torch.arange(self.cache.shape[0]) <= position])
        scores = (keys @ self.cache[position].T * 0.05).squeeze(-1).masked_fill(~seen, -1e9)
        return self.head(torch.softmax(scores, 0) @ keys)


torch.manual_seed(0)
tokenizer = Tokenizer(REQUESTS)
model = ParlerModel().eval()
model.forward = torch.compile(model.forward, fullgraph=True)
with torch.no_grad():
    for request in REQUESTS:
        model.cache.zero_()
        prompt_input_ids, prompt_attention_mask = tokenizer(request)
        code = torch.tensor([0])
        for position in range(6):
            logits = model(prompt_input_ids, prompt_attention_mask, code, torch.tensor([position]))
            code = logits.argmax(-1, keepdim=True)
        print("value", repr(logits.max().item()))
# /// thread
# address = "https://github.com/huggingface/parler-tts/issues/93"
# asked = "With the static cache, the inference time is high again at later runs."
# answer = """\
# A prompt of another length is another shape, and compiles again; pad prompts to a length of their own \
# (padding="max_length"), and warm up with it."""
# stack = "torch"
# mechanism = "shape"
# argument = "prompt_input_ids"
# before = "[1, 6]"
# after = "[1, 11]"
# line = 52
# lines_accepted = [37, 39, 48, 55]
# compiles = [3, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Pad each prompt to one length."
# cure_lines = [
#   {line = 52, code = """
#         prompt_input_ids, prompt_attention_mask = tokenizer(request, padding="max_length", max_length=16)"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
