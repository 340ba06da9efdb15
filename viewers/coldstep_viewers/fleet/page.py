"""A fleet as one HTML page without scripts: the tables' values reach it as escaped text alone."""

from __future__ import annotations

from coldstep_viewers.fleet import words
from coldstep_viewers.fleet.report import Report
from coldstep_viewers.fleet.store import CUT
from coldstep_viewers.pages.template import rendered

_MOST_UNREAD = 100


def page(report: Report) -> str:
    """The whole page."""
    unread, more = report.unread[:_MOST_UNREAD], len(report.unread) - _MOST_UNREAD
    return rendered("fleet.html", report=report, unread=unread, more_unread=more, words=words, cut=CUT)
