"""Finds the function that was given to `jax.pmap`, which since JAX 0.9 jits one of its own around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Signature, signature
from typing import Any

from coldstep.named_tuple import NamedTuple
from coldstep_collectors.jax._private.names import PMAP


class Mapped(NamedTuple):
    """A function that was given to `jax.pmap`, and what that closes over for calls of one kind."""

    function: Any
    tree: Any
    """The structure of the arguments, those that are static left out."""
    transforms: Sequence[tuple[Any, Sequence[Any]]]
    """What puts the static arguments back."""

    def call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any], tuple[int, ...]]:
        """The call as the program makes it: by position, by keyword, and which positions are static."""
        args, kwargs = self.tree.unflatten(leaves)
        static: tuple[int, ...] = ()
        for _, (dynamic, fixed) in self.transforms:
            given, kept, positions = iter(args), iter(fixed), range(len(args) + len(fixed))
            args = tuple(next(given) if at in dynamic else next(kept).val for at in positions)
            static = tuple(at for at in positions if at not in dynamic)
        return tuple(args), kwargs, static

    def signature(self) -> Signature | None:
        """That of the function; None where it has none."""
        try:
            return signature(self.function)
        except (TypeError, ValueError):
            return None


def mapped(jitted: Any) -> Mapped | None:
    """What stands behind a function that `jax.pmap` jits; None for any other."""
    own = getattr(jitted, "__wrapped__", jitted)
    code = getattr(own, "__code__", None)
    form = PMAP.forms[0]
    if code is None or code.co_name != form.says[0] or not code.co_filename.endswith(form.file):
        return None
    cells: tuple[Any, ...] = own.__closure__ or ()
    held: dict[str, Any] = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    given, tree = held.get("fun"), held.get("in_tree")
    if given is None or tree is None or not all(hasattr(given, name) for name in ("f", "transforms")):
        return None
    return Mapped(given.f, tree, given.transforms)
