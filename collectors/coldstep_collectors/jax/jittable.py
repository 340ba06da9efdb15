"""Whether the user's function around an eager operation may be given to `jax.jit` as it is, by what it was given and
by what it reads: arrays alone, and each time the same objects of its module."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from coldstep.places import Places, arguments
from coldstep_collectors.values import globals_read


class Jittable:
    """Looks at the functions of one program, and remembers what they read."""

    def __init__(self, jax: Any, places: Places) -> None:
        self._jax = jax
        self._places = places
        self._reads: dict[CodeType, dict[str, int]] = {}

    def is_so(self, frame: FrameType) -> bool:
        """Whether the function that runs in `frame` may be traced, as far as its arguments and what it reads show."""
        code = frame.f_code
        read = {name: frame.f_globals[name] for name in globals_read(code) if name in frame.f_globals}
        same = self._reads.setdefault(code, {name: id(value) for name, value in read.items()})
        if any(same.get(name) != id(value) for name, value in read.items()):
            return False
        given = [value for _, value in arguments(frame)]
        return bool(given) and not code.co_freevars and all(map(self._is_of_arrays, given)) and not any(self._own(read))

    def _is_of_arrays(self, value: Any) -> bool:
        try:
            leaves = self._jax.tree_util.tree_leaves(value)
        except Exception:  # a container that JAX cannot take apart
            return False
        return bool(leaves) and all(hasattr(leaf, "aval") for leaf in leaves)

    def _own(self, read: dict[str, Any]) -> Iterator[bool]:
        """Of the objects that a function reads: whether one is a function of the user's, which may print or branch."""
        for value in read.values():
            yield isinstance(value, FunctionType) and self._places.is_users(value.__code__.co_filename)
