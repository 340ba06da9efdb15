"""The causes that programs expect against those that were reported, as one matrix per stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest

from coldstep import vocabulary
from scenarios import Said, Scenario

LEGEND = (
    "Rows: what the programs provoke. Columns: what is reported, by the rows' numbers. What is wrong has a mark: 1!"
)
NOTHING, UNKNOWN = "nothing", "unknown"
CAUSES = tuple(cause.name for cause in vocabulary.CAUSES if cause.name != UNKNOWN)
"""The words that a cause may be, in the order in which they are shown."""
_CELL = 4


@dataclass(slots=True)
class Outcome:
    """What a program's report said; `failure`, where there is none to read."""

    scenario: Scenario
    reported: list[Said] = field(default_factory=list)
    failure: str | None = None

    @property
    def pairs(self) -> list[tuple[Said | None, Said | None]]:
        """Each recompile that is expected, with the one that was reported in its place."""
        expected, reported = self.scenario.recompiles, self.reported
        aligned = SequenceMatcher(None, [said[0] for said in expected], [said[0] for said in reported], autojunk=False)
        return [
            pair
            for _, start, stop, begin, end in aligned.get_opcodes()
            for pair in zip_longest(expected[start:stop], reported[begin:end])
        ]

    def complaints(self) -> Iterator[str]:
        """Whatever is not as expected, in words."""
        if self.failure is not None:
            yield f"{self.scenario.name} did not run: {self.failure}"
        else:
            for expected, reported in self.pairs:
                if expected != reported or _cause(reported) == UNKNOWN:
                    yield f"{self.scenario.name}: expected {_words(expected)}; reported {_words(reported)}"


def matrix(title: str, outcomes: Iterable[Outcome]) -> str:
    """Rows are expected causes, columns reported ones; what is off the diagonal is marked."""
    cells: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        if outcome.failure is None:
            cells.update((_cause(expected), _cause(reported)) for expected, reported in outcome.pairs or [(None, None)])
    seen = {cause for cell in cells for cause in cell}
    shown = [
        cause for cause in (*CAUSES, *sorted(seen - {*CAUSES, NOTHING, UNKNOWN}), UNKNOWN, NOTHING) if cause in seen
    ]
    label = max(len(cause) for cause in (*shown, title)) + 3
    lines = [f"{title:{label}}" + "".join(f"{column:{_CELL}}" for column in range(1, len(shown) + 1))]
    for number, row in enumerate(shown, start=1):
        marks = (_mark(cells[row, column], right=row == column != UNKNOWN) for column in shown)
        lines.append(f"{number:2} {row:{label - 3}}" + "".join(f"{mark:>{_CELL}}" for mark in marks).rstrip())
    return "\n".join(lines)


def _mark(count: int, *, right: bool) -> str:
    return f"{count or '.'}" if right or not count else f"{count}!"


def _cause(said: Said | None) -> str:
    return said[0] if said else NOTHING


def _words(said: Said | None) -> str:
    if said is None:
        return NOTHING
    cause, argument, before, after = said
    return f"{cause}{f' of {argument}' if argument else ''}: {before} → {after}"
