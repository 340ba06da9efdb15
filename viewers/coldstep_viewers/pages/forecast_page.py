"""A forecast as one HTML page that needs nothing else: the calls that compile, and the curves of what can be done."""

from __future__ import annotations

from typing import Any

from coldstep._util.figures import duration, percent
from coldstep.ahead.forecast import Forecast
from coldstep.ahead.forecast_rows import ForetoldCompile
from coldstep.ahead.plans import Curve
from coldstep.vocabulary import OURS
from coldstep_viewers.pages import forecast_text
from coldstep_viewers.pages.template import rendered, scripts, style

_MAX_ROWS = 1_000


def page(forecast: Forecast) -> str:
    """The whole page. The user's data and code reach it as text alone."""
    vendored, script, policy = scripts("forecast.js")
    return rendered(
        "forecast.html",
        policy=policy,
        style=style(OURS),
        vendored=vendored,
        script=script,
        headline=forecast_text.headline(forecast),
        notes=forecast.notes,
        compiles=[_row(row) for row in forecast.compiles[:_MAX_ROWS]],
        more=max(0, len(forecast.compiles) - _MAX_ROWS),
        unknown=forecast_text.unknown(forecast),
        limit_at=forecast.limit_at,
        curves=[_curve(curve) for curve in forecast.curves],
        data=[_points(curve) for curve in forecast.curves],
    )


def _row(row: ForetoldCompile) -> tuple[int, str, str, str]:
    return (
        row.call,
        row.cause,
        forecast_text.change(row),
        duration(row.cost_ns) if row.cost_ns is not None else "not known",
    )


def _curve(curve: Curve) -> dict[str, Any]:
    rows = [
        {
            "title": forecast_text.title(plan),
            "compiles": "not known" if plan.compiles is None else str(plan.compiles),
            "padding": percent(plan.padding_share),
            "total": "not known" if plan.total_ns is None else duration(plan.total_ns),
            "chosen": number == curve.chosen,
        }
        for number, plan in enumerate(curve.plans)
    ]
    return {
        "place": forecast_text.place(curve),
        "plans": rows,
        "work": forecast_text.work(curve),
        "code": curve.plans[curve.chosen].code,
    }


def _points(curve: Curve) -> list[dict[str, Any]]:
    """The plans as the chart has them: of compiles, the seconds where they are known."""
    return [
        {
            "title": forecast_text.title(plan),
            "compiles": plan.compiles,
            "padding": 100 * plan.padding_share,
            "total": plan.total_ns / 1e9 if plan.total_ns is not None else None,
            "chosen": number == curve.chosen,
        }
        for number, plan in enumerate(curve.plans)
    ]
