"""Sees that `jax_disable_jit` is on: jitted functions then run operation by operation, each of which compiles."""

from __future__ import annotations

import sys
from typing import Any

from coldstep.clock import now
from coldstep.collector import AheadSink
from coldstep.events import Args, Finding
from coldstep.places import location
from coldstep_collectors.source_lines import the_update

_NAME = "jax_disable_jit"
_LEAST = 5
"""Operations that compiled meanwhile: fewer are a look into one function."""
_TEXT = f"{_NAME} is on: jitted functions run operation by operation, each compiled by itself"


class SwitchedOff:
    """Counts the operations that compile, and looks for the switch at the end: JAX has it off while it compiles one."""

    def __init__(self, sink: AheadSink, jax: Any) -> None:
        self._sink, self._config = sink, jax.config
        self._operations = 0
        self._compiled_whole = False
        self._caller: Args | None = None

    def compiles(self, about: Args) -> None:
        """Something is about to compile."""
        self._compiled_whole |= about["origin"] == "user"
        if about["origin"] == "eager":
            self._operations += 1
            self._caller = self._caller or about["caller"]

    def tell(self) -> None:
        """Report the switch, where it is on, and was as long as anything compiled."""
        if self._operations >= _LEAST and not self._compiled_whole and getattr(self._config, _NAME, False):
            place = _set_at(self._caller) or self._caller
            self._sink.emit(Finding(now(), "uncompiled", "warning", _TEXT, "jax", location=place))


def _set_at(caller: Args | None) -> Args | None:
    """The line that sets it, in the file that runs the operation or in the script."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    for file in filter(None, (caller["file"] if caller is not None else None, script)):
        if (line := the_update(file, _NAME)) is not None:
            return location(file, line, "<module>")
    return None
