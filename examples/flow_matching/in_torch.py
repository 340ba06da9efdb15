"""The flow in PyTorch: `loss` is what is compiled of a step of training, `calls` what it is called with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from examples.flow_matching import molecules as rules
from examples.flow_matching.molecules import CALLS, HEADS, KEEP, LAYERS, SIZES, WAVES, WIDTH, Batch, Trainer
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention among the atoms, then a network for each."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, h: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
        parts = self.mix(F.layer_norm(h, (WIDTH,))).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in parts)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / (WIDTH // HEADS) ** 0.5
        weights = torch.where(atoms > 0, scores, -1e9).softmax(-1)
        h = h + self.out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(-2))
        return h + self.down(F.gelu(self.up(F.layer_norm(h, (WIDTH,))), approximate="tanh"))


class Flow(nn.Module):
    """The velocity of each atom at a time; an atom is its place in the chain."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.zeros(SIZES[-1], WIDTH))
        self.first = nn.Linear(3 + 2 * WAVES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor, t: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.pi / 2 * 2.0 ** torch.arange(WAVES)
        waves = torch.cat([angles.sin(), angles.cos()], -1)[:, None].expand(-1, x.shape[1], -1)
        h = self.first(torch.cat([x, waves], -1)) + self.place[: x.shape[1]]
        for block in self.blocks:
            h = block(h, atoms)
        out: torch.Tensor = self.last(h)
        return out


def begin() -> Flow:
    """The model, with the weights that it begins with in every stack."""
    rng = np.random.default_rng(0)
    flow = Flow()
    with torch.no_grad():
        for weight in flow.parameters():
            weight.copy_(torch.from_numpy(rules.initial(rng, tuple(weight.shape))))
    return flow


def loss(flow: Flow, x1: torch.Tensor, x0: torch.Tensor, t: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
    """The mean square by which the velocity misses the straight way, of atoms alone."""
    between = x0 + t[:, None, None] * (x1 - x0)
    off = flow(between, t, atoms) - (x1 - x0)
    return (off**2 * atoms[:, None]).sum() / (3 * len(x1) * atoms.sum())


def calls() -> Iterator[Any]:
    """What `loss` will be called with."""
    flow = begin()
    return ((flow, *map(torch.from_numpy, batch)) for batch in islice(rules.batches(SIZES), CALLS))


def trainer(backend: str, *, dynamic: bool) -> Trainer:
    """A model that is trained by its updates."""
    flow = begin()
    mean = torch.optim.swa_utils.AveragedModel(flow, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(KEEP))
    mean.update_parameters(flow)  # the first is a copy
    optimizer = torch.optim.Adam(flow.parameters())
    compiled = torch.compile(loss, backend=backend, dynamic=dynamic or None)

    def step(batch: Batch, rate: float, function: Any = compiled) -> Any:
        optimizer.param_groups[0]["lr"] = rate
        value = function(flow, *map(torch.from_numpy, batch))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        mean.update_parameters(flow)
        return value.detach()

    @torch.no_grad()
    def velocity(x: Any, t: float) -> Any:
        return mean(torch.from_numpy(x), torch.full((len(x),), t), torch.ones(x.shape[1])).numpy()

    counted = torch._dynamo.utils.counters["stats"]
    return Trainer(step, lambda batch: step(batch, 0.0, loss), velocity, lambda: counted["unique_graphs"])
