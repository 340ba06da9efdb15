"""Writes coldstep's own words into the glossary: `python docs/words.py` after a change of `coldstep.vocabulary`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from coldstep.vocabulary import CAUSES, FINDINGS, PHASES, STACKS

GLOSSARY = Path(__file__).parent / "glossary.md"
HEAD = "## The words of the report\n"


def written(text: str) -> str:
    """The glossary's text with the words of today."""
    return text.partition(HEAD)[0] + "\n".join([HEAD, *_words()])


def _words() -> Iterator[str]:
    yield "What `--json`, SQL and budgets say, and what is meant. This part is generated: `python docs/words.py`.\n"
    stacks = {stack.name: stack.words for stack in STACKS}
    yield from _table("stack", ((stack.name, stack.words) for stack in STACKS))
    yield from _table("phase", ((phase.name, phase.words) for phase in PHASES))
    yield from _table(
        "cause", ((row.name, f"{row.meaning} ({', '.join(stacks[name] for name in row.stacks)})") for row in CAUSES)
    )
    yield from _table("finding", ((kind.name, kind.meaning) for kind in FINDINGS))


def _table(head: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"| {head} | |\n| --- | --- |"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in rows)
    yield ""


if __name__ == "__main__":
    GLOSSARY.write_text(written(GLOSSARY.read_text()))
