"""Finds the compiled programs that hold a Python value of their trace, where the value has changed since.

No Python runs at a call of a compiled program: coldstep looks as other programs are compiled, and at the end.
"""

from __future__ import annotations

from collections import deque
from types import MethodType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Finding
from coldstep_collectors.captures import Captures, Changed
from coldstep_collectors.values import quoted

_MOST = 64  # programs that are watched, the newest
_BETWEEN_NS = 50_000_000  # two looks
_PASS = "Pass {name} to {function} as an argument: jit reads what a function takes from elsewhere once, as it traces."
_STATIC = (
    "Pass {name} to {function} as a static argument of its own: jit reads what a function takes from elsewhere, an "
    "object that it knows by identity among that, once, as it traces."
)
_KEEP = (
    "jit reads what a function takes from elsewhere once, as it traces: keep one {name}, and change its numbers in its "
    "state, which is an argument (optax.inject_hyperparams(optax.sgd)(learning_rate=…), then "
    "state.hyperparams['learning_rate'] = …), give it a schedule, or jit {function} anew with each {name}."
)


@slotted
class _Watched:
    """A program, and what it holds."""

    id: str
    function: str
    identity: str
    captures: Captures


class Stale:
    """Watches what programs hold."""

    def __init__(self, sink: Sink, jax: Any) -> None:
        self._sink = sink
        self._jax = jax
        self._watched: deque[_Watched] = deque(maxlen=_MOST)
        self._found: dict[tuple[str, str], tuple[_Watched, Changed]] = {}
        self._looked_ns = 0

    def owner(self, layers: list[Any]) -> Any:
        """The object whose method a function is. JAX takes apart one that is a pytree: its values are arguments."""
        owner = next((each.__self__ for each in layers if isinstance(each, MethodType)), None)
        leaves = self._jax.tree_util.all_leaves
        return owner if owner is not None and leaves([owner]) else None

    def watch(self, compile: str, function: str, identity: str, captures: Captures) -> None:
        """Look at it from now on, and no longer at what it was before: a function that was compiled anew has seen the
        change."""
        self._found = {key: change for key, change in self._found.items() if key[0] != identity}
        for row in [row for row in self._watched if row.identity == identity]:
            self._watched.remove(row)
        self._watched.append(_Watched(compile, function, identity, captures))

    def look(self) -> None:
        """See what has changed, from time to time."""
        if (ns := now()) - self._looked_ns >= _BETWEEN_NS:
            self._looked_ns = ns
            self._see()

    def tell(self) -> None:
        """Tell of all that has changed until now."""
        self._see()
        for row, each in self._found.values():
            held = [other.captures.value_of(each.name) for other in self._watched]
            if each.now in held or (each.is_optimizer and any(held)):
                continue  # another program was traced with the new one, and may have taken this one's place
            change = f"it was {quoted(each.was)} when it was traced, now {quoted(each.now)}"
            text = f"{row.function} does not see that {each.name} has changed: {change}"
            advice = (_KEEP if each.is_optimizer else _STATIC if each.is_choice else _PASS).format(
                name=each.name, function=row.function
            )
            self._sink.emit(Finding(now(), "stale_capture", "warning", text, "jax", row.id, advice=advice))

    def _see(self) -> None:
        for row in self._watched:
            for each in row.captures.changed():
                self._found[row.identity, each.name] = row, each
