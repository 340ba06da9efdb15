"""Finds out at which width a terminal has wrapped the lines of a log, and joins them again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

_NARROWEST, _WIDEST = 40, 500
_FEWEST_PADDED = _FEWEST_CUT = 3
_PADDED_CUT = 5  # blanks at most at the end of a line that is cut, where the others are filled with blanks
_OF_KIND = 8  # characters that tell one kind of lines from another
# PyTorch 2.13: "0/0"
_DIGIT = re.compile(r"\d")
# PyTorch 2.13: "V1121 07:47:53.733000 7 torch/_dynamo/guards.py:5396] [0/1] [__recompiles]     - 0/0: m is None"
# JAX 0.10: "WARNING:2026-11-25 00:03:45,295:jax._src.dispatch:204: Finished XLA compilation of jit(f) in 0.096 sec"
_STAMPED = re.compile(r".{0,40}?(?:[VIWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d[T ])|(?:DEBUG|INFO|WARNING|ERROR)(?::| +\S)")
# PyTorch 2.13: "V1121 07:47:53.733000 7 torch/_dynamo/guards.py:5396] [0/1] [__recompiles] Recompiling function f"
_EACH_STAMPED = re.compile(r".{0,40}?[VIWEF]\d{4} \d\d:\d\d:\S+ +\d+ \S+\] ")  # as every line of such a log is
# JAX 0.10: "Finished XLA compilation of jit(train_step) in 0.025208235 sec"
_SPEAKS = re.compile(
    r"TRACING CACHE MISS|Finished |Compiling |Recompiling |(?:Compilation|Execution|Post Compilation) Analysis"
)
# PyTorch 2.13: "V1121 07:47:53.733000 7 torch/_dynamo/gua"
_UNFINISHED = re.compile(r".{0,40}?[VIWEF]\d{4} \d\d:\d\d:\S+ +\d+ [^\]]*$")
# PyTorch 2.13: "rds.py:5396] [0/1] [__recompiles] Recompiling function f in /repo/train.py:2"
_REST_OF_STAMP = re.compile(r"\S{0,80}\d\] ")
# PyTorch 2.3: "V1125 01:21:51.068000 140148440464256 torch/_dynamo/symbolic_convert.py:516] [0/"
_OPEN_NUMBER = re.compile(r".{0,40}?[VIWEF]\d{4} \d\d:\S+ .*\d\] \[\d{0,9}/?\d{0,9}$")
# PyTorch 2.3: "0] [__graph_breaks] Graph break: from user code at:"
_REST_OF_NUMBER = re.compile(r"\d{0,9}/?[\d_]{0,9}\](?: |$)")
# JAX 0.4.31: "Persistent compilation cache hit for 'jit_train_step' with key 'jit_train_step-fc548928caa9"
_OPEN_KEY = re.compile(r".* with key '[\w-]{0,200}$")
# JAX 0.4.31: "2f018961540eeb03dd4da6dd855e59ddfba55a5cdb058d33ecd3'"
_REST_OF_KEY = re.compile(r"[\w-]{1,200}'")
# JAX 0.4.28: "WARNING:2026-11-25 01:06:51,788:jax._src.dispatch:182: Finished tracing + transforming f for pjit in 0.0"
_OPEN_SECONDS = re.compile(r".* in \d+\.\d*$")
# JAX 0.4.28: "04494190216064453 sec"
_REST_OF_SECONDS = re.compile(r"\d{0,20} sec$")
# PyTorch 2.13: "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '/repo/tr"
_OPEN_FILE = re.compile(r".* stance is 'fail_on_recompile'\. filename: '[^']*$")
# PyTorch 2.13: "ain.py', function name: 'score', line number: 114"
_REST_OF_FILE = re.compile(r"[^']*', function name: '")
_CUT = (
    (_OPEN_NUMBER, _REST_OF_NUMBER),
    (_OPEN_FILE, _REST_OF_FILE),
    (_UNFINISHED, _REST_OF_STAMP),
    (_OPEN_KEY, _REST_OF_KEY),
    (_OPEN_SECONDS, _REST_OF_SECONDS),
)
"""The end of a line that is cut, and the begin of the rest."""
# JAX 0.10: "Finished XLA compilation of jit(train_step) in 0.0252"
_LONG = re.compile(r"Finished |Compiling ")
_ENDS = (" sec", ".", ")")  # of these
_HEADS = (" because:", " failure(s):")
"""What ends so is whole, were it as long as the terminal is wide: what it is about stands in lines of its own."""
_LONG_WORDS = (
    "torch/_dynamo/", "torch/fx/experimental/symbolic_shapes.py:", "] [__recompiles]", "] [__recompiles_verbose]",
    "] [__graph_breaks]", "guards.py:", "convert_frame.py:", "symbolic_convert.py:", "Recompiling function ",
    "triggered by the following guard failure(s):", "size mismatch at index ", "stride mismatch at index ",
    ". expected ", ", actual ", "Graph break in user code at ", "Graph Break Reason: ", "User code traceback:",
    "Developer debug context: ", "create_symbol ", "last reason: ", "torch._dynamo hit config.",
    "To log all recompilation reasons, use TORCH_LOGS=", "To diagnose recompilation issues, see ",
    "torchdynamo start compiling ", " with global shapes and types ", "ShapedArray(", "float32[", "Argument mapping: ",
    "UnspecifiedValue", "TRACING CACHE MISS at ", "Finished tracing ", "Finished jaxpr to MLIR module conversion ",
    "Finished XLA compilation of ", "previously seen cache keys ", "losest previous key", "Compilation Analysis: ",
    "Execution Analysis: ", " defined at ", "out of the last ", "tf.function retracing",
    ".__graph_breaks: [DEBUG] ", ".__recompiles: [DEBUG] ", "torch._dynamo.symbolic_convert", "torch._dynamo.guards",
    "Detected recompile when torch.compile stance is 'fail_on_recompile'", "'. filename: '", "', function name: '",
    "', line number: ", "torch._dynamo.convert_frame", "torch.fx.experimental.symbolic_shapes", "Graph break: ",
    "from user code at:",
)  # fmt: skip
"""Across the end of a line that a terminal has cut stands one of these: so it is not taken for one as long."""


def width_of(lines: list[str]) -> tuple[int, bool] | None:
    """The width of the terminal that these lines come from, and whether all are filled with blanks up to it; None where
    no terminal has wrapped them."""
    lengths = Counter(map(len, lines))
    width = max(lengths)
    if not _NARROWEST <= width <= _WIDEST:
        return None
    padded = sum(len(line) == width and line[-1] == " " for line in lines)
    if padded >= _FEWEST_PADDED and lengths[width] >= len(lines) - 1:
        return width, True
    pairs = [(line, after) for line, after in pairwise(lines) if len(line) >= width - 1]
    return (width, False) if any(_is_cut(*pair) for pair in pairs) or _go_on(lines, width) else None


def _go_on(lines: list[str], width: int) -> bool:
    """Whether lines without a stamp stand nowhere but behind lines of the full width, or behind most of these that have
    one; and not all of these are alike."""
    kinds = {_DIGIT.sub("", line.rpartition("] ")[2])[:_OF_KIND] for line in lines if len(line) == width}
    follow = [before for before, line in pairwise(lines) if line and not _STAMPED.match(line)]
    rests = [after for line, after in pairwise(lines) if len(line) == width and _EACH_STAMPED.match(line)]
    whole = sum(_STAMPED.match(after) is not None for after in rests)  # those that end just there
    is_mixed = len(kinds) > 1 or "" in kinds  # or it is the stamp that ends just there
    if is_mixed and len(rests) - whole >= max(_FEWEST_CUT, _FEWEST_CUT * whole):
        return True
    return len(kinds) > 1 and len(follow) > 1 and all(len(line) >= width - 1 for line in follow)


def _is_cut(line: str, after: str) -> bool:
    """Whether a stamp or one of the frameworks' own words stands across the end of a line, or a line lacks its end."""
    if any(end.match(line) and rest.match(after) for end, rest in _CUT):
        return True
    if _LONG.match(line) and not line.rstrip().endswith(_ENDS) and not _SPEAKS.match(after):
        return True
    return any(word in line[1 - len(word) :] + after[: len(word) - 1] for word in _LONG_WORDS)


class Wrapped:
    """Joins the lines that a terminal of one width has cut."""

    def __init__(self, width: int, is_padded: bool) -> None:
        self._width = width
        self._is_padded = is_padded
        self._last = ""
        self._gap: str | None = None
        """What stands between the last line and the rest of it; None where it has no rest."""

    def take(self, lines: list[str]) -> Iterator[str]:
        """Of the next lines, those that are whole now."""
        for line in lines:
            if self._gap is not None and line.strip() and not self._is_own(line):
                self._last += self._gap + line.rstrip(" ")
            else:
                yield self._last
                self._last = line.rstrip(" ")
            self._gap = self._rest(line)

    def end(self) -> str:
        """The last line."""
        return self._last

    def _rest(self, line: str) -> str | None:
        blanks = len(line) - len(line.rstrip(" "))
        if line.endswith(_HEADS):
            return None
        if len(line) == self._width and blanks <= self._most_blanks():
            return " " * blanks
        return " " if len(line) == self._width - 1 and not blanks else None  # copying trims a blank

    def _most_blanks(self) -> int:
        """With how many at its end the last line may go on: where all are filled with blanks, few tell nothing."""
        if not self._is_padded:
            return self._width
        return _PADDED_CUT if _STAMPED.match(self._last) else 1 if _SPEAKS.match(self._last) else 0

    def _is_own(self, line: str) -> bool:
        if _STAMPED.match(line):
            return True
        return _SPEAKS.match(line) is not None and _STAMPED.match(self._last) is None
