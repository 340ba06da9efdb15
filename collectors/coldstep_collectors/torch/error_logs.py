"""Reads what PyTorch prints with no setting at all, its errors; and vLLM's own seconds."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, End
from coldstep.logs import Line, Log, Seen
from coldstep.places import is_installed
from coldstep_collectors.log_definitions import about_unasked

# PyTorch 2.6, 2.7: "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'"
# PyTorch 2.8, 2.13: "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename:
# '/repo/a.py', function name: 'f', line number: 5"
_REFUSED = re.compile(
    r"(?P<text>Detected recompile when torch\.compile stance is 'fail_on_recompile')"
    r"(?:\.? filename: '(?P<file>[^']*)', function name: '(?P<name>[^']*)', line number: (?P<line>\d+))?"
)
# PyTorch 2.1, 2.7: "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
# PyTorch 2.7: "E   torch._dynamo.exc.Unsupported: Failed to trace builtin operator"
_ERROR = re.compile(r"(?:^|\s)torch\._(?:dynamo|inductor)\.exc\.(?P<text>(?P<kind>\w{1,99})(?:: .*)?)$")
_LIMIT_ERRORS = ("FailOnRecompileLimitHit", "RecompileLimitExceeded")
_WRAPPER = "external_utils.py"  # of what was handed to torch.compile and is no function of Python's
_USERS = "from user code:"
_CHAINED = ("direct cause of the following exception", "During handling of the above exception")
# Python: "  File "/repo/train.py", line 131, in score"
_FRAME = re.compile(r'File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?P<name>\S+)')
# vLLM 0.9: "Dynamo bytecode transform time: 5.21 s"
_TRANSFORM = re.compile(r"Dynamo bytecode transform time: \**(?P<s>[\d.]{1,20}) s")
# vLLM 0.9: "torch.compile takes 19.90 s in total"
_TOTAL = re.compile(r"torch\.compile takes \**(?P<s>[\d.]{1,20}) s\** in total")
_MOST_LINES = 60  # of a traceback after its error
_ONLY_ERRORS = Unseen(
    "compiles, recompiles and their causes, and graph breaks: the log has only the lines printed unasked (it shows "
    "more with env: TORCH_LOGS: recompiles,graph_breaks,dynamic)",
    COMPILES,
    RECOMPILES,
    BREAKS,
    PHASES,
)


class TorchErrors:
    """Reads PyTorch's errors, and vLLM's seconds, in the log of one process."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (b"torch._dynamo.exc.", b"torch._inductor.exc.", b"Detected recompile when",
                                          b"Dynamo bytecode transform time", b"torch.compile takes ")  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._failed: Args | None = None
        self._ending: Args = {}
        self._ns = self._lines = 0
        self._transform_ns = 0
        self._seen = self._of_user = self._chained = False
        self.goes_on = False

    def read(self, line: Line) -> bool:
        """Take in a line: an error, or what follows one."""
        if line.source or "] torch._" in line.text:  # a log's own line, which another reader takes
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
        elif match := _TRANSFORM.search(line.text):
            self._transform_ns = round(float(match["s"]) * 1e9)
        elif match := _TOTAL.search(line.text):
            self._whole(round(float(match["s"]) * 1e9), line.ns)
        else:
            return self._after(line.text)
        return True

    def _fail(self, name: str, file: str, number: int, ending: Args, ns: int) -> None:
        if self._failed is not None and not self._chained:
            self._finish()
        self._failed, self._ending, self._ns = about_unasked("dynamo", name or "a function", file, number), ending, ns
        self.goes_on, self._lines, self._of_user, self._chained = True, 0, False, False

    def _after(self, text: str) -> bool:
        """A line after an error: the user's code that it is of, or the error's own cause."""
        if self._failed is None:
            return False
        self._lines += 1
        self.goes_on = self._lines < _MOST_LINES
        self._of_user |= _USERS in text
        self._chained |= any(words in text for words in _CHAINED)
        if self._of_user and (match := _FRAME.search(text)):
            if not is_installed(match["file"]):
                self._failed |= about_unasked("dynamo", match["name"], match["file"], int(match["line"]))
            return True
        if self._lines == 1 and self._ending["error"].endswith(" raised:"):
            self._ending["error"] += f" {text.strip()}"
            return True
        return False

    def _finish(self) -> None:
        about, self._failed = self._failed, None
        if about is not None:
            self._emit(about, self._ns, self._ns, self._ending)

    def _whole(self, ns: int, now: int) -> None:
        """vLLM has compiled its model: it tells how long Dynamo took, and all of it."""
        begun = max(1, now - ns)
        self._emit(
            about_unasked("dynamo", "vLLM's model"), begun, begun + ns, {"outcome": "compiled"}, self._transform_ns
        )

    def _emit(self, about: Args, start: int, end: int, ending: Args, dynamo_ns: int = 0) -> None:
        self._seen = True
        if (id := self._log.new_compile()) is None:
            return
        begin = Begin(start, about["function"], "torch", None, id, about)
        self._log.emit(begin)
        if dynamo_ns:
            phase = Begin(start, "trace", "torch", "dynamo.trace")
            self._log.emit(phase)
            self._log.emit(End(min(end, start + dynamo_ns), phase))
        self._log.emit(End(end, begin, ending))

    def end(self) -> Seen | None:
        """Emit the last failure."""
        self._finish()
        return Seen("partial", None, [_ONLY_ERRORS]) if self._seen else None
