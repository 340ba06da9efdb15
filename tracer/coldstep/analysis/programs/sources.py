"""Reads the source locations in the text of a StableHLO module: which line of the program each line stands for.

MLIR's parser is no help here: of a text with locations it gives these and no longer the lines of the text, and the
form in which torch_xla prints them is for people, not for it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import islice

from coldstep.model import Location
from coldstep.places import is_installed

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_NAMED = rf"{_QUOTED}\(#loc\d*\)"
# TensorFlow 2.21: "loc(fused[#loc257, #loc211])"
_PART = rf"(?:#loc\d*|{_NAMED}|{_QUOTED})"
_FUSED = rf"fused\[{_PART}(?:, {_PART})*\]"
# JAX 0.10: "#loc44 = loc("jit(train_step)/reduce_sum"(#loc39))"
_ALIAS = re.compile(r"#(loc\d*)")
# JAX 0.10: "#loc1 = loc("params['b']")"
_ALIASES = re.compile(r"^#(loc\d*) = (.*(?:\n at #loc\d*)*)$", re.MULTILINE)
# JAX 0.10: "%0 = stablehlo.tanh %arg2 : tensor<4x2xf32> loc(#loc43)"
_USE = re.compile(
    rf"(?<=[\w>)}}]) "  # as JAX prints them | as torch_xla does
    rf"(?:loc\((?:unknown|#loc\d*|{_NAMED}|{_QUOTED}|{_FUSED})\)|\[unknown\]|#loc\d*|{_NAMED}|{_QUOTED})(?=[,)\s]|$)"
)
# JAX 0.10: "loc("/project/jax_train.py":13:44 to :59)"
# torch_xla 2.9: "/repo/model.py:3:0"
_FILE = re.compile(r'(?:loc\()?"?([^"]+?)"?:(\d+):\d+(?: to .*)?\)?')
# JAX 0.10: "loc("train_step.<locals>.<lambda>"(#loc4))"
_NAME = re.compile(rf"(?:loc\()?({_QUOTED})\(")
# through which the program was run and its steps were marked; where they are not installed but a checkout's, too
# coldstep: "/project/.venv/lib/python3.11/site-packages/coldstep/__main__.py"
# the one place that TensorFlow names, of every operation the same
# TensorFlow 2.21: "/project/.venv/lib/python3.11/site-packages/tensorflow/python/framework/ops.py"
_NOBODYS = re.compile(
    r"(?:^|/)(?:(?:(?:site|dist)-packages|tracer|viewers|collectors)/coldstep(?:_viewers|_collectors)?/[\w/]+\.py"
    r"|tensorflow/python/framework/ops\.py)$"
)

# JAX 0.10: "  func.func private @clip_0(%arg0: tensor<4xf32> loc("x")) -> tensor<4xf32> {"
_PRIVATE = re.compile(r"func\.func private (@[\w.$-]+)")
# JAX 0.10: "    %1 = call @clip_0(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc5)"
_SYMBOL = re.compile(r"@[\w.$-]+")
_ELIDED = "__elided__"
_MOST_PLACES = 100
"""Of one location; those that name each other again and again stand for more than any memory holds."""


@dataclass(slots=True, frozen=True)
class Spot:
    """A line of a module's text, and the line of the program that it stands for, where the text has that."""

    line: int
    source: Location | None = None


def plain(text: str) -> str:
    """A module's text without source locations, line for line."""
    return _USE.sub("", _ALIASES.sub(_blank, text))


def renumbered(text: str) -> str | None:
    """A module's text with neither source locations nor the names of its private functions, which are numbered as they
    come; None where constants are left out of it. Two that agree compute the same."""
    if _ELIDED in text:
        return None
    names = {name: f"@{number}" for number, name in enumerate(dict.fromkeys(_PRIVATE.findall(text)))}
    text_with_names = _SYMBOL.sub(lambda symbol: names.get(symbol[0], symbol[0]), plain(text))
    return "\n".join(line for line in text_with_names.splitlines() if line)


def _blank(lines: re.Match[str]) -> str:
    return "\n" * lines[0].count("\n")


def readable(text: str, root: str) -> str:
    """A module's text with its source lines as comments, line for line; the table of locations below it is left out."""
    sources = Sources(text, root)
    lines: list[str] = []
    for number, line in enumerate(_ALIASES.sub(_blank, text).split("\n"), 1):
        shown = _USE.sub(lambda use: use[0] if use[0].startswith(' loc("') and "#" not in use[0] else "", line)
        place = sources.spot(number).source if shown != line and not line.endswith("{") else None
        lines.append(shown if place is None else f"{shown}  // {place.file}:{place.line}")
    return "\n".join(lines).rstrip()


class Sources:
    """The lines of a program that a module's lines stand for; files are named relative to `root`."""

    def __init__(self, text: str, root: str) -> None:
        self._root = os.path.join(root, "")
        self._aliases: dict[str, str] = dict(_ALIASES.findall(text))
        self._uses = _uses(text.split("\n")) if self._aliases else []
        self._chains: dict[str, list[Location]] = {}
        self._sources: dict[str, Location | None] = {}

    def spot(self, line: int) -> Spot:
        """A line, counted from 1: its source is the innermost place in somebody's own code, if there is one."""
        used = self._uses[line - 1] if self._uses else ""
        if used not in self._sources:
            self._sources[used] = self._source(used)
        return Spot(line, self._sources[used])

    def _source(self, used: str) -> Location | None:
        places = (place for alias in _ALIAS.findall(used) for place in self._chain(alias))
        chain = [place for place in islice(places, _MOST_PLACES) if not _NOBODYS.search(place.file)]
        own = [place for place in chain if not is_installed(place.file)]
        return next(iter(own or chain), None)

    def _chain(self, alias: str, depth: int = 0) -> list[Location]:
        """The places that a location names, innermost first."""
        if alias in self._chains:
            return self._chains[alias]
        chain = self._chains[alias] = []
        definition = self._aliases.get(alias, "")
        # one of several lines is no place, and would be looked through again from each of its words
        if "\n" not in definition and (place := _FILE.fullmatch(definition)) is not None:
            chain.append(Location(place[1].removeprefix(self._root), int(place[2]), ""))
        for inner in _ALIAS.findall(definition) if depth < _MOST_PLACES else ():
            chain += self._chain(inner, depth + 1)[: _MOST_PLACES - len(chain)]
        if (name := _NAME.match(definition)) is not None and len(chain) == 1 and not chain[0].function:
            chain[0] = replace(chain[0], function=name[1][1:-1])
        return chain


def _uses(lines: list[str]) -> list[str]:
    """Of each line the location of the operation that begins in it. It stands where the operation ends: in the next
    line of the same margin that ends with one."""
    ends: dict[int, str] = {}
    uses: list[str] = []
    for text in reversed(lines):
        used = [*_USE.finditer(text)]
        if used and used[-1].end() == len(text):
            ends[_margin(text)] = used[-1][0]
        uses.append(ends.get(_margin(text), ""))
    return uses[::-1]


def _margin(text: str) -> int:
    return len(text) - len(text.lstrip())
