"""Puts a hook of ours in the place of an attribute of a framework's, and takes it away again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Undo = Callable[[], str | None]
"""Takes a hook away; returns, in words, what stays where it is no longer ours to take."""


class Patch:
    """An attribute of a framework's that is ours until `undo()`."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
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
            return f"{name} of {owner!r:.100}, which somebody else has wrapped"
        if self._own:
            setattr(owner, name, self._old)
        else:
            delattr(owner, name)
        return None
