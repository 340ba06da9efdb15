"""Tells, while a program runs that marks no steps, whether it seems to have settled: so that its profilers may end.

What its steps are is found when the trace is read. Nothing of this is on the program's own path: calls are counted
anyway, and looked at now and then.
"""

from __future__ import annotations

from collections.abc import Iterable

from coldstep.candidates import Candidate
from coldstep.clock import now

_TRUST = {"optimizer": 2, "trainer": 3, "other_tool": 4}
_LEARNS = 1  # a compiled function that computes gradients, or is given its own results
_CLEAN = 3  # calls, one after the other, in whose time nothing was compiled
_QUIET_NS = 30_000_000_000  # without a compile: what repeats nothing that is trusted is not followed for ever


class Following:
    """A program's candidates for steps, looked at on one thread."""

    def __init__(self) -> None:
        self._unsettled = 0
        self._since = now()
        self._called: dict[str, int] = {}

    def is_over(self, candidates: Iterable[Candidate], unsettled: int) -> bool:
        """Whether the commonest of those that are trusted most was called often enough since the last look that found
        `unsettled` gone up, which it does with every compile; or nothing has compiled for so long."""
        candidates = list(candidates)
        # layers of one step may be compiled each by itself: where an optimizer was made, its steps end the program's
        steps_optimizer = any(row.kind == "setup" for row in candidates)
        counts = [(row, row.written + len(row.calls)) for row in candidates]
        if unsettled != self._unsettled:
            self._unsettled, self._since = unsettled, now()
            self._called = {row.id: calls for row, calls in counts}
        if now() - self._since > _QUIET_NS:
            return True
        least = _TRUST["optimizer"] if steps_optimizer else _LEARNS
        trusted = [(_trust(row), calls, row.id) for row, calls in counts if _trust(row) >= least]
        if not trusted:
            return False
        _, calls, id_ = max(trusted)
        return calls - self._called.get(id_, 0) >= _CLEAN


def _trust(candidate: Candidate) -> int:
    learns = candidate.gradients or candidate.fed.get(candidate.id, 0) > 1
    return _TRUST.get(candidate.kind, _LEARNS if candidate.kind == "call" and learns else 0)
