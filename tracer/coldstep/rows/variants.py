"""Which compiles are variants of one function, which earlier one a recompile replaces, and for which step each counts.

The recorder decides it while the process runs, and whoever reads the trace decides it again: by these rules, both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coldstep._util.slotted import slotted
from coldstep.context import CACHE, FUNCTION
from coldstep.signature import Signature, nearest

MADE = ("compiled", "cache_hit", "discarded", "skipped")
"""The outcomes with which a compile has become one of its function's variants."""


LOADED = "cache_hit"
"""The outcome of what a disk's cache had."""
_SLOW_LOAD_NS = 100_000_000
_COMPARED_VARIANTS = 256  # of a function that a new one is held against: the latest


class Made(Protocol):
    """A compile, as far as the rules ask."""

    @property
    def origin(self) -> str | None:
        """Whose function it is; None where that is not known: it may be the user's own."""

    @property
    def outcome(self) -> str:
        """How it has ended so far."""


def is_variant(compile_: Made) -> bool:
    """Whether a compile is one more variant of one of the user's own functions; so is one that a kill has left open."""
    return compile_.origin in ("user", None) and compile_.outcome in (*MADE, "in_progress")


def counts(compile_: Made) -> bool:
    """Whether a compile counts for the step in which it began: eager, library and traced-only ones count for none."""
    return compile_.origin in ("user", None) and compile_.outcome != "traced_only"


def is_late(compile_: Made, took_ns: int) -> bool:
    """Whether a compile must not be once all is warmed up, whosever it is: one that was made, or asked for in vain. So
    is a load from a disk's cache for which a request waits as long as for a compile."""
    if compile_.outcome == LOADED:
        return took_ns >= _SLOW_LOAD_NS
    return compile_.outcome in ("compiled", "discarded", "failed", "limit", "in_progress")


def counts_for_step_before(stack: str) -> bool:
    """Whether a compile between two steps counts for the one before: what a step has left to be done is that step's."""
    return stack == "torch_xla"


def cache_of(stack: str, signature: Signature) -> str | None:
    """Which cache keeps a variant, where a reset begins another one, and a notebook's cell that runs again: of
    PyTorch's, what it has cleared, or holds for the code of before, is not asked."""
    if stack != "dynamo":
        return None
    return " ".join(text for form in (CACHE, FUNCTION) if (text := signature.context.get(form.key()))) or None


@slotted
class Candidate:
    """A compile that is done, and that a recompile may replace. `step`: the name of the last step that was marked
    before it began."""

    id: str
    """Its id."""
    stack: str
    """The compiler."""
    step: str | None
    signature: Signature
    """What it was specialised on."""


class Variants:
    """The variants of every identity, in the order in which they were done: of two that overlap, the one that was
    there first is what the other one replaces."""

    def __init__(self) -> None:
        self._known: dict[str, list[Candidate]] = {}

    def add(self, identity: str, new: Candidate) -> Candidate | None:
        """Add a variant compiled now; the earlier one that it replaces, if there is any."""
        known = self._known.setdefault(identity, [])
        replaced = _replaced(known, new) if known else None
        known.append(new)
        return replaced

    def of(self, identity: str) -> list[Candidate]:
        """All variants of an identity so far."""
        return self._known.get(identity, [])


def _replaced(earlier: Sequence[Candidate], new: Candidate) -> Candidate:
    """The nearest: of PyTorch's, of those since the last reset, for what it has cleared explains no guard that failed
    since; of torch_xla's, of the same kind of step, for a line that syncs may do so for several loops."""
    cache = cache_of(new.stack, new.signature)
    recent = earlier[-_COMPARED_VARIANTS:]
    candidates = [row for row in recent if cache_of(row.stack, row.signature) == cache]
    if new.stack == "torch_xla":
        candidates = [row for row in candidates if row.step == new.step]
    candidates = candidates or list(recent)
    return candidates[nearest([row.signature for row in candidates], new.signature)]
