"""The typed events that collectors emit; a session appends them, a recorder writes them out.

Within one thread, `Begin` and `End` nest like calls, whatever track they are drawn on: the innermost open
`Begin` that names a phase is what that thread is doing. All stamps are `clock.now()` nanoseconds, read in
the hook that saw the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Args = dict[str, Any]
"""What a slice or instant says beyond its name: text keys; values are str, int, float, bool, None, or lists
and dicts of such. Never a live object of the user's: strings, shapes and hashes only."""

COMPILE_ARGS = """
The arguments of a compile's segments, on their `Begin` or `End`; of one compile's segments the later word counts.

part            forward | backward | attempt | autotune
function        the user's name for it: "train_step", "<lambda>", "GPT.forward"
origin          user | library | eager (defined in the user's files, in an installed package, by the framework's
                own eager operations)
key             "stack:file:qualname"
identity        a text equal exactly when two compiles are of one identity (code object, module instance, which
                arguments are static, reset epoch where ids restart): a further compile of it is a recompile
location        where the function is defined: {"file": absolute path, "line": int, "function": str}
caller          the innermost frame in the user's files that called it, likewise
inputs          the signature: [{"argument": "batch['tokens']", "type": "i32[8,128]"}, ...]
context         the rest of the signature: {"donated": "...", "grad_mode": "...", ...}, all text
guard_failures  the framework's own words, newest variant first
limit           how many variants the framework allows (int)
parent          id of the compile that this one is nested in
caused_by       id of the `GraphBreak` whose resume frame this compile is
caches          [{"layer": "xla.persistent", "state": "hit", "saved_ns": 123}, ...]
outcome         compiled | cache_hit | skipped | discarded | limit | failed | traced_only (the last segment's End)
framework_id    the framework's own id ("0/1")
error           what it said when it failed
"""


@dataclass(slots=True)
class Begin:
    """Something began on this thread: a phase, a compile's segment, or an annotation.

    `track` is one of "imports", "jax", "torch", "torch_xla", "execute", "annotations", "gc", "coldstep".
    `phase` is the ledger's name for the time that follows (`inductor.cpp`); None leaves the time to the
    enclosing phase and only draws a slice. `compile` ties the slice to a compile (an id from
    `Sink.new_compile()`): the slice is then one *segment* of that compile, and `args["part"]` says which
    ("forward", "backward", "attempt", "autotune").
    """

    ns: int
    name: str
    track: str
    phase: str | None = None
    compile: str | None = None
    args: Args | None = None


@dataclass(slots=True)
class End:
    """The end of `begin`; what is still open inside it on this thread ends with it. `args` are added to its slice."""

    ns: int
    begin: Begin
    args: Args | None = None


@dataclass(slots=True)
class Slice:
    """A slice known only when it is over (a heavy submodule's import): drawn, never a phase.

    The one event of the bulk class: bounded in number, the oldest are dropped whole and counted. All others are
    the ledger's and are never dropped.
    """

    ns: int
    end_ns: int
    name: str
    track: str
    args: Args | None = None


@dataclass(slots=True)
class GraphBreak:
    """Dynamo gave up on a graph. `id` is the collector's own ("g0", …), `compile` the id of the compile that broke.

    `args`: reason (the framework's words), kind (a word of the report's schema), function, location, stack
    (user frames, outermost first), hints (PyTorch's own).
    """

    ns: int
    id: str
    compile: str | None
    args: Args


@dataclass(slots=True)
class StepBegin:
    """A marked step began; `n` counts from 0 per name and process."""

    ns: int
    name: str
    n: int


@dataclass(slots=True)
class StepEnd:
    """The end of `begin`; `complete` tells whether `coldstep.wait` was called in it."""

    ns: int
    begin: StepBegin
    complete: bool
    python_dispatches: int


@dataclass(slots=True)
class Note:
    """Something that whoever reads the trace must know, in one sentence."""

    ns: int
    text: str


@dataclass(slots=True)
class CollectorState:
    """A collector attached, came late, lacks hooks, or failed. `missing` names, in words, what it cannot see."""

    ns: int
    name: str
    state: str  # attached | late | partial | failed
    version: str | None
    missing: list[str]


Event = Begin | End | Slice | GraphBreak | StepBegin | StepEnd | Note | CollectorState
