"""Whether autotuning pays is given only where the choices' times are their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sample_trace import sample

from coldstep.events import CHOICES, HELD_UP, TUNED
from coldstep.loading.autotuning import autotuning
from coldstep.loading.row_types import Slice
from coldstep.model import Autotuning
from coldstep.pftrace.layout import Track
from coldstep_viewers.report.terminal import render

MS = 1_000_000


def tuned(best_ns: int, held_up_ns: int | None) -> Autotuning:
    """One operation: 3 s of compiling, one second of timing of which so much was a wait, 1 ms a call without tuning."""
    track = Track("torch", 1, "main")
    outcome = {"operation": "mm(64x192)", "choices": 2, "winner": "cpp", "best_ns": best_ns, "untuned_ns": MS}
    held: dict[str, Any] = {HELD_UP: held_up_ns} if held_up_ns is not None else {}
    slices = [
        Slice(track, "mm_template_precompiling", "autotune", 0, 3000 * MS, {CHOICES: True}),
        Slice(track, "mm_template_autotuning", "autotune", 3000 * MS, 4000 * MS, held),
        Slice(track, "autotuned", "autotune", 4000 * MS, 4000 * MS, {TUNED: outcome}),
    ]
    rows: Any = SimpleNamespace(slices=slices, process=0)
    time: Any = SimpleNamespace(at=lambda _: 0)
    nowhere: Any = SimpleNamespace(read=lambda _: None)
    [row] = autotuning(rows, time, [], nowhere)
    return row


@pytest.mark.parametrize(
    ("best_ns", "held_up_ns", "calls", "words"),
    [
        (MS // 2, 0, 8000, "500 µs less a call as it was timed then, pays after 8000 calls"),
        (MS // 2, None, 8000, "pays after 8000 calls"),  # the kernel does not count it, or a log does not show it
        (MS // 2, 490 * MS, 8000, "pays after 8000 calls"),
        (MS // 2, 510 * MS, None, "on processors that had other work: whether it pays cannot be known"),
        (MS, 510 * MS, None, "it gains nothing over the untuned choice"),  # which was taken, however it was timed
        (MS, 0, None, "it gains nothing over the untuned choice"),
    ],
)
def test_calls_until_it_pays(best_ns: int, held_up_ns: int | None, calls: int | None, words: str) -> None:
    row = tuned(best_ns, held_up_ns)
    assert (row.pays_after_calls, row.held_up_ns) == (calls, held_up_ns)
    trace = sample()
    trace.autotuning = [row]
    assert words in " ".join(render(trace, 300).split())
