"""A compile, and a call of its graph, as the collector knows them."""

from __future__ import annotations

import weakref
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted, slotted_object
from coldstep.candidates import Candidate
from coldstep.events import Args
from coldstep_collectors.captures import Captures
from coldstep_collectors.tensorflow._private import programs
from coldstep_collectors.values import quoted

# coldstep: "i32[8,None]"
_OPEN = expression(r"\bNone\b")
# coldstep: "i32[8]"
# coldstep: "bool[]"
_WHOLE = expression(r"(?:[iu]\d+|bool)\[")


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

    def changed(self, earlier: Call) -> list[str]:
        """The paths of the values that are others."""
        return [path for path, value in self.values.items() if earlier.values.get(path) != value]

    def differs_from(self, earlier: Call) -> list[str]:
        """The same in words."""
        return [
            f"{path} was {quoted(earlier.values.get(path) or 'not seen')}, now {quoted(self.values[path])}: XLA "
            "compiles in some values, as those that a shape depends on"
            for path in self.changed(earlier)
        ]

    def shows_all(self) -> bool:
        """Whether no value and no size is hidden that XLA may compile in."""
        return not any(
            _OPEN.search(row["type"]) or (_WHOLE.match(row["type"]) and row["argument"] not in self.values)
            for row in self.rows
        )


@slotted_object
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
    compiled_in: set[str] = field(default_factory=set)
    """The tensors whose values XLA has compiled in, as far as that has shown."""
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
