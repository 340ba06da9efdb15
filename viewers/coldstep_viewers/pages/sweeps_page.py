"""A sweep of a label as one HTML page: for each stack a table with a bar per value, where the curve turns, and why.

It needs no script and asks no server; a trace's texts reach it as escaped text alone.
"""

from __future__ import annotations

from coldstep.analysis.across.frameworks import Stacks
from coldstep.analysis.across.sweeps import Sweeps
from coldstep_viewers.pages.frameworks_page import bars
from coldstep_viewers.pages.sweeps_text import COLUMNS, cells, verdict
from coldstep_viewers.pages.template import rendered, style
from coldstep_viewers.safe_text import short


def page(swept: Sweeps) -> str:
    """The whole page."""
    rows = [point.row for each in swept.sweeps for point in each.points]
    parts, legend = bars(Stacks(swept.name, [], rows, [], swept.vocabulary))
    lanes = iter(parts)
    sweeps = []
    for each in swept.sweeps:
        points = [(short(point.value), cells(point), next(lanes)) for point in each.points]
        sweeps.append({"words": each.words, "verdict": verdict(each), "rows": points})
    words = {"name": short(swept.name), "label": short(swept.sweeps[0].label), "columns": COLUMNS}
    return rendered("sweeps.html", style=style(swept.vocabulary), legend=legend, sweeps=sweeps, **words)
