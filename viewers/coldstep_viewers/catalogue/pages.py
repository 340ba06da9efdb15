"""The pages of the catalogue, a file a stack: `causes` by hand, `examples` by `python -m scenarios --catalogue`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from coldstep.vocabulary import CAUSES, FINDINGS, STACKS

TITLES = {stack.packages[0]: stack.words for stack in STACKS}
"""The stacks, as their parts of the catalogue are called."""
BREAKS = {
    "data_dependent": "a branch or a size depends on a value that only the device has",
    "side_effect": "Python changes something that a graph cannot hold",
    "unsupported_call": "a call that the compiler cannot follow",
    "explicit": "the program, or a library, asks for the break",
    "skipped_frame": "PyTorch does not trace that function",
    "host_read": "a value is read while its graph is pending, which cuts the graph",
}
"""The kinds of graph breaks, in the order in which they are shown, and what each means."""
NOTHING = "nothing"
"""The name of the page of programs that compile nothing again."""


@dataclass(slots=True, frozen=True)
class Page:
    """A cause, or a kind of graph break, in one stack. What it lacks is empty."""

    stack: str
    name: str
    of_break: bool
    about: str
    fix: str
    program: str
    report: str
    more: list[str]
    """Other programs of the same cause, a line each, and what their reports name."""

    @property
    def title(self) -> str:
        return f"{TITLES[self.stack]}: {'graph break, ' if self.of_break else ''}{self.name}"


def meanings() -> dict[str, str]:
    """Every word that has an explanation: causes, kinds of graph breaks, kinds of findings."""
    causes = {row.name: row.meaning for row in CAUSES}
    kinds = {row.name: row.meaning for row in FINDINGS}
    return causes | BREAKS | causes | {NOTHING: "looks as if it would compile again, but does not"} | kinds


def pages(name: str | None = None) -> Iterator[Page]:
    """The pages, or those of one name: stack after stack, in the order of the words."""
    for stack in TITLES:
        hand, made = _of(f"causes/{stack}.toml"), _of(f"examples/{stack}.json")
        for of_break, names in ((False, [row.name for row in CAUSES]), (True, [*BREAKS]), (False, [NOTHING])):
            for each in names:
                text = hand.get("break", {}) if of_break else hand
                example = made.get(f"break.{each}" if of_break else each)
                if example is not None and name in (None, each):
                    about, fix = (" ".join(text.get(each, {}).get(key, "").split()) for key in ("about", "fix"))
                    yield Page(stack, each, of_break, about, fix, **example)


@cache
def _of(name: str) -> dict[str, Any]:
    text = (files(__package__) / name).read_text("utf-8")
    return dict(json.loads(text) if name.endswith(".json") else tomllib.loads(text))
