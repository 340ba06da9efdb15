"""Which operations a kept program has, and for which line of code each is there, in any form that a trace keeps."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from coldstep._util.slotted import slotted
from coldstep.analysis.programs.sources import Sources
from coldstep.model import Location

# JAX 0.10: "    %6 = stablehlo.subtract %arg0, %5 : tensor<4xf32> loc(#loc48)"
_MLIR = re.compile(r"\s*(?P<names>%[\w#:%, ]+) = \"?(?P<op>[\w.]+)|\s*\"?(?P<end>[\w.]*return)\b")
# JAX 0.10: "    d:f32[4,2] = tanh c"
_JAXPR = re.compile(r"\s*(?P<names>(?:[^\s:]+:\S+ )+)= (?P<op>[\w-]+)")
# JAX 0.10: "        { lambda ; p:f32[8,2]. let q:f32[8,2] = sub p 1.0:f32[] in (q,) }"
_JAXPR_BEGINS = re.compile(r"(?<=[. ]let )|(?<=; )")
# JAX 0.10: "  ROOT %multiply.9 = f32[2,3]{1,0} multiply(%Arg_0.1, %broadcast.7)"
_HLO = re.compile(r"\s*(?:ROOT )?(?P<names>%?[\w.-]+) = .*?[\])}] (?P<op>[a-z][\w-]*)\(")
# PyTorch 2.13: "        mul: "f32[4, 3][3, 1]cpu" = l_x_ * 0;  l_x_ = None"
# PyTorch 2.13: "        add: "f32[4, 3][3, 1]cpu" = torch.ops.aten.add.Tensor(arg0_1, 1);  arg0_1 = None"
_FX = re.compile(
    r"\s*(?P<names>\w+)(?:: \"[^\"]*\")? = "
    r"(?:(?P<op>(?:torch|operator|math|self)\.[\w.]+|\w+)\(|\w+(?P<method>\.\w+)\(|[\w.]+ (?P<infix>[^\s\w]+) )"
)
# torch_xla 2.9: "  %2 = f32[2,3]{1,0} aten::mul(%1, %0), xla_shape=f32[2,3]{1,0}, ROOT=0"
_LAZY = re.compile(r"\s*(?P<names>%\d+) = .*? (?P<op>\w+::\w+)\(")
INSTRUCTION = {
    "stablehlo": _MLIR, "jaxpr": _JAXPR, "optimized_hlo": _HLO, "fx": _FX, "aot_joint_graph": _FX,
    "aot_inference_graph": _FX, "lazy_ir": _LAZY,
}  # fmt: skip
"""By form, what a line with an operation begins with; in a jaxpr one may also stand within a line."""
# JAX 0.10: "    d:f32[8,2] = tanh c                        # /project/train.py:12:23 (train_step)"
_JAXPR_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?(?: |$)")
# PyTorch 2.13: "        # File: /project/train.py:12 in train_step, code: y = torch.tanh(y * scale)"
# PyTorch 2.13: "        # ac_graph_id: 1 - PREFER_RECOMPUTE File: /project/train.py:12 in block, code: return x.sin()"
_FX_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+) in ")
# PyTorch 2.13: "        # No stacktrace found for following nodes"
# PyTorch 2.13: "        def forward(self, y: "f32[8, 8][8, 1]cpu"):"
_FX_BEGINS = re.compile(r"\s*(?:#|def forward\b)")

Place = tuple[str, int]
"""A file, and a line of it."""
UNKNOWN: Place = ("", 0)
"""The place of what the text has none of."""


@slotted
class Differing:
    """A line of code whose operations differ between two programs."""

    file: str
    """Empty for the operations of which the text has no line of code."""
    line: int
    before: dict[str, int]
    after: dict[str, int]


def operation(instruction: re.Match[str]) -> str:
    """The operation that a line of INSTRUCTION is of."""
    return next((text for name, text in instruction.groupdict().items() if name != "names" and text), "")


def by_place(form: str, text: str, root: str) -> dict[Place, Counter[str]]:
    """How often each operation occurs, by line of code; last those whose line the text does not have."""
    pattern = INSTRUCTION.get(form)
    counted: dict[Place, Counter[str]] = defaultdict(Counter)
    if pattern is not None:
        for line, place in zip(text.split("\n"), places(form, text, root), strict=True):
            for match in _instructions(pattern, line):
                counted[place][operation(match)] += 1
    return {place: counted[place] for place in sorted(counted, key=_order)}


def _instructions(pattern: re.Pattern[str], line: str) -> Iterator[re.Match[str]]:
    for part in _JAXPR_BEGINS.split(line) if pattern is _JAXPR else (line,):
        if (match := pattern.match(part)) is not None and match["names"] is not None:
            yield match


def differing(before: dict[Place, Counter[str]], after: dict[Place, Counter[str]]) -> list[Differing]:
    """The lines of code that have other operations after than before; none where no line of code is known."""
    if {*before, *after} <= {UNKNOWN}:
        return []
    none = Counter[str]()
    sides = [(place, before.get(place, none), after.get(place, none)) for place in {*before, *after}]
    sides.sort(key=lambda side: _order(side[0]))
    return [Differing(*place, dict(was - now), dict(now - was)) for place, was, now in sides if was != now]


def _order(place: Place) -> tuple[bool, Place]:
    return place == UNKNOWN, place


def places(form: str, text: str, root: str) -> list[Place]:
    """Of each line of a program's text the line of code that its operation is for; files are relative to `root`."""
    lines = text.split("\n")
    if form == "stablehlo":
        sources = Sources(text, root)
        return [_of(sources.spot(number).source) for number in range(1, len(lines) + 1)]
    if form == "jaxpr":
        return [_matched(_JAXPR_PLACE.match(line.rpartition(" # ")[2]), root) if " # " in line else UNKNOWN
                for line in lines]  # fmt: skip
    return list(_of_fx(lines, root)) if INSTRUCTION.get(form) is _FX else [UNKNOWN] * len(lines)


def _of_fx(lines: list[str], root: str) -> Iterator[Place]:
    """A comment names the place of what follows it, or has none."""
    place = UNKNOWN
    for line in lines:
        if _FX_BEGINS.match(line):
            place = _matched(_FX_PLACE.match(line.partition(" File: ")[2]), root)
        yield place


def _of(location: Location | None) -> Place:
    return UNKNOWN if location is None else (location.file, location.line)


def _matched(match: re.Match[str] | None, root: str) -> Place:
    if match is None or len(match["line"]) > 9:
        return UNKNOWN
    return match["file"].removeprefix(os.path.join(root, "")), int(match["line"])
