"""The question of a forecast, calls, and the answer of a framework's rules: the rows between core and collectors."""

from __future__ import annotations

from typing import Any

from coldstep._util.slotted import field, slotted
from coldstep.signature import Change


@slotted
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    """By position."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """By keyword."""


def call(*args: Any, **kwargs: Any) -> Call:
    """A future call, for `forecast`, if a tuple cannot express it: `coldstep.call(x, training=True)`."""
    return Call(args, kwargs)


@slotted
class ForetoldCompile:
    """A call that will compile."""

    call: int
    """Which of the calls, from 0."""
    cause: str = "first"
    """first | one of the causes that a recompile has"""
    argument: str | None = None
    """What differs from the nearest variant that there will be."""
    before: str | None = None
    """As it is in that variant."""
    after: str | None = None
    """As it is in this call."""
    cost_ns: int | None = None
    """Its cost, by an earlier trace; None where none shows it."""

    def explain(self, change: Change | None) -> None:
        """Say that this change explains it; None where nothing shown does."""
        if change is None:
            self.cause, self.argument, self.before, self.after = "unknown", None, None, None
        else:
            self.cause, self.argument = change.mechanism, change.argument
            self.before, self.after = change.before, change.after


@slotted
class UnknownCall:
    """A call that cannot be judged."""

    call: int
    """Which of the calls, from 0."""
    why: str
    """What stands in the way."""


@slotted
class Sizes:
    """What a plan needs of one call: the sizes of its arrays, and all the rest of what it is compiled for."""

    shapes: dict[str, tuple[int, ...]]
    """By argument."""
    rest: object
    """Equal for two calls that differ in sizes alone; hashable."""


@slotted
class Foretold:
    """The answer of a framework's own rules to the calls."""

    stack: str
    """The framework, as `Compile.stack` has it."""
    function: str
    """Its name, as a trace has it."""
    calls: int = 0
    """How many there are."""
    compiles: list[ForetoldCompile] = field(default_factory=list)
    unknown: list[UnknownCall] = field(default_factory=list)
    limit_at: int | None = None
    """The first call that the framework's limit of variants leaves uncompiled."""
    opens_sizes: bool = False
    """Whether the framework leaves a size open once it has seen two."""
    sizes: list[Sizes] = field(default_factory=list)
    """Of every call."""
    notes: list[str] = field(default_factory=list)
    """The assumptions."""

    def next_call(self) -> int:
        """The number of the call that is judged now."""
        self.calls += 1
        return self.calls - 1

    def leave_open(self, number: int, why: str) -> None:
        """That call cannot be judged."""
        self.unknown.append(UnknownCall(number, why))
