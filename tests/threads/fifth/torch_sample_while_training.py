"""Trains a compiled character model and, every other step, prints a sample, as a small GPT's script does."""

import torch
from torch import nn
from torch.nn import functional as F


class GPTConfig:
    block_size = 16
    vocab_size = 24
    n_embd = 32
    n_head = 4


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        B, T = idx.size()
        x = self.wte(idx) + self.wpe(torch.arange(T))
        q, k, v = self.c_attn(x).split(self.config.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.config.n_head, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, -1)
        logits = self.lm_head(x + self.c_proj(y))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def sample(net, max_length=12):
    xgen = torch.full((2, 4), 1)
    net.eval()
    with torch.no_grad():
        while xgen.size(1) < max_length:
            logits, _ = net(xgen)
            xgen = torch.cat((xgen, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
    net.train()
    return xgen


torch.manual_seed(0)
raw_model = GPT(GPTConfig())
model = torch.compile(raw_model, backend="eager")
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=1e-2)
data = torch.randint(0, 24, (6, 4, 17))

for step in range(6):
    if step % 2 == 0:
        print("value", sample(model).sum().item())
    x, y = data[step, :, :-1].contiguous(), data[step, :, 1:].contiguous()
    _, loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/karpathy/build-nanogpt/issues/56"
# asked = "With torch.compile the script's sampling has to be left out: the shapes of samples and of batches differ."
# answer = "Sample with the model as it was before it was compiled: raw_model in the place of model."
# stack = "torch"
# mechanism = "shape"
# argument = "idx"
# before = "[2, 4]"
# after = "[4, 16]"
# line = 57
# lines_accepted = [25, 41, 43, 51, 59]
# compiles = [3, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Sample with raw_model."
# cure_lines = [
#   {line = 57, code = "        print(\"value\", sample(raw_model).sum().item())"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
