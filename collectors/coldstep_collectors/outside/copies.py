"""Weights that a PyTorch module or optimizer takes over: where the file was only mapped, they are read then."""

from __future__ import annotations

import sys
from functools import partial, wraps
from typing import Any

from coldstep.events import Args
from coldstep_collectors.outside.around import Around
from coldstep_collectors.proc import read_bytes

_MOST = 1_000  # modules and optimizers: a program that makes one for each step pays no more for that
_ASSIGN = 2  # its place among the arguments


def watch_modules(torch_module: Any, around: Around) -> None:
    """Have the time of each module's first `load_state_dict` count as loading of weights."""
    _watch(torch_module.torch, torch_module.Module, "weights", around)


def watch_optimizers(torch_module: Any, around: Around) -> None:
    """Likewise of each optimizer's, which copies all of its state."""
    _watch(torch_module.torch, torch_module.Optimizer, "state", around)


def _watch(torch: Any, owner: Any, what: str, around: Around) -> None:
    real = owner.load_state_dict
    came_to = around.sink.guarded("outside", partial(_came_to, torch))
    known: set[int] = set()  # a later load of the same is none of a start: of a moving average, of a meta-learner

    @wraps(real)
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Dynamo traces what the real one does
        if torch.compiler.is_compiling() or id(self) in known or len(known) >= _MOST or _assigns(args, kwargs):
            return real(self, *args, **kwargs)
        known.add(id(self))
        before = read_bytes()
        facts: Args = {"what": f"copies {what} into {type(self).__name__}", "copied": True}
        with around.within("load.weights", sys._getframe(1), facts) as more:
            value = real(self, *args, **kwargs)
            if more is not None:
                more.update(came_to(args[0] if args else kwargs.get("state_dict"), before) or {})
            return value

    around.put(owner, "load_state_dict", load_state_dict)


def _assigns(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the module takes the tensors as they are: nothing is copied, nor read."""
    return bool(args[_ASSIGN] if len(args) > _ASSIGN else kwargs.get("assign"))


def _came_to(torch: Any, state: Any, before: int | None) -> Args:
    """How large it is, where that is known without reading anything, and what was read from disk meanwhile."""
    tensors = (each for each in state.values() if isinstance(each, torch.Tensor)) if isinstance(state, dict) else ()
    size = sum(each.numel() * each.element_size() for each in tensors if each.layout is torch.strided)
    after = read_bytes() if before is not None else None
    return {"bytes": size or None, "read": after - before if after is not None and before is not None else None}
