"""The report in Markdown, for an issue, a pull request or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coldstep._util.figures import count, duration, percent
from coldstep.model import Trace
from coldstep.rows.processes import name
from coldstep_viewers.report.answers import head
from coldstep_viewers.report.headline import clauses
from coldstep_viewers.report.ledger import until_settled
from coldstep_viewers.report.sentences import cause, step_of, unobserved
from coldstep_viewers.safe_text import flat
from coldstep_viewers.safe_text import markdown as text

_MAX_ROWS = 20
_MAX_PROCESSES = 4


def render(trace: Trace) -> str:
    """The whole report; it ends without a line break."""
    return "\n".join(_lines(trace))


def _lines(trace: Trace) -> Iterator[str]:
    yield from (f"**{text(clause)}**  " for clause in clauses(trace))
    yield ""
    shown = head(trace)
    yield from (f"> {text(line)}" for line in shown.blind)
    yield f"### {text(shown.title)}"
    yield ""
    for entry in shown.entries:
        paid = f" ({entry.cost})" if entry.cost else ""
        yield f"{entry.number}. **{text(entry.text)}**{paid}"
        if entry.place:
            line = f": {_code(entry.code)}" if entry.code else ""
            yield f"   {_code(entry.place)}{line}"
        yield from (f"   {text(sentence)}" for sentence in entry.change)
    if shown.rest:
        yield from ("", text(shown.rest))
    yield from _spent(trace)
    yield from _table("Recompiles", ("function", "when", "cost", "cause"), list(_recompiles(trace)))
    yield from _table("Graph breaks", ("where", "times", "cost", "reason"), list(_breaks(trace)))
    if missing := list(dict.fromkeys(unobserved(trace))):
        yield from ("", "### Not observed", "", *(f"- {text(each)}" for each in missing[:_MAX_ROWS]))


def _spent(trace: Trace) -> Iterator[str]:
    for process in trace.processes[:_MAX_PROCESSES]:
        rows = [
            (f"{stretch.title}: {row.label}", duration(row.ns), percent(row.ns / stretch.wall_ns))
            for stretch in until_settled(trace, process.index)[1]
            for row in stretch.rows()
            if row.ns * 20 >= stretch.wall_ns
        ]
        of = f" of {name(trace, process.index)}" if len(trace.processes) > 1 else ""
        yield from _table(f"Where the time went{of}", ("", "time", "share"), rows)


def _recompiles(trace: Trace) -> Iterator[tuple[str, ...]]:
    functions = {row.id: row.function for row in trace.compiles}
    for row in sorted(trace.recompiles, key=lambda row: -row.cost_ns):
        yield functions.get(row.compile, ""), step_of(trace, row.interval), duration(row.cost_ns), cause(row)


def _breaks(trace: Trace) -> Iterator[tuple[str, ...]]:
    for row in sorted(trace.graph_breaks, key=lambda row: -row.cost_ns):
        place = f"{row.location.file}:{row.location.line}" if row.location is not None else row.function
        yield place, str(row.count), duration(row.cost_ns), row.reason


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"### {title}", "", f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |")
    yield from (f"| {' | '.join(map(text, row))} |" for row in rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        yield from ("", f"and {count(len(rows) - _MAX_ROWS, 'more row')}; coldstep report --format json has them all.")


def _code(words: str) -> str:
    """The same as code, or as text where it holds a backtick."""
    return f"`{flat(words)}`" if "`" not in words else text(words)
