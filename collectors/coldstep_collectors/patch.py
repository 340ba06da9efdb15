"""Puts a hook of ours in the place of an attribute of a framework's, and takes it away again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Undo = Callable[[], str | None]
"""Takes a hook away; returns, in words, what stays where it is no longer ours to take."""


class Patch:
    """An attribute of a framework's that is ours until `undo()`; `stays`: what that reports of one that is not any
    more."""

    def __init__(self, owner: Any, name: str, value: Any, stays: str | None = None) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._stays = stays
        self._own = name in vars(owner)
        # as the owner holds it: a static method, say, and not what asking for it gives
        self._old = vars(owner)[name] if self._own else getattr(owner, name)
        setattr(owner, name, value)

    def undo(self) -> str | None:
        """Put back the original; if somebody else has patched over ours, leave it, and report that."""
        owner, name = self._owner, self._name
        there = vars(owner).get(name)
        if self._own and there is self._old:  # the hook has put it back itself
            return None
        if there is not self._value:
            return self._stays or f"{name} of {owner!r:.100}, which somebody else has wrapped"
        if self._own:
            setattr(owner, name, self._old)
        else:
            delattr(owner, name)
        return None


Hook = TypeVar("Hook", Patch, Undo)


def undo_all(hooks: list[Hook]) -> list[str]:
    """Take hooks away, the last first, and forget them; what stays, in words."""
    undos: list[Undo] = [each.undo if isinstance(each, Patch) else each for each in reversed(hooks)]
    hooks.clear()
    return [words for undo in undos if (words := undo()) is not None]
