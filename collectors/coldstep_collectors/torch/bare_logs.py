"""Finds PyTorch's words in lines without a stamp, as documents, posts and notebooks have them."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep_collectors.torch.log_lines import PAIR, Words, take_apart_text

# PyTorch 2.9, 2.13: "Recompiling function train_step in /repo/train.py:2"
_RECOMPILING = re.compile(r"Recompiling function \S.{0,500} in .{1,1000}:\d+$")
# PyTorch 2.9, 2.13: "    triggered by the following guard failure(s):"
_TRIGGERED = re.compile(r"\s*triggered by the following guard failure")
# PyTorch 2.9, 2.13: "    - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5"
_NUMBERED = re.compile(r"\s*- \d+/\d+(?:_\d+)?: ")
# PyTorch 2.4: "    - tensor 'L['x']' size mismatch at index 0. expected 4, actual 6"
_REASON = re.compile(r"\s+- ")
# PyTorch 2.9, 2.13: "torch._dynamo hit config.recompile_limit (8)"
# PyTorch 2.9, 2.13: "   function: 'train_step' (/repo/train.py:2)"
# PyTorch 2.9, 2.13: "   last reason: 0/7: m == 3"
# PyTorch 2.0: "   reasons:  ["tensor 'x' strides mismatch at index 0. expected 562500, actual 2447991"]"
# PyTorch 2.0: "   reasons:  ___check_obj_id(past_key_values, 94636661886208)"
_OF_LIMIT = re.compile(
    r"torch\._dynamo hit config\.\w+ \(\d+\)|\s{0,3}function: '.+' \(.+:\d+\)$|\s{0,3}last reason: \d+/\d+: "
    r"|   last reason: |   reasons:  |To log all recompilation"
)
# PyTorch 2.9, 2.13: "Graph break in user code at /repo/train.py:10"
_BREAK = re.compile(r"Graph break in user code at .{1,1000}:\d+$")
# PyTorch 2.3: "Graph break: from user code at:"
_BREAK_OF_OLD = re.compile(r"Graph break: (?:skip: )?from user code at:$")
# PyTorch 2.4, 2.13: "Graph break from `Tensor.item()`, consider setting:"
_READ = re.compile(r"Graph break from `Tensor\.item\(\)`, consider setting:")
_USER_STACK = ("User code traceback:", "from user code at:")
_OF_BREAK = (" ", "Traceback (most recent call last):", "torch._dynamo.exc.")
# Somebody: "Recompiling function f in /a.py:1 triggered by the following guard failure(s): - 0/0: x is None"
_JOINED = re.compile(
    r"(?<=\S)(?=Recompiling function \S{1,200} in )|(?<=\d) (?=triggered by the following guard)"
    r"|(?<=\S) (?=- \d+/\d+: )"
)
# PyTorch 2.9, 2.13: "create_symbol s77 = 5 for L['x'].size()[0]"
# PyTorch 2.9, 2.13: "torchdynamo start compiling train_step /repo/train.py:2"
_OTHER = re.compile(r"create_|produce_guards|set_replacement|eval |torchdynamo start compiling |WON'T CONVERT ")
_RECOMPILES, _GRAPH_BREAKS = "__recompiles", "__graph_breaks"
_MOST_LINES = 60  # of others' between those of one message, and of one graph break


class BareLines:
    """The lines of one process without a stamp, and perhaps without numbers."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"Recompiling function ", b"torch._dynamo hit config", b"] create_",
                                          b"] set_replacement ", b"Graph break in user code at ",
                                          b"Graph break from `Tensor.item()`", b"Graph break: ",
                                          b"function: '", b"   reasons:  ")  # fmt: skip

    def __init__(self) -> None:
        self._kind: str | None = None
        self._left = 0
        self._reasons = self._stack = self._reads = False
        self.warns = False
        """Whether the message is a warning, which comes without TORCH_LOGS."""

    @property
    def goes_on(self) -> bool:
        """Whether the next line may go on with the last ones."""
        return self._left > 0

    def take(self, text: str) -> list[Words]:
        """The messages of a line; none for another's."""
        if " triggered by the following guard failure(s): - " in text:
            return [words for piece in _JOINED.split(text) for words in self.take(piece)]
        pieces = take_apart_text(text)
        if PAIR.match(text):
            return [Words(None, True, _RECOMPILES, each.text) for each in pieces]
        if _READ.search(text):
            return self._begin_read()
        if pieces and (pieces[0].kind is not None or (pieces[0].numbers is not None and _is_other(pieces[0].text))):
            self._kind, self._left = pieces[0].kind, _MOST_LINES if _OF_LIMIT.match(pieces[0].text) else 0
            self.warns = False
            return pieces
        if (
            match := _RECOMPILING.search(text)
            or _OF_LIMIT.match(text)
            or _BREAK.search(text)
            or _BREAK_OF_OLD.search(text)
        ):
            return self._begin(match)
        if not self.goes_on:
            return []
        self._left -= 1
        return [Words(None, True, self._kind, text)] if self._belongs(text) else []

    def _begin(self, match: re.Match[str]) -> list[Words]:
        kinds = {_RECOMPILING: _RECOMPILES, _BREAK: _GRAPH_BREAKS, _BREAK_OF_OLD: _GRAPH_BREAKS}
        self._kind, self._left, self.warns = kinds.get(match.re), _MOST_LINES, False
        self._reasons, self._stack = False, match.re is _BREAK_OF_OLD
        if self._reads and self._stack:  # the warning of such a read goes on
            self._reads, self.warns = False, True
            return []
        return [Words(None, True, self._kind, match.string[match.start() :])]

    def _begin_read(self) -> list[Words]:
        """The warning of a value that is read: where that is may come below."""
        self._kind, self._left = _GRAPH_BREAKS, _MOST_LINES
        self._reads = self.warns = True
        self._reasons = self._stack = False
        return [Words(None, True, _GRAPH_BREAKS, "Graph break: Tensor.item from user code at:")]

    def go_on_with_break(self) -> None:
        """The lines that come now are the rest of a graph break's stack, which has no stamp."""
        self._kind, self._left, self._reasons, self._stack = _GRAPH_BREAKS, _MOST_LINES, False, True
        self.warns = False

    def _belongs(self, text: str) -> bool:
        if self._kind == _GRAPH_BREAKS:
            ends = self._stack and not text.startswith(_OF_BREAK)
            self._stack |= text.startswith(_USER_STACK)
            self._left = 0 if ends else self._left
            return not ends
        is_reason = _NUMBERED.match(text) or (self._reasons and _REASON.match(text))
        self._reasons = self._kind == _RECOMPILES and bool(is_reason or _TRIGGERED.match(text))
        return self._reasons


def _is_other(text: str) -> bool:
    return (_OTHER.match(text) or _OF_LIMIT.match(text)) is not None
