"""Knows each compile while the process runs: what it replaces, and whether the warm-up should have had it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator

from coldstep._util.figures import duration
from coldstep._util.slotted import field, slotted
from coldstep.events import Args, Ready
from coldstep.recording.counters import Ended
from coldstep.rows.variants import LOADED, Candidate, Variants, is_late, is_variant
from coldstep.signature import signature_of
from coldstep.vocabulary import Vocabulary

_ARROWS = 8  # recompiles that an arrow can go to from what they replace, whose slice is written before they come


@slotted
class Retold:
    """One of the variants of an identity: what a trace must hold of it for the recompile to be explained."""

    track: str
    """The kind of its track."""
    args: Args
    """All that its segments hold."""
    phases: list[str]
    """Its phases, by the ledger's names, each once."""


@slotted
class Late:
    """A compile after a `Ready`."""

    ready: Ready
    """That one."""
    tid: int
    """The thread that compiled."""
    step: int | None
    """The ordinal of the step in which it ended; None outside of steps."""
    took_ns: int
    """How long it took, from `ready()` on."""
    warm: list[Retold]
    """What had been compiled before of its function."""
    compile: Retold
    """It itself."""

    def line(self) -> str:
        """It in one line."""
        about = self.compile.args
        place = about.get("caller") or about.get("location")
        where = f", {os.path.basename(str(place['file']))}:{place['line']}" if isinstance(place, dict) else ""
        how = "loaded from a disk cache" if about.get("outcome") == LOADED else "compiled"
        return f"after {self.ready.name}: {about.get('function')} was {how}, {duration(self.took_ns)}{where}"


@slotted
class CompileSoFar:
    """All that ties a recompile to the compile that it replaces."""

    track: str
    ns: int  # when it began
    step: str | None  # the name of the last step that was marked before it began
    args: Args = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    is_done: bool = False
    ended_ns: int | None = None  # the last of its segments so far
    took_ns: int = 0  # all of its segments so far
    is_late: bool = False
    arrows: list[int] = field(default_factory=list)  # flows that its slice carries, for what will replace it
    arrow: int | None = None  # the flow from what it replaces

    def retold(self) -> Retold:
        return Retold(self.track, dict(self.args), list(self.phases))

    def counted(self) -> Ended:
        is_again = self.arrow is not None or "earlier" in self.args
        return Ended(self.took_ns, self.outcome, is_again, self.args.get("parent") is not None)

    @property
    def origin(self) -> str | None:
        origin = self.args.get("origin", "")
        return str(origin) if origin is not None else None

    @property
    def outcome(self) -> str:
        return str(self.args.get("outcome"))


class CompilesSoFar:
    """The compiles of one process, by id. `parents` are those of the process that this one was forked of, which has the
    same functions."""

    def __init__(self, vocabulary: Vocabulary, new_id: Callable[[], int], parents: CompilesSoFar | None) -> None:
        self._vocabulary = vocabulary
        self._new_id = new_id
        self._parents = parents
        self._compiles: dict[str, CompileSoFar] = {}
        self._variants = Variants()
        self._recompiles: deque[tuple[str, int | None]] = deque()
        self.ready: Ready | None = None
        """When the program last declared that all was warmed up."""
        self.late: deque[Late] = deque()
        """What was compiled since: for whoever takes it."""

    def __getitem__(self, compile_id: str) -> CompileSoFar:
        return self._compiles[compile_id]

    # --- for any thread, after a flush -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Retold]:
        """All so far."""
        return (compile_.retold() for compile_ in self._compiles.values())

    def take_recompiles(self) -> list[tuple[list[Retold], int | None]]:
        """The recompiles since this was last asked, each with the step in which it ended, as the variants of its
        identity, itself the last."""
        groups = []
        while self._recompiles:
            compile_id, step = self._recompiles.popleft()
            known = [row.id for row in self._variants.of(str(self._compiles[compile_id].args["identity"]))]
            variants = [self._compiles[each] for each in known[: known.index(compile_id) + 1]]
            groups.append(([row.retold() for row in variants], step))
        return groups

    def variants_of(self, compile_id: str) -> tuple[list[Retold], int]:
        """A compile, the last, after all others of its identity so far; and how long it took."""
        compile_ = self._compiles[compile_id]
        known = (row.id for row in self._variants.of(str(compile_.args.get("identity"))))
        others = [self._compiles[each].retold() for each in known if each != compile_id]
        return [*others, compile_.retold()], compile_.took_ns

    def ended(self) -> list[Ended]:
        """All that have ended so far."""
        return [row.counted() for row in list(self._compiles.values()) if row.ended_ns is not None]

    # --- for the recorder --------------------------------------------------------------------------------------

    def signatures(self, identity: str) -> list[Args]:
        """Those of all that was compiled of one identity, here and in the processes that forked this one."""
        rows = (self._compiles[row.id].args for row in self._variants.of(identity))
        own: list[Args] = [{key: row[key] for key in ("inputs", "context") if row.get(key)} for row in rows]
        return [*(self._parents.signatures(identity) if self._parents is not None else []), *own]

    def begin(self, ns: int, compile_id: str, track: str, step: str | None, args: Args) -> None:
        """A segment begins; `step` is the name of the last step that was marked."""
        self._compiles.setdefault(compile_id, CompileSoFar(track, ns, step)).args.update(args)

    def end(self, compile_id: str, args: Args, step: int | None) -> tuple[int, ...]:
        """A segment ends, in that step: its flows, of what will replace this compile, and of what it replaces."""
        compile_ = self._compiles[compile_id]
        compile_.args.update(args)
        identity = str(compile_.args.get("identity") or "")
        if compile_.is_done or not identity or "outcome" not in args or not is_variant(compile_):
            return ()
        compile_.is_done = True
        stack = self._vocabulary.stack_of(compile_.track)
        done = Candidate(compile_id, stack, compile_.step, signature_of(compile_.args))
        replaced = self._variants.add(identity, done)
        compile_.arrows = [self._new_id() for _ in range(_ARROWS)]
        flows = list(compile_.arrows)
        if replaced is not None:
            previous = self._compiles[replaced.id]
            # an arrow leaves from the slice that begins first: of two that overlap, that may be this one
            drawn = previous.arrows and previous.ns <= compile_.ns
            compile_.arrow = previous.arrows.pop() if drawn else self._new_id()
            flows.append(compile_.arrow)
        elif self._parents is not None and (known := self._parents.signatures(identity)):
            before: Args = {"earlier": True, "before": known, "variant": len(known) + 1}
            compile_.args.update(before)
            args.update(before)
        if replaced is not None or compile_.args.get("earlier"):
            self._recompiles.append((compile_id, step))
        return tuple(flows)

    def look_at_late(self, compile_id: str, began_ns: int, ns: int, tid: int, step: int | None) -> None:
        """A segment has ended: whether the warm-up should have had its compile. One that is nested in another counts
        with that."""
        compile_, ready = self._compiles[compile_id], self.ready
        if ready is None:
            return
        parent = self._compiles.get(str(compile_.args.get("parent")))
        nested = parent is not None and (parent.is_late or "outcome" not in parent.args)
        took = ns - max(began_ns, ready.ns)
        if compile_.is_late or nested or not is_late(compile_, took):
            return
        compile_.is_late = True
        ended = (row for row in self._compiles.values() if row.ended_ns is not None and row.ended_ns <= ready.ns)
        warm = [row.retold() for row in ended if row.args.get("key") == compile_.args.get("key")]
        self.late.append(Late(ready, tid, step, took, warm, compile_.retold()))
