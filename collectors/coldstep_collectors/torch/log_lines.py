"""Takes a line of PyTorch's log apart, in each form since 2.1: its compile, its kind, its text."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from coldstep._util.slotted import slotted
from coldstep.logs import Line

_NUMBERS = r"\[(?:!\d*/?)?(?P<frame>\d+)/(?P<number>\d+)(?:_(?P<attempt>\d+))?\] "
# PyTorch 2.9, 2.13: "[0/1] [__recompiles] Recompiling function train_step in /repo/train.py:2"
# PyTorch 2.9, 2.13: "[1/0_1] [__guards] "
# PyTorch 2.4: "[__recompiles] Recompiling function train_step in /repo/train.py:2"
_TAGS = re.compile(rf"(?:{_NUMBERS})?(?:\[(?P<kind>__\w+)\] ?)?")
# PyTorch 2.1: "[2023-11-14 10:41:12,330] [0/0] torch._dynamo.symbolic_convert.__graph_breaks: [DEBUG] Graph break: "
# PyTorch 2.1: "[2023-11-14 10:41:12,330] torch._dynamo.convert_frame: [WARNING]    function: 'f' (/repo/train.py:2)"
# PyTorch 1.13: "torchdynamo.symbolic_convert: [WARNING] Graph break: numpy from user code at   File "/a.py", line 1"
_NAMED = re.compile(
    rf"(?:{_NUMBERS})?\b(?:torch\.(?:_dynamo|fx)|torchdynamo)\.[\w.]{{1,99}}?(?:\.(?P<kind>__\w{{1,30}}))?"
    r": \[[A-Z]{1,9}\] ?"
)
# PyTorch 2.1: "('Recompiling function f in /repo/train.py:2', "triggered by the following guard failure: x is None")"
# PyTorch 2.1: "('Recompiling function f in /a.py:2', 'triggered by the following guard failures: ["x is None"]')"
PAIR = re.compile(
    r"\('(?P<what>Recompiling function .+)', (?P<quote>[\"'])triggered by the following guard failure(?P<all>s)?: "
    r"(?P<why>.*)(?P=quote)\)$"
)
# PyTorch 2.1: "Recompiling function f in /repo/train.py:2"
_LINE = re.compile(r":\d+$")  # the first versions tell the file only
# PyTorch 2.0: "Graph break: call_function BuiltinVariable(print) [] {} from user code at   File "/a.py", line 1, in f"
_BREAK = re.compile(
    r"(?P<what>Graph break: .{0,9999}?) from user code at(?P<where> {1,4}File \".+\", line \d+, in .+)$"
)
_WITHIN_CHARS = 400  # of a line in which the logger's name is looked for


@slotted
class Words:
    """The content of a PyTorch line."""

    numbers: tuple[int, int] | None
    """Of the frame and of its compile; None where the line does not name one."""
    first_attempt: bool
    kind: str | None
    """The artifact of TORCH_LOGS, "__recompiles"; None for a line logged under a module's name."""
    text: str


def take_apart(line: Line) -> list[Words]:
    """The messages of a line: PyTorch 2.1 and 2.2 put a recompile and its reason into one. None for others' lines."""
    if line.source:
        return take_apart_text(line.text)
    match = _NAMED.search(line.text, 0, _WITHIN_CHARS)
    return _words(match, line.text) if match is not None else []


def take_apart_text(text: str) -> list[Words]:
    """The messages of what stands behind a stamp."""
    match = _TAGS.match(text)
    return _words(match, text) if match is not None else []


def _words(match: re.Match[str], line: str) -> list[Words]:
    numbers = (int(match["frame"]), int(match["number"])) if match["frame"] else None
    text = line[match.end() :]
    kind = match["kind"]
    if (pair := PAIR.match(text)) is not None:
        where = pair["what"] if _LINE.search(pair["what"]) else f"{pair['what']}:0"
        texts = [where, *(f"    - {why}" for why in _reasons(pair))]
    elif (broken := _BREAK.match(text)) is not None:
        kind, texts = "__graph_breaks", [f"{broken['what']} from user code at:", broken["where"]]
    else:
        texts = [text]
    return [Words(numbers, match["attempt"] is None, kind, each) for each in texts]


def _reasons(pair: re.Match[str]) -> list[str]:
    """All that a recompile was triggered by."""
    if pair["all"]:
        with suppress(ValueError, SyntaxError):  # cut, or another's
            # a string with a list of strings, each as Python writes it
            return list(map(str, ast.literal_eval(ast.literal_eval(f"{pair['quote']}{pair['why']}{pair['quote']}"))))
    return [pair["why"]]
