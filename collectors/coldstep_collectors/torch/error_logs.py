"""Reads what PyTorch prints with no setting at all, its errors and what it tunes; and what vLLM prints."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.blind_spots import BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, End
from coldstep.logs import Line, Log, Seen
from coldstep.places import is_installed
from coldstep_collectors.log_definitions import about_unasked
from coldstep_collectors.torch.autotune_log import AutotuneLines
from coldstep_collectors.torch.vllm_log import VllmLines

_LIMIT_ERRORS = ("FailOnRecompileLimitHit", "RecompileLimitExceeded", "FailOnCacheLimitHit", "CacheLimitExceeded")
_OWN = ("BackendCompilerFailed", "InductorError", "TorchRuntimeError", *_LIMIT_ERRORS)
"""Errors whose names nobody else gives to theirs: a notebook prints them without their module."""
# PyTorch 2.6, 2.7: "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'"
# PyTorch 2.8, 2.13: "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename:
# '/repo/a.py', function name: 'f', line number: 5"
_REFUSED = re.compile(
    r"(?P<text>Detected recompile when torch\.compile stance is 'fail_on_recompile')"
    r"(?:\.? filename: '(?P<file>[^']*)', function name: '(?P<name>[^']*)', line number: (?P<line>\d+))?"
)
# PyTorch 2.1, 2.7: "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
# PyTorch 2.7: "E   torch._dynamo.exc.Unsupported: Failed to trace builtin operator"
# Jupyter: "FailOnRecompileLimitHit: recompile_limit reached with one_graph=True."
_ERROR = re.compile(
    rf"(?:(?:^|\s)torch\._(?:dynamo|inductor)\.exc\.|^(?=(?:{'|'.join(_OWN)}): ))"
    r"(?P<text>(?P<kind>\w{1,99})(?::(?: .*)?)?)$"
)
# Jupyter: "Unsupported: Data-dependent branching"
# Python: "RuntimeError: Cannot find a working triton installation."
_ANY_ERROR = re.compile(
    r"(?:[\w.]{1,200}\.)?(?P<text>(?P<kind>\w{0,99}(?:Error|Exception|Failed|Unsupported))(?:: .*)?)$"
)
# PyTorch 2.0, 2.13: "Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information"
_OF_DYNAMO = "TORCHDYNAMO_VERBOSE=1"
# PyTorch 2.1: "[2023-11-14 10:41:12,330] torch._dynamo.convert_frame: [WARNING] torch._dynamo.exc.Unsupported: f"
_OWN_LINE = re.compile(r"\] torch\._[\w.]{1,99}: \[")
# ComfyUI: "backend='inductor' raised:"
_BARE = re.compile(r"\W{0,9}(?P<text>backend='[^']{1,99}' raised:)$")
# PyTorch 2.8: "  Explanation: torch.* ops that return a non-Tensor cannot be traced into the graph"
# PyTorch 2.8: "  Developer debug context: example_value type: str; op: call_function"
_DETAIL = re.compile(r"\s*(?:Explanation|Hint|Developer debug context): \S")
_WRAPPER = "external_utils.py"  # of what was handed to torch.compile and is no function of Python's
_USERS = "from user code:"
_CHAINED = ("direct cause of the following exception", "During handling of the above exception")
# Python: "  File "/repo/train.py", line 131, in score"
# PyTorch 2.0: "   File "/repo/train.py", line 559, in <resume in forward>"
_FRAME = re.compile(
    r'File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?:<(?:graph break|resume) in )?(?P<name>[\w.]+|\S+)'
)
_MOST_LINES = 60  # of a traceback after its error
_ONLY_ERRORS = Unseen(
    "compiles, recompiles and their causes, and graph breaks: the log has only the lines printed unasked (it shows "
    "more with env: TORCH_LOGS: recompiles,graph_breaks,dynamic)",
    COMPILES,
    RECOMPILES,
    BREAKS,
    PHASES,
)


@slotted
class Failure:
    """A compile that has failed by PyTorch's words."""

    ns: int
    about: Args
    ending: Args
    compiled: tuple[str, str] | None = None
    """The file and name of the function that was compiled, where the error names it."""

    @property
    def is_limit(self) -> bool:
        """Whether it is one variant too many."""
        return bool(self.ending["outcome"] == "limit")

    def is_of_recompile(self, name: str) -> bool:
        """Whether the program has forbidden to compile that function again."""
        return bool(self.ending["error"].startswith(f"RecompileError: Recompiling function {name} in "))

    def emit(self, log: Log) -> None:
        """Tell of it as a compile."""
        if (id := log.new_compile()) is not None:
            begin = Begin(self.ns, self.about["function"], "torch", None, id, self.about)
            log.emit(begin)
            log.emit(End(self.ns, begin, self.ending))


class Errors:
    """PyTorch's errors in the lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"torch._dynamo.exc.", b"torch._inductor.exc.", b"Detected recompile when",
                                          b"backend='", _OF_DYNAMO.encode(), b"Error: ", b"Unsupported: ",
                                          *(f"{name}: ".encode() for name in _OWN))  # fmt: skip

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._failed: Failure | None = None
        self._is_sure = False
        """Whether that one is a failure of a compile, and no other error."""
        self._lines = 0
        self._of_user = self._chained = False
        self.goes_on = False

    def read(self, line: Line) -> bool:
        """Take in a line: an error, or what follows one."""
        if "torch/_" in line.source or _OWN_LINE.search(line.text):  # a log's own line, which another reader takes
            return False
        if match := _REFUSED.search(line.text):
            ending = {"outcome": "failed", "error": match["text"]}
            if match["file"] and not match["file"].endswith(_WRAPPER):
                self._fail(match["name"], match["file"], int(match["line"]), ending, line.ns)
            else:
                self._fail("", "", 0, ending, line.ns)
        elif match := _ERROR.search(line.text):
            outcome = "limit" if match["kind"] in _LIMIT_ERRORS else "failed"
            self._fail("", "", 0, {"outcome": outcome, "error": match["text"]}, line.ns)
        elif match := _BARE.match(line.text):
            self._fail("", "", 0, {"outcome": "failed", "error": f"BackendCompilerFailed: {match['text']}"}, line.ns)
        elif not self._is_open and (match := _ANY_ERROR.match(line.text)):
            self._fail("", "", 0, {"outcome": "failed", "error": match["text"]}, line.ns, is_sure=False)
            return False
        else:
            return self._after(line.text)
        return True

    @property
    def _is_open(self) -> bool:
        """Whether the lines that come now may be of a failure."""
        return self.goes_on and self._is_sure

    def _fail(self, name: str, file: str, number: int, ending: Args, ns: int, is_sure: bool = True) -> None:
        if self._failed is not None and self._is_sure and self._chained:  # what that error was made of
            self.failures.remove(self._failed)
        self._failed, self._is_sure = (
            Failure(ns, about_unasked("dynamo", name or "a function", file, number), ending),
            is_sure,
        )
        self.failures += [self._failed] if is_sure else []
        self.goes_on, self._lines, self._of_user, self._chained = True, 0, False, False

    def _after(self, text: str) -> bool:
        """A line after an error: the user's code that it is of, or the error's own cause."""
        failed = self._failed
        if failed is None or not self.goes_on:
            return False
        self._lines += 1
        self.goes_on = self._lines < _MOST_LINES
        self._of_user |= _USERS in text
        self._chained |= any(words in text for words in _CHAINED)
        if _OF_DYNAMO in text and not self._is_sure:
            self._is_sure = True
            self.failures.append(failed)
        if self._of_user and (match := _FRAME.search(text)):
            failed.compiled = failed.compiled or (match["file"], match["name"])
            if not is_installed(match["file"]):
                failed.about |= about_unasked("dynamo", match["name"], match["file"], int(match["line"]))
            return self._is_sure
        if (self._lines == 1 and failed.ending["error"].endswith(" raised:")) or _DETAIL.match(text):
            failed.ending["error"] += f" {text.strip()}"
            return self._is_sure
        return False


class TorchErrors:
    """Reads PyTorch's errors, and vLLM's seconds, in the log of one process that has no more."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (*Errors.MARKS, *VllmLines.MARKS, *AutotuneLines.MARKS)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._errors, self._vllm, self._tuned = Errors(), VllmLines(), AutotuneLines()

    @property
    def goes_on(self) -> bool:
        """Whether the next line may belong to an error."""
        return self._errors.goes_on or self._vllm.goes_on or self._tuned.goes_on

    def read(self, line: Line) -> bool:
        """Take in a line."""
        return self._errors.read(line) or self._vllm.read(line) or self._tuned.read(line)

    def end(self) -> Seen | None:
        """Emit what failed, and what vLLM compiled."""
        for failure in self._errors.failures:
            failure.emit(self._log)
        seen = self._vllm.emit(self._log) or bool(self._errors.failures)
        seen |= self._tuned.emit(self._log, has_compiles=seen)
        return Seen("partial", None, [_ONLY_ERRORS]) if seen else None
