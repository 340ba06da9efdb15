"""A compile that the next step will bring, as coldstep reports it to the program when the first has ended: while the
program can still avoid it."""

from __future__ import annotations

from coldstep._util.figures import duration
from coldstep._util.slotted import slotted
from coldstep._util.stderr import say
from coldstep.collector import Foreseen
from coldstep.events import Args
from coldstep.model import Location
from coldstep.notices.replay import explained_by, read_back, where_in
from coldstep.recording.compiles_so_far import Retold

_MOST_ANNOUNCED = 5


@slotted
class Coming:
    """The argument of `on_forecast`: what the next step will compile again, and why, if nothing changes before."""

    function: str
    """The function's name."""
    location: Location | None
    """Where the function is defined; files are relative to the repository's top, as in the report."""
    caller: Location | None
    """The line that called it."""
    name: str
    """The kind of step; empty where the program marks none."""
    step: int
    """The ordinal of the step that will compile it."""
    cause: str
    """One of `vocabulary.causes`."""
    argument: str | None
    """The path of what differs first."""
    before: str | None
    """As it was compiled for."""
    after: str | None
    """As it is now."""
    evidence: list[str]
    """What shows it."""
    advice: str
    """What to change."""
    cost_ns: int
    """What the compile before took."""

    def line(self) -> str:
        """It in one line."""
        change = f": {self.argument} was {self.before}, is now {self.after}" if self.argument else ""
        took = f"; it took {duration(self.cost_ns)}"
        when = f"{self.name} {self.step}" if self.name else "its next call"
        return f"{where_in(self)} will be compiled again in {when} ({self.cause}){change}{took}"

    def __str__(self) -> str:
        return "".join([self.line(), *(f"\n    {line}" for line in self.advice.splitlines())])


def announce(coming: list[Coming]) -> None:
    """Print each on stderr, up to five."""
    for notice in coming[:_MOST_ANNOUNCED]:
        for line in str(notice).splitlines():
            say(line)
    if (more := len(coming) - _MOST_ANNOUNCED) > 0:
        say(f"and {more} more will be compiled again")


def explain(
    foreseen: Foreseen, variants: list[Retold], took_ns: int, name: str, root: str, words: Args
) -> Coming | None:
    """The notice of a compile to come, after these variants; None where the report would not know why."""
    last = variants[-1]
    merged = {**(last.args.get("context") or {}), **(foreseen.args.get("context") or {})}
    context = {key: text for key, text in merged.items() if text is not None}
    args = last.args | {"guard_failures": None, "guarded": None} | foreseen.args | {"context": context}
    trace = read_back([*variants, Retold(last.track, args, last.phases)], root, words)
    compiled = trace.compiles[-1]
    why = next((row for row in trace.recompiles if row.compile == compiled.id), None)
    if why is None or why.cause == "unknown":
        return None
    return Coming(**explained_by(compiled, why), name=name, step=1, cost_ns=took_ns)
