"""A compile, and a call of its graph, as the collector knows them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.candidates import Candidate
from coldstep.events import Args
from coldstep_collectors.captures import Captures
from coldstep_collectors.tensorflow._private import programs
from coldstep_collectors.values import quoted


@slotted
class Call:
    """What a call handed to a graph: its tensors as rows of a signature, and the values of small integers."""

    rows: list[Args]
    values: dict[str, str]
    batch: int | None = None
    """How many rows a batch of Keras' has, where it comes from an iterator."""

    @property
    def shapes(self) -> tuple[str, ...]:
        """Equal for calls for which XLA needs one program, but for values that it compiles in."""
        return tuple(row["type"] for row in self.rows)

    def differs_from(self, earlier: Call) -> list[str]:
        """The values that are others, in words."""
        pairs = ((path, earlier.values.get(path), value) for path, value in self.values.items())
        return [f"{path} was {quoted(was or 'not seen')}, now {quoted(value)}: XLA compiles in what a shape depends on"
                for path, was, value in pairs if was != value]  # fmt: skip


@dataclass(slots=True, eq=False, repr=False)
class Compile:
    """One key of one function: its trace, perhaps a second one, and the first call of the graph."""

    id: str
    about: Args
    signature: tuple[Any, ...]
    jitted: bool
    captures: Captures | None = None
    of_model: bool = False
    """Whether Keras loops over it."""
    holds_xla: bool = False
    """Whether it is jitted, or calls something that is."""
    traced: int = 0
    called: bool = False
    paths: list[str] | None = None
    """Those of its tensors, in the order of the graph's inputs; None where they are not known."""
    variables: list[tuple[str, weakref.ref[Any]]] = field(default_factory=list)
    """Those that it holds, of which the shape may change, by what the function calls each."""
    seen: dict[tuple[str, ...], Call] = field(default_factory=dict)
    """What XLA has compiled it for, by the shapes."""
    gradients: bool = False
    """Whether it computes some, or is called under a tape."""
    sites: dict[Any, Candidate | None] = field(default_factory=dict)
    """The user's lines that call it: code (its id), instruction there, thread."""
    made: list[str] = field(default_factory=list)
    """The variables that its first call made."""
    graph: weakref.ref[Any] | None = None
    """The last one that was traced."""
    program: programs.Naming | None = None
    """A name for that, once it was called."""
