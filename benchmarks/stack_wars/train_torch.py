"""Training in PyTorch: eager, compiled by Inductor, traced lazily by torch_xla, or captured by Dynamo for XLA."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmarks.stack_wars import ops_torch
from benchmarks.stack_wars.models import DECAY, IMAGE, MODELS, RATE, Weight, initial
from benchmarks.stack_wars.sizes import SIZES_OF
from torch import Tensor, nn

with contextlib.suppress(ImportError):
    import torch_xla

    torch_xla.device()  # before any backward: autograd counts the devices at its first


class Net(nn.Module):
    """One of the models, as a module of its weights; its forward is the loss."""

    def __init__(self, model: str, size: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.loss = MODELS[model].loss
        self.size = SIZES_OF[model][size]
        self.weights = nn.ParameterDict({name: nn.Parameter(tensor) for name, tensor in weights.items()})

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        loss: Tensor = self.loss(ops_torch, self.weights, batch, self.size)
        return loss


def start(stack: str) -> None:
    """Begin with the device, so that what it needs is not taken for the model's."""
    torch.zeros(1, device=_device(stack))


def prepare(stack: str, model: str, size: str) -> Callable[[], Any]:
    """A function that trains once on the batch, and returns what is to be waited for, the loss last."""
    device = _device(stack)
    weights = {
        weight.name: _layout(weight, torch.from_numpy(values)).to(device) for weight, values in initial(model, size)
    }
    net = Net(model, size, weights)
    batch = {name: tensor.to(device) for name, tensor in _batch(model, size).items()}
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    loss_of: Callable[..., Tensor] = net if stack in ("eager", "torch_xla") else torch.compile(net, backend=stack)
    if _is_lazy(stack):
        torch_xla.sync()  # what was set up so far is no part of the first step

    def step() -> Any:
        loss = train_step(loss_of, optimizer, batch)
        if _is_lazy(stack):
            torch_xla.sync()
        return (loss.detach(),)

    return step


def train_step(loss_of: Callable[..., Tensor], optimizer: torch.optim.Optimizer, batch: Mapping[str, Tensor]) -> Tensor:
    optimizer.zero_grad()
    loss = loss_of(batch)
    loss.backward()
    optimizer.step()
    return loss


def abstract(stack: str, model: str, size: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step, and arguments of which only the types are there; on a lazy device nothing is there before a sync."""
    device = _device(stack) if _is_lazy(stack) else torch.device("meta")
    with device:
        weights = {
            weight.name: _layout(weight, torch.empty(weight.shape))
            for weight in MODELS[model].weights(SIZES_OF[model][size])
        }
        net = Net(model, size, weights)
        optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
        batch = {name: tensor.to(device) for name, tensor in _batch(model, size).items()}
    return train_step, (net, optimizer, batch)


def _is_lazy(stack: str) -> bool:
    return stack in ("torch_xla", "openxla")


def _device(stack: str) -> Any:
    return torch_xla.device() if _is_lazy(stack) else torch.device("cpu")


def _layout(weight: Weight, values: Tensor) -> Tensor:
    """Kernels as PyTorch has them: channels out, channels in, height, width."""
    return values.permute(3, 2, 0, 1).contiguous() if weight.is_kernel else values


def _batch(model: str, size: str) -> dict[str, Tensor]:
    """The batch with channels before height and width, and with the integers that PyTorch wants."""
    found = {name: torch.from_numpy(values) for name, values in MODELS[model].batch(SIZES_OF[model][size]).items()}
    return {
        name: tensor.permute(0, 3, 1, 2).contiguous() if name == IMAGE else tensor.long() if _counts(tensor) else tensor
        for name, tensor in found.items()
    }


def _counts(tensor: Tensor) -> bool:
    return not tensor.is_floating_point()
