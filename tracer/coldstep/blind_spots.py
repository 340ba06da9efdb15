"""What nobody may conclude from having seen nothing: for each thing that a collector lacks it names what that hides."""

from __future__ import annotations

from collections.abc import Iterable

COMPILES, RECOMPILES, RECORDINGS, BREAKS = "compiles", "recompiles", "recordings", "breaks"
PHASES, DISPATCHES, AUTOTUNING = "phases", "dispatches", "autotuning"
CLAIMS = (COMPILES, RECOMPILES, RECORDINGS, BREAKS, PHASES, DISPATCHES, AUTOTUNING)
"""What a trace can be silent about: that something compiled, that it did so again, that a CUDA graph was recorded, that
a graph broke, what a time went to, that a call left JAX's fast path, that choices were timed.

A cause is none of them: one that was not seen is `unknown`, which no silence is."""

_TOLD_BY: dict[str, tuple[str, ...]] = {
    "jax": (COMPILES, RECOMPILES, PHASES, DISPATCHES),
    "dynamo": (COMPILES, RECOMPILES, BREAKS, PHASES),
    "inductor": (RECORDINGS, PHASES, AUTOTUNING),
    "torch_xla": (COMPILES, RECOMPILES, BREAKS, PHASES),
    "tensorflow": (COMPILES, RECOMPILES, PHASES),
} | dict.fromkeys(("imports", "kineto", "outside", "process", "stacks", "steps", "xspace"), ())


class Unseen(str):
    """What a collector cannot see, in words, and which of `CLAIMS` its silence is no ground for. Plain words in the
    place of this one hide all of them."""

    __slots__ = ("hides",)
    hides: tuple[str, ...]

    def __new__(cls, words: str, *hides: str) -> Unseen:
        made = super().__new__(cls, words)
        made.hides = hides
        return made


BEGUN = Unseen("the log begins after the first compile: anything compiled before that", COMPILES, RECOMPILES)


def told_by(collector: str) -> tuple[str, ...]:
    """Which of `CLAIMS` rest on what a collector sees; of one that is not known, all."""
    return _TOLD_BY.get(collector, CLAIMS)


def left_open(collector: str, state: str, missing: Iterable[str]) -> list[str]:
    """Which of `CLAIMS` a collector in this state, that lacks all this, leaves open."""
    if state not in ("failed", "late", "partial"):
        return []
    hidden = {claim for words in missing for claim in (words.hides if isinstance(words, Unseen) else CLAIMS)}
    return [claim for claim in told_by(collector) if claim in hidden]


def known_claims(claims: object) -> list[str]:
    """Those of `CLAIMS` that a file names."""
    return [claim for claim in CLAIMS if isinstance(claims, list) and claim in claims]
