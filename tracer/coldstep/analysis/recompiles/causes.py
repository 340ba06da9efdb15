"""Why one compile did not do for another call: two signatures compared, and held against the framework's own words.

A report asks it of a trace, and a forecast of what it has only tried: nothing of a trace is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coldstep._util import python_text
from coldstep._util.slotted import field, slotted
from coldstep.context import CACHE
from coldstep.events import Args
from coldstep.rows.variants import Candidate, Variants
from coldstep.signature import Change, Signature, differences, signature_of
from coldstep.vocabulary import OURS, Vocabulary

if TYPE_CHECKING:
    from coldstep.analysis.rules.dynamo import Guard

_UNPROVEN = ("unknown", "cache_cleared")  # mechanisms that explain nothing where another one is there
_FIRST_GUARD = "GLOBAL_STATE changed"


@slotted
class Known:
    """The parts of a compile that its cause depends on, as far as known."""

    signature: Signature
    """What it was specialised on."""
    framework_id: str = ""
    """The framework's own id of it, "" where it has none, or where it is no compile of the trace."""
    failures: Sequence[str] = ()
    """The framework's own words on why it missed every earlier variant."""
    guarded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The value at the place of each guard, by the framework's expression for the place."""


@slotted
class Explained:
    """Why one compile did not do for another call."""

    change: Change | None
    """The change that explains it; None where nothing shown does."""
    proven: bool
    changes: list[Change]
    """All that differs."""


def explain(vocabulary: Vocabulary, stack: str, new: Known, earlier: Known | None) -> Explained:
    """Why `new` had to be where `earlier` was; None where that is not known."""
    # each stack's own rules are imported here: a forecast has need of one's, and waits for its imports
    if stack == "torch_xla" and earlier is not None:
        from coldstep.analysis.rules import torch_xla

        return Explained(*torch_xla.explain(earlier.signature, new.signature))
    changes = differences(earlier.signature, new.signature) if earlier is not None else []
    for change in changes:
        if change.mechanism not in vocabulary.causes:
            change.mechanism = "unknown"
    if vocabulary.by_value(stack):
        changes = [change for change in changes if not _are_one_key(change)]
    if stack == "jax" and new.failures:
        from coldstep.analysis.rules import jax

        of_words = jax.read(new.failures[0], new.guarded)
        return _by_explanation(jax.explain(of_words, changes))
    if stack != "dynamo":
        return _by_signature(vocabulary.exact(stack), changes)
    from coldstep.analysis.rules.dynamo import read, refine

    changes = refine(changes)
    if not new.failures:
        cleared = [change for change in changes if change.mechanism == "cache_cleared"]  # no guard was asked
        return Explained(cleared[0], True, changes) if cleared else _by_signature(vocabulary.exact(stack), changes)
    about = _about(new.failures, earlier.framework_id if earlier is not None else "")
    if is_blind(new.signature):
        # which variant is nearest is not known: one whose guards failed on the modes, which come first, is not
        about = sorted(new.failures, key=lambda text: _FIRST_GUARD in text)
    explained = _by_guards([read(text, new.guarded) for text in about], changes)
    if is_blind(new.signature) and explained.change is not None:
        explained.proven = len(about) == 1 and (explained.change.after is not None or explained.change.before is None)
    if explained.change is not None and explained.change not in changes:
        explained.changes = [explained.change, *changes]
    return explained


def in_turn(stack: str, compiles: Iterable[Args]) -> Iterator[Explained | None]:
    """Why each of these, by a compile's arguments, was not done by an earlier variant of its function; None where none
    was there, and of functions that are not the user's."""
    known: list[Known | None] = []
    variants = Variants()
    for number, args in enumerate(compiles):
        failures = [str(text) for text in args.get("guard_failures") or ()]
        new = Known(signature_of(args), str(args.get("framework_id") or ""), failures, args.get("guarded") or {})
        known.append(new if args.get("inputs") is not None else None)
        nearest = None
        if args.get("origin") in ("user", None):
            candidate = Candidate(str(number), stack, None, new.signature)
            nearest = variants.add(str(args.get("identity")), candidate)
        if nearest is None:
            yield None
        elif (earlier := known[int(nearest.id)]) is None or known[-1] is None:  # it could not be seen
            yield Explained(None, False, [])
        else:
            yield explain(OURS, stack, new, earlier)


def explain_in_turn(stack: str, compiles: Iterable[Args], rows: Iterable[Any]) -> None:
    """Explain each row of a forecast by the change for which its compile is one, where that is known."""
    for row, why in zip(rows, in_turn(stack, compiles), strict=True):
        if why is not None:
            row.explain(why.change)


def is_blind(signature: Signature) -> bool:
    """Whether nothing is known of a compile's signature: it comes from a log."""
    return not signature.inputs and signature.context.keys() <= {CACHE.key()}


def _are_one_key(change: Change) -> bool:
    """Whether both values are numbers that are equal, of whatever type."""
    try:
        return bool(python_text.literal(change.before or "") == python_text.literal(change.after or ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _by_signature(exact: bool, changes: list[Change]) -> Explained:
    """JAX compiles anew for any difference: the first one that can be named explains it. Not all stacks do."""
    known = [change for change in changes if change.mechanism not in _UNPROVEN]
    known = known or [change for change in changes if change.mechanism != "unknown"]
    if known and (exact or len(known) == len(changes)):
        # which value XLA has compiled in is known by what else was equal
        return Explained(known[0], exact and known[0].mechanism != "baked_constant", changes)
    return Explained(None, False, changes)


def _by_explanation(changes: list[Change]) -> Explained:
    """By JAX's own words, where a log holds them: all that it says of a new function is that it had not seen it."""
    if not changes or changes[0].mechanism == "unknown":
        return Explained(None, False, changes)
    return Explained(changes[0], changes[0].mechanism != "new_function", changes)


def _by_guards(guards: list[Guard], changes: list[Change]) -> Explained:
    """The change that a failed guard speaks of. Only that can be the cause: a dynamic dimension may differ, too,
    without having compiled anything."""
    for guard in guards:
        about = [change for change in changes if guard.speaks_of(change)]
        if about:
            return Explained(min(about, key=lambda change: change.mechanism != guard.mechanism), True, changes)
    alone = next((change for guard in guards if (change := guard.change()) is not None), None)
    return Explained(alone, alone is not None, changes)


def _about(words: Sequence[str], framework_id: str) -> Sequence[str]:
    """The words on the variant that this compile is compared with; all of them where none names it."""
    return [text for text in words if framework_id and text.startswith(f"{framework_id}:")] or words
