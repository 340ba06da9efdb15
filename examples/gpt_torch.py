"""A small GPT under torch.compile, trained for eight steps of which the last has a smaller batch.

`python examples/gpt_torch.py`
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import coldstep

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 256, 32, 64, 4, 1
BATCHES = (8, 8, 8, 8, 8, 8, 8, 5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.empty(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


def batches() -> Iterator[Tensor]:
    """Sequences that count upwards, together through the whole vocabulary."""
    for size in BATCHES:
        with coldstep.annotate("data loading"):
            tokens = (LENGTH * torch.arange(size)[:, None] + torch.arange(LENGTH + 1)) % VOCABULARY
        yield tokens


def train() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # with more, sums differ in their last bit from run to run
    gpt = GPT()
    model = torch.compile(gpt)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-2)
    for n, tokens in enumerate(batches()):
        with coldstep.step("torch"):
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            coldstep.wait(loss)
        print(f"torch step {n}: loss {loss.item():.9g}")


if __name__ == "__main__":
    with coldstep.trace("gpt_torch.pftrace") as run:
        train()
    print(run.report())
