"""A fleet as one HTML page without scripts: the tables' values reach it as escaped text alone."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from coldstep._util.figures import duration
from coldstep_viewers.fleet import words
from coldstep_viewers.fleet.report import Report
from coldstep_viewers.fleet.store import CUT
from coldstep_viewers.safe_text import plain

_MOST_CHARS = 2_000
_MOST_UNREAD = 100


def page(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("coldstep_viewers", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value[:_MOST_CHARS]) if type(value) is str else value,
    )
    environment.filters |= {"duration": duration, "header": words.header}
    return environment.get_template("fleet.html").render(
        report=report,
        unread=report.unread[:_MOST_UNREAD],
        more_unread=len(report.unread) - _MOST_UNREAD,
        cell=words.cell,
        columns=words.columns,
        is_number=words.is_number,
        cut=CUT,
    )
