"""Reads what autotuning came to: which choices, what they took, which won, and after how many calls that pays."""

from __future__ import annotations

from collections.abc import Iterable

from coldstep._util.gathered import gathered
from coldstep.events import CHOICES, HELD_UP, TUNED, Args
from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Timeline
from coldstep.model import Autotuning, Compile
from coldstep.rows.spans import covered
from coldstep.vocabulary import AUTOTUNE

_MOST_HELD_UP = 0.5  # of the timing: PyTorch takes a median, which stands until half of the calls had to wait


def autotuning(rows: Rows, time: Timeline, compiles: Iterable[Compile], locations: Locations) -> list[Autotuning]:
    """All of a process, in the order in which they ended."""
    by_id = {row.id: row for row in compiles}
    threads = gathered((piece.track.tid, piece) for piece in rows.slices if piece.category == AUTOTUNE)
    ended: list[tuple[int, Autotuning]] = []
    for pieces in threads.values():
        since: list[Slice] = []
        # where one operation's outcome and the next one's time share a moment, the outcome, of no length, comes first
        for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end > piece.start, -piece.end)):
            if isinstance(outcome := piece.args.get(TUNED), dict):
                of = by_id.get(str(piece.args.get("of")))
                ended.append((piece.start, _row(rows, time, locations, since, piece, outcome, of)))
                since = []
            else:
                since.append(piece)
    return [row for _, row in sorted(ended, key=lambda pair: pair[0])]


def _row(
    rows: Rows, time: Timeline, locations: Locations, pieces: list[Slice], at: Slice, outcome: Args, of: Compile | None
) -> Autotuning:
    whole = covered((piece.start, piece.end) for piece in pieces)
    compiling = covered((piece.start, piece.end) for piece in pieces if CHOICES in piece.args)
    best, untuned = _ns(outcome.get("best_ns")), _ns(outcome.get("untuned_ns"))
    gain = max(0, untuned - best) if best is not None and untuned is not None else None
    timing = whole - compiling
    held = [ns for piece in pieces if (ns := _ns(piece.args.get(HELD_UP))) is not None]
    doubtful = sum(held) > _MOST_HELD_UP * timing
    return Autotuning(
        process=rows.process,
        compile=of.id if of is not None else None,
        operation=str(outcome.get("operation", "")),
        choices=_ns(outcome.get("choices")) or 0,
        compile_ns=compiling,
        timing_ns=timing,
        held_up_ns=sum(held) if held else None,
        winner=str(outcome.get("winner", "")),
        gain_ns=gain,
        pays_after_calls=-(-whole // gain) if gain and not doubtful else None,
        cached=outcome.get("cached", all(CHOICES in piece.args for piece in pieces)) is True,
        location=(of.caller or of.location) if of is not None else locations.read(at.args.get("caller")),
        interval=time.at(at.start),
    )


def _ns(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
