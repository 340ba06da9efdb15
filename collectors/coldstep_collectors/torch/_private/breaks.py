"""PyTorch's words on a graph break, and the names that it gives to what goes on after one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from itertools import dropwhile

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.places import frames
from coldstep_collectors.torch._private import names
from coldstep_collectors.torch._private.frames import compiling_frame

# PyTorch 2.9, 2.13: "torch_dynamo_resume_in_forward_at_20"
_RESUMED = expression(r"(.*?)torch_dynamo_resume_in_(.+)_at_(\d+)", re.DOTALL)


def resumed(qualname: str) -> tuple[str, int] | None:
    """The function and line at which a resume frame goes on after a graph break; None for any other frame."""
    match = _RESUMED.fullmatch(qualname) if "torch_dynamo_resume_in_" in qualname else None
    return (match[1] + match[2], int(match[3])) if match else None


def whole_name(qualname: str) -> str:
    """The name of the function that a frame is of, by the frame's: a resume frame is of the one that broke."""
    return went_on[0] if (went_on := resumed(qualname)) else qualname


@slotted
class BreakReason:
    """What PyTorch says of a graph break. `stack` is (file, line, function), outermost first, inlined frames last."""

    reason: str
    hints: list[str]
    stack: list[tuple[str, int, str]]
    whole_frame: bool
    """The frame was not cut in two but given up."""
    skipped_file: str | None = None
    """The file of the function that PyTorch does not look into, which is seldom that of the innermost frame."""
    inlined: int | None = None
    """How many of the stack's frames are those of the compiled function and of what was inlined in it, if known."""


# PyTorch 2.9, 2.13: "Graph break in user code at /repo/train.py:10"
_BREAK_AT = expression(r"Graph break in user code at (.{1,1000}):(\d+)")
# PyTorch 2.9, 2.13: "  File "/repo/train.py", line 10, in forward"
_STACK_FRAME = expression(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
# PyTorch 2.1: "Graph break: call_function BuiltinVariable(print) [ConstantVariable(str)] {} from user code at:"
# PyTorch 2.4: "Graph break: skip: from user code at:"
_FROM_USER_CODE = expression(
    r"\AGraph break: (?P<skip>skip: )?(?P<reason>(?:(?! ?from user code at:).)*) ?from user code at:$",
    re.MULTILINE | re.DOTALL,
)
# PyTorch 2.4: "torch._dynamo.exc.Unsupported: Tensor.item"
_RAISED = expression(r"^torch\._dynamo\.exc\.\w+: (.+)\Z", re.MULTILINE | re.DOTALL)
_INTERNAL = "Traceback (most recent call last)"
# PyTorch 2.9, 2.13: "User code traceback:"
_USER_STACK = expression(r"^(?:User code traceback|from user code|The graph break occurred in .*):.*$", re.MULTILINE)
# PyTorch 2.13: "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n"
_PREAMBLES = expression(r"Encountered graph break [^\n]*:\n+|.*?Graph break encountered:\n+", re.DOTALL)
# PyTorch 2.9, 2.13: "\n  Developer debug context: "
_SECTIONS = expression(r"\n[ \t]*(?:Developer debug context:|For more details about this graph break)", re.DOTALL)
# PyTorch 2.9, 2.13: "Dynamo developers have intentionally marked that the function `dumps` in file
# `/usr/lib/python3.11/json/__init__.py` should not be traced."
_SKIPPED = expression(r"in file `([^`]+)` should not be traced")
# PyTorch 2.9, 2.13: "  Hint: Please report an issue to PyTorch."
_HINT = expression(r"^ *Hint: (.+?)(?=\n *Hint: |\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def break_reason(payload: str) -> BreakReason | None:
    """Take the text of a graph break apart; what is not recognized ends up in `reason` as it is.

    None for the announcement of a failure that becomes a graph break, and says so, next.
    """
    if payload.startswith("WON'T CONVERT"):
        return None
    text, _, internal = payload.partition(_INTERNAL)
    split = old = _FROM_USER_CODE.match(text)
    split = split or _USER_STACK.search(text)
    words, below = (text[: split.start()], text[split.end() :]) if split else (text, text)
    stack = _places(below)
    if not stack and (at := _BREAK_AT.search(text)):
        stack = [(at[1], int(at[2]), "")]
    words = words.partition("Graph Break Reason:")[2] or words
    if old is not None:  # from 2.3 to 2.5 the reason is that of the error alone
        raised = _RAISED.search(internal.strip())
        words = old["reason"] or (raised[1] if raised else "")
    whole = "kipping the function" in words or "skip tracing the frame" in words or "graph break in loop" in words
    whole = whole or (old is not None and old["skip"] is not None)
    match = _PREAMBLES.match(words.lstrip())
    words = words.lstrip()[match.end() :] if match else words.strip()
    words = _SECTIONS.split(words, maxsplit=1)[0]
    hints = [_one_line(hint) for hint in _HINT.findall(words)]
    first = re.split(r"^ *Hint: ", words, maxsplit=1, flags=re.MULTILINE)[0]
    what, _, why = first.partition("Explanation:")
    what, why = _one_line(what), _one_line(why.split("\n\n", 1)[0])
    skipped = _SKIPPED.search(why)
    return BreakReason(f"{what}: {why}" if why else what, hints, stack, whole, skipped[1] if skipped else None)


def of_a_backend(error: BaseException) -> bool:
    """Whether a compile ended in its backend, whose words quote code of the user's and are no graph break's."""
    failed = names.OF_A_BACKEND.find()
    return failed is not None and isinstance(error, failed)


def failed_in(payload: str) -> list[tuple[str, int, str]]:
    """The compiled function and what was inlined in it, by the words on an error that ended a compile."""
    return _places(payload.rpartition("from user code:")[2].partition("\n\n")[0])


def _places(text: str) -> list[tuple[str, int, str]]:
    """The frames of a stack that is in a text."""
    return [(file, int(line), function) for file, line, function in _STACK_FRAME.findall(text)]


def joined(stack: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """A stack with what goes on after a graph break in the place, and by the name, of the function that goes on."""
    places: list[tuple[str, int, str]] = []
    for file, line, function in stack:
        name = whole_name(function)
        if name != function and places and (places[-1][0], places[-1][2]) == (file, name):
            places.pop()
        places.append((file, line, name))
    return places


def complete_stack(reason: BreakReason) -> None:
    """Put what PyTorch's words leave out into the stack of the graph break whose error is being handled: all but the
    innermost of functions that call each other and have one name, as a user's `forward` and a library's."""
    [traced] = names.STACK.attributes(sys.exc_info()[1]) or (None,)
    frame = compiling_frame()
    if not traced or frame is None or not reason.stack:
        return
    inner = [(summary.filename, summary.lineno or 0, summary.name) for summary in traced]
    if inner[-1][:2] != reason.stack[-1][:2]:
        return
    inner[0] = (*inner[0][:2], frame.code.co_name)
    outwards = [(each.f_code.co_filename, each.f_lineno or 0, each.f_code.co_name) for each in frames(frame.caller)]
    compiler = os.path.dirname(outwards[0][0]) if outwards else ""
    above = [*dropwhile(lambda place: os.path.dirname(place[0]) == compiler, outwards)]
    reason.stack, reason.inlined = joined([*above[::-1], *inner]), len(inner)


def gives_up_frame() -> bool:
    """Whether PyTorch, which tells of a graph break now, is about to give up the whole frame, since the break is in a
    loop. Before 2.10 its words do not say so; it asks a method of its own, right after it has told of the break."""
    [form] = names.LOOP.forms
    for frame in frames(sys._getframe(1)):
        if frame.f_code.co_filename.endswith(form.file) and "self" in frame.f_code.co_varnames:
            [is_in_loop] = names.LOOP.attributes(frame.f_locals["self"]) or (None,)
            return is_in_loop is not None and form.has[0] in frame.f_code.co_names and bool(is_in_loop())
    return False


def _one_line(text: str) -> str:
    return " ".join(text.split())
