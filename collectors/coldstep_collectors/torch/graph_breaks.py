"""What a graph break of Dynamo's is: new or an echo of one that is known, of which kind, and what goes on after it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from itertools import count

from coldstep._util.expressions import expression
from coldstep.events import Args
from coldstep.places import is_installed, location, module_of
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch._private.spans import Compile

WORDS_LIMIT = 2000
"""Characters of PyTorch's words that are kept."""


class _Inlined(threading.local):
    """The last graph break on this thread within inlined functions, as long as its echoes may come."""

    def __init__(self) -> None:
        self.id = ""
        self.place: tuple[str, int] = ("", 0)
        self.functions: set[tuple[str, str]] = set()


class Breaks:
    """Tells a graph break from its echo, and knows which break a resume frame goes on after.

    A break in an inlined function breaks the outer frame. The inner function is then compiled as a frame of its
    own, and the same line breaks again: an echo.
    """

    def __init__(self) -> None:
        self._ids = count()
        self._inlined = _Inlined()
        self._cut: dict[tuple[str, str], dict[int, str]] = {}

    def compiling(self, frame: tuple[str, str]) -> None:
        """`frame` begins to be compiled on this thread."""
        if frame not in self._inlined.functions:
            self._inlined.functions = set()

    def found(self, compile: Compile, reason: BreakReason) -> str | None:
        """An id for a new break; None for one that is known."""
        chain = inlined_chain(compile.frame, reason)
        place = chain[-1][:2]
        inlined = self._inlined
        echo = compile.frame in inlined.functions and place == inlined.place
        known = inlined.id if echo else compile.breaks.get(place)
        break_id = known or f"g{next(self._ids)}"
        compile.breaks[place] = break_id
        for file, line, function in chain:
            lines = self._cut.setdefault((file, function), {})
            lines.pop(line, None)  # the latest comes last
            lines[line] = break_id
        if not echo:
            inlined.id, inlined.place = break_id, place
            inlined.functions = {(file, function) for file, _, function in chain[1:]}
        return None if known else break_id

    def cause_of(self, frame: tuple[str, str], line: int) -> str | None:
        """The break after which `frame` goes on at `line`."""
        lines = self._cut.get(frame, {})
        # a call over several lines breaks at one and goes on at another
        return lines.get(line) or next(reversed(lines.values()), None)


def inlined_chain(frame: tuple[str, str], reason: BreakReason) -> list[tuple[str, int, str]]:
    """The part of a break's stack from the compiled frame on."""
    stack = reason.stack
    if reason.inlined is not None:
        return stack[-reason.inlined :]
    for depth in range(len(stack) - 1, -1, -1):
        if (stack[depth][0], stack[depth][2]) == frame:
            return stack[depth:]
    return stack[-1:] or [(frame[0], 0, frame[1])]


# PyTorch 2.13: "Call to `torch._dynamo.graph_break()`"
# PyTorch 2.6: "Unsupported: 'skip function graph_break in file site-packages/torch/_dynamo/decorators.py'"
# PyTorch 2.1: "call_function graph_break in skip_files site-packages/torch/_dynamo/decorators.py"
# PyTorch 2.6: "Unsupported: call torch._dynamo.disable() wrapped function <function log at 0x7f23e0584040>"
_EXPLICIT = expression(
    r"graph_break\(\)|skip function graph_break|call_function graph_break"
    r"|torch\.compiler\.disable|torch\._dynamo\.disable"
)
# PyTorch 2.13: "Unsupported Tensor.item() call with capture_scalar_outputs=False"
# PyTorch 2.1: "call_function BuiltinVariable(int) [TensorVariable()] {}"
_DATA = expression(
    r"BuiltinVariable\((?:int|float|bool)\) \[TensorVariable|generic_jump TensorVariable"
    r"|data.dependent|capture_scalar_outputs|capture_dynamic_output_shape_ops|dynamic shape operator"
    r"|Tensor\.(?:item|tolist|numpy)\b|unbacked",
    re.IGNORECASE,
)
# PyTorch 2.13: "Dynamo does not know how to trace builtin operator `print` with argument types"
# PyTorch 2.6: "Unsupported: builtin: print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False"
# PyTorch 2.1: "call_function BuiltinVariable(print) [ConstantVariable(str)] {}"
_SIDE_EFFECT = expression(
    r"(?:builtin(?: operator `|: )|BuiltinVariable\()(?:print|input|open|breakpoint)\b"
    r"|logging\.Logger|reorder a debugging|side effect"
    r"|the builtin `_?warnings\.warn",
    re.IGNORECASE,
)
# PyTorch 2.13: "Unsupported method call"
# PyTorch 2.9, 2.13: "Attempted to call function marked as skipped"
# PyTorch 2.6: "Unsupported: 'skip function Adam.step in file site-packages/torch/optim/lr_scheduler.py'"
# PyTorch 2.6: "Unsupported: Graph break due to unsupported builtin zlib.crc32. This function"
_CALL = expression(
    r"\bcall\b|called|calling|call_|function marked as skipped|skip function|builtin|method|inline", re.IGNORECASE
)
_KINDS = {"explicit": _EXPLICIT, "data_dependent": _DATA, "side_effect": _SIDE_EFFECT, "unsupported_call": _CALL}
"""The first that matches counts."""
# PyTorch 2.6: "Graph break in user code at train.py:14 Reason: Unsupported: builtin: print [<class 'int'>] False"
_PLACE = expression(r"\AGraph break in user code at .+?\s+Reason: ", re.DOTALL)


def about_break(reason: BreakReason, function: str, is_library: Callable[[str], bool] = is_installed) -> Args:
    """A graph break's arguments, as `GraphBreak` lists them."""
    stack = [location(*place) for place in reason.stack if not is_library(place[0])]
    innermost = reason.stack[-1] if reason.stack else None
    where = stack[-1] if stack else location(*innermost) if innermost else None
    args: Args = {
        "reason": reason.reason[:WORDS_LIMIT],
        "kind": kind_of(reason),
        "function": (where["function"] if where else "") or function,
        "location": where,
        "stack": stack,
        "hints": reason.hints,
    }
    if innermost is not None and stack and is_library(innermost[0]):
        args["library"] = module_of(reason.skipped_file or innermost[0])
        args["below"] = location(*innermost) | {"module": module_of(innermost[0])}
    return args


def kind_of(reason: BreakReason) -> str:
    """The report's word for a break."""
    if reason.whole_frame:
        return "skipped_frame"
    words = _PLACE.sub("", reason.reason)
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(words)), "other")
