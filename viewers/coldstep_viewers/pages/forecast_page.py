"""A forecast as one HTML page that needs nothing else: the calls that compile, and the curves of what can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coldstep._util.figures import duration, percent
from coldstep.ahead.forecast import Forecast
from coldstep.ahead.forecast_rows import ForetoldCompile
from coldstep.ahead.plans import Curve, Plan
from coldstep.vocabulary import OURS
from coldstep_viewers.pages import forecast_text
from coldstep_viewers.pages.template import rendered, scripts, style

_MAX_ROWS = 1_000


def page(forecast: Forecast) -> str:
    """The whole page. The user's data and code reach it as text alone."""
    return rendered(
        "forecast.html",
        style=style(OURS),
        headline=forecast_text.headline(forecast),
        forecast=forecast,
        compiles=[_row(row) for row in forecast.compiles[:_MAX_ROWS]],
        more=max(0, len(forecast.compiles) - _MAX_ROWS),
        unknown=forecast_text.unknown(forecast),
        curves=list(map(_curve, forecast.curves)),
        **scripts("forecast.js"),
        data=[[_point(plan, curve) for plan in curve.plans] for curve in forecast.curves],
    )


def _row(row: ForetoldCompile) -> tuple[int, str, str, str]:
    return row.call, row.cause, forecast_text.change(row), _shown(row.cost_ns, duration)


def _curve(curve: Curve) -> dict[str, Any]:
    about = {"place": forecast_text.place(curve), "work": forecast_text.work(curve)}
    plans = [_point(plan, curve) | _words(plan) for plan in curve.plans]
    return about | {"plans": plans, "code": curve.plans[curve.chosen].code}


def _words(plan: Plan) -> dict[str, Any]:
    compiles, total = _shown(plan.compiles, str), _shown(plan.total_ns, duration)
    return {"compiles": compiles, "padding": percent(plan.padding_share), "total": total}


def _shown(figure: int | None, words: Callable[[int], str]) -> str:
    return "not known" if figure is None else words(figure)


def _point(plan: Plan, curve: Curve) -> dict[str, Any]:
    """A plan as the chart has it: of compiles, the seconds where they are known."""
    seconds = plan.total_ns / 1e9 if plan.total_ns is not None else None
    figures = {"compiles": plan.compiles, "padding": 100 * plan.padding_share, "total": seconds}
    return {"title": forecast_text.title(plan), **figures, "chosen": plan is curve.plans[curve.chosen]}
