"""A forecast as text: which calls compile and why, and the curve of what can be done about a size that varies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coldstep._util.figures import count, duration, listed, numbers, percent
from coldstep._util.gathered import gathered
from coldstep.ahead.forecast import Forecast
from coldstep.ahead.forecast_rows import ForetoldCompile
from coldstep.ahead.plans import Curve, Plan
from coldstep.vocabulary import STACKS

_MAX_ROWS = 20
_BAR = 30


def lines(forecast: Forecast) -> Iterator[str]:
    """The whole of it."""
    yield headline(forecast)
    yield from (f"  {note}" for note in forecast.notes)
    if forecast.compiles:
        yield from ("", *_table([_row(row) for row in forecast.compiles[:_MAX_ROWS]]))
        if (more := len(forecast.compiles) - _MAX_ROWS) > 0:
            yield f"  and {more} more; --format json has them"
    for why, calls in unknown(forecast).items():
        yield from ("", f"  not known of {count(len(calls), 'call')} ({numbers(calls)}): {why}")
    if forecast.limit_at is not None:
        yield ""
        yield f"  the limit of variants is reached: call {forecast.limit_at} and further new ones run uncompiled"
    for curve in forecast.curves:
        yield from ("", *_curve(curve))


def headline(forecast: Forecast) -> str:
    """What matters most, in a sentence."""
    stack = next((stack.words for stack in STACKS if stack.name == forecast.stack), forecast.stack)
    text = f"{forecast.function} ({stack}): of {count(forecast.calls, 'call')}, {len(forecast.compiles)} will compile"
    if forecast.unknown:
        text += f", {len(forecast.unknown)} may"
    costs = [row.cost_ns for row in forecast.compiles]
    if costs and None not in costs:
        text += f"; about {duration(sum(filter(None, costs)))} of compiling"
    return text


def unknown(forecast: Forecast) -> dict[str, list[int]]:
    """The calls that cannot be forecast, by why."""
    return gathered((row.why, row.call) for row in forecast.unknown)


def change(row: ForetoldCompile) -> str:
    """What differs: "x: f32[8] → f32[5]"; empty for a first compile."""
    if row.argument is None and row.before is None and row.after is None:
        return ""
    return f"{row.argument + ': ' if row.argument else ''}{row.before or 'not there'} → {row.after or 'not there'}"


def place(curve: Curve) -> str:
    """Which size a curve is about."""
    return listed((f"dimension {dimension} of {argument}" for argument, dimension in curve.places), 3)


def title(plan: Plan) -> str:
    """What a plan is, in a few words."""
    match plan.kind:
        case "as_it_is":
            return "as it is"
        case "dynamic":
            return "marked dynamic"
        case "longest":
            return f"padded to the longest, {plan.buckets[0]}"
    return f"{len(plan.buckets)} sizes: {', '.join(map(str, plan.buckets))}"


def work(curve: Curve) -> str:
    """Where the work of each size comes from."""
    if not curve.step_ns:
        return f"work is taken to grow with the size{': ' if curve.why else ''}{curve.why}"
    text = "steps as the trace measured them, size by size, its n-th step being the n-th call"
    between = sorted(set(curve.sizes) - curve.step_ns.keys())
    return f"{text}; {numbers(between)} as between the sizes around" if between else text


def _row(row: ForetoldCompile) -> tuple[str, ...]:
    cost = duration(row.cost_ns) if row.cost_ns is not None else ""
    return f"call {row.call}", row.cause, change(row), cost


def _curve(curve: Curve) -> Iterator[str]:
    different = len(set(curve.sizes))
    yield f"{place(curve)}: {count(different, 'size')} from {min(curve.sizes)} to {max(curve.sizes)}. What can be done:"
    is_priced = all(plan.total_ns is not None for plan in curve.plans)
    most = max([plan.total_ns or 0 for plan in curve.plans] if is_priced else [_padded(plan) for plan in curve.plans])
    rows = []
    for number, plan in enumerate(curve.plans):
        compiles = count(plan.compiles, "compile") if plan.compiles is not None else "compiles not known"
        total = duration(plan.total_ns) if plan.total_ns is not None else ""
        length = (plan.total_ns if is_priced else _padded(plan)) or 0
        bar = "█" * round(_BAR * length / most)
        mark = "◀" if number == curve.chosen else ""
        rows.append((title(plan), compiles, f"{percent(plan.padding_share)} padding", total, f"{bar} {mark}".rstrip()))
    yield from _table(rows)
    legend = "; ◀ is what the code below does" if curve.plans[curve.chosen].code else ""
    yield f"  (bars: {'compiles and steps' if is_priced else 'work'}; {work(curve)}{legend})"
    if code := curve.plans[curve.chosen].code:
        yield ""
        yield from (f"    {line}".rstrip() for line in code.splitlines())


def _padded(plan: Plan) -> float:
    """The work with its padding, where the work without any is 1."""
    return 1 / (1 - plan.padding_share)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
