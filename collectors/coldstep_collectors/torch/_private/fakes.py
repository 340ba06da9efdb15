"""Tensors without contents: copies of modules, optimizers and tensors that allocate nothing.

Written for PyTorch 2.13. `FakeTensorMode` is private, and what PyTorch's own compiler is made of; without it `mode`
raises ValueError.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def mode(torch: Any) -> Any:
    """What makes every tensor one without contents. Raises ValueError where this PyTorch has none."""
    try:
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError as error:
        raise ValueError(f"this PyTorch ({torch.__version__}) has no tensors without contents: {error}") from error
    return FakeTensorMode()


def fake(torch: Any, fakes: Any, change: Callable[[Any], Any], tensor: Any) -> Any:
    """A tensor of that type without contents; `change` may make its type another.

    What lies on the device "meta" is taken for the CPU's, so that the operations chosen are those of the CPU.
    """
    device = "cpu" if tensor.device.type == "meta" else tensor.device
    with fakes:
        return change(torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device))


def copied(torch: Any, values: Any, stand_in: Callable[[Any], Any]) -> Any:
    """A deep copy of `values` in which each tensor is another one, that `stand_in` makes of it. Raises ValueError where
    there is something that cannot be copied."""

    def made(tensor: Any) -> Any:
        fake = stand_in(tensor)
        return fake.requires_grad_(tensor.requires_grad and tensor.is_leaf and fake.is_floating_point())

    class Copying(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        """As deep copies reach a tensor: by itself, or through the clone that a Parameter's makes."""

        def __torch_function__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            if func is torch.Tensor.clone:
                return made(args[0].detach())
            if func is torch.Tensor.__deepcopy__:
                tensor, memo = args
                if id(tensor) not in memo:
                    memo[id(tensor)] = made(tensor)
                return memo[id(tensor)]
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    with Copying():
        try:
            return copy.deepcopy(values)
        except TypeError as error:
            raise ValueError(f"the step holds on to what cannot be copied: {error}") from error
