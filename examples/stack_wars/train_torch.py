"""Training in PyTorch: compiled by Inductor, traced lazily by torch_xla, or captured by Dynamo for XLA (openxla)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from examples.stack_wars import models_torch as models
from examples.stack_wars.sizes import FFN, GPT

with contextlib.suppress(ImportError):
    import torch_xla

    torch_xla.device()  # before any backward: autograd counts the devices at its first

Batch = dict[str, Any]


def prepare(stack: str, size: FFN | GPT) -> tuple[Callable[[Batch], Any], Batch]:
    """A function that trains on a batch and returns what is to be waited for; and the batch."""
    torch.manual_seed(0)
    device: Any = "cpu"
    if stack != "inductor":
        device = torch_xla.device()
    if isinstance(size, GPT):
        module: torch.nn.Module = models.GPTModel(size)
        batch = {"tokens": torch.randint(size.vocabulary, (size.batch, size.length + 1))}
        loss_of = models.gpt_loss
    else:
        module = models.ffn(size)
        batch = {name: torch.randn(size.batch, size.width) for name in ("x", "y")}
        loss_of = models.ffn_loss
    module = module.to(device)
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    forward = module
    if stack != "torch_xla":
        forward = torch.compile(module, backend=stack)  # type: ignore[assignment]
    if stack != "inductor":
        torch_xla.sync()  # what was set up so far is no part of the first step

    def step(batch: Batch) -> Any:
        optimizer.zero_grad()
        loss = loss_of(forward, batch)
        loss.backward()
        optimizer.step()
        if stack != "inductor":
            torch_xla.sync()
        return loss

    return step, batch
