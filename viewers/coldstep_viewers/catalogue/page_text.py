"""A word of the catalogue as text for a terminal, and as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep_viewers.catalogue.pages import NOTHING, TITLES, Page, meanings, pages

_QUIET = "These look as if they would compile again, and do not. A recompile reported for one of them is an error."

# coldstep: "# expect: weak_type total"
_EXPECTATION = expression(r"^# [a-z_ ]+: .*\n?", re.MULTILINE)


def listed() -> str:
    """All words that have pages, and in which stacks."""
    stacks = gathered((page.name, TITLES[page.stack]) for page in pages())
    width = max(map(len, stacks))
    rows = (
        (name, words, ", ".join(dict.fromkeys(stacks[name]))) for name, words in meanings().items() if name in stacks
    )
    return "\n".join(f"{name:{width}}  {words} ({where})" for name, words, where in rows)


def as_text(name: str, shown: Iterable[Page], width: int) -> str:
    """A word and its pages, for a terminal of that many columns."""
    lines = [f"{name}: {meanings()[name]}"]
    for page in shown:
        lines += ["", page.title]
        for label, body in (("", _about(page)), ("Fix: ", page.fix)):
            lines += textwrap.wrap(label + body, width, initial_indent="  ", subsequent_indent="  ") if body else []
        for label, block in _blocks(page):
            lines += ["", f"  {label}:", textwrap.indent(block, "    ")]
        for line in page.more:
            lines += textwrap.wrap(line, width, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def as_markdown(shown: Iterable[Page], level: int = 2) -> str:
    """The pages as sections of that level."""
    return "\n".join(line for page in shown for line in _section(page, "#" * level))


def _section(page: Page, marks: str) -> Iterator[str]:
    yield from (f"{marks} {page.title}", "", _about(page), "")
    if page.fix:
        yield from (f"**Fix:** {page.fix}", "")
    for (label, block), language in zip(_blocks(page), ("python", "text"), strict=False):
        yield from (f"{label}:", "", f"```{language}", block, "```", "")
    yield from (f"- {line}" for line in page.more)
    yield ""


def _about(page: Page) -> str:
    return _QUIET if page.name == NOTHING else page.about


def _blocks(page: Page) -> list[tuple[str, str]]:
    program = _EXPECTATION.sub("", page.program)  # which is for the tests
    blocks = [("A program that shows it", program), ("What coldstep reports", page.report)]
    return [(label, block) for label, block in blocks if block]
