"""Reads what frameworks print with no setting at all: TensorFlow's warning that a function is traced again and again,
XLA's alarm at a slow compile, PyTorch's errors, vLLM's own seconds."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, End
from coldstep.logs import Line, Log, Seen
from coldstep.places import is_installed, location

# TensorFlow 2.1: "WARNING:tensorflow:5 out of the last 9 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings is likely due to passing python objects"
# TensorFlow 2.21: "WARNING:tensorflow:6 out of the last 6 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings could be due to (1) creating @tf.function"
_RETRACING = re.compile(
    r"(?P<traced>\d{1,9}) out of the last \d{1,9} calls to (?P<what>.{1,1000}?) triggered tf\.function retracing"
)
# Python: "<function train_one at 0x7f0a>"
# Python: "<bound method Trainer.step of <__main__.Trainer object at 0x7f0a>>"
_FUNCTION = re.compile(r"<(?:function|bound method) (?P<name>\S+)")
# JAX 0.10: "[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS="
# JAX 0.10: "[Compiling module jit_train_step for CPU] Very slow compile?"
_SLOW = re.compile(
    r"\[Compiling module (?:p?jit|pmap)_+(?P<name>[\w.]{1,500})(?: for [^\]]{1,99})?\] Very slow compile"
)
# JAX 0.10: "The operation took 2m27.1s"
_TOOK = re.compile(r"The operation took (?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m)?(?P<s>[\d.]{1,20})s")
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

_ONLY_WARNED = Unseen(
    "what was traced, when and why: the log has only what TensorFlow prints unasked, from a function's fifth trace on "
    "(no setting makes it tell more; this does: coldstep run -- python train.py)",
    COMPILES,
    RECOMPILES,
    PHASES,
)
_ONLY_SLOW = Unseen(
    "all other compiles, and why these happened: the log has only XLA's alarm at a slow one (it tells more with env: "
    'JAX_LOG_COMPILES: "1", JAX_EXPLAIN_CACHE_MISSES: "1")',
    COMPILES,
    RECOMPILES,
    PHASES,
)
_ONLY_ERRORS = Unseen(
    "what was compiled, again and why, and where graphs broke: the log has only what is printed unasked (it tells more "
    "with env: TORCH_LOGS: recompiles,graph_breaks,dynamic)",
    COMPILES,
    RECOMPILES,
    BREAKS,
    PHASES,
)


def _about(stack: str, name: str, file: str = "", line: int = 0) -> Args:
    """The arguments of a compile of which no more is known than whose it is."""
    short = name.rpartition(".")[2] or name
    return {
        "part": "forward",
        "function": short,
        "origin": "user",
        "key": f"{stack}:{file}:{name}",
        "identity": f"{file}:{name}",
        "location": location(file, line, short) if file else None,
        "caller": None,
        "inputs": [],
        "context": {},
    }


class Retracing:
    """Reads TensorFlow's warnings in the log of one process."""

    name: ClassVar[str] = "tensorflow"
    marks: ClassVar[tuple[bytes, ...]] = (b"triggered tf.function retracing",)
    goes_on = False

    def __init__(self, log: Log) -> None:
        self._log = log
        self._traced: dict[str, int] = {}

    def read(self, line: Line) -> bool:
        """Take in a line."""
        match = _RETRACING.search(line.text)
        if match is None:
            return False
        function = _FUNCTION.search(match["what"])
        name = function["name"] if function is not None else match["what"]
        known = self._traced.setdefault(name, 0)
        # each warning is of one more trace; the first of a function tells of those before it
        for number in range(known, max(known + 1, int(match["traced"]))):
            self._emit(name, number, line.ns, match[0])
        return True

    def _emit(self, name: str, number: int, ns: int, words: str) -> None:
        self._traced[name] = number + 1
        if (id := self._log.new_compile()) is None:
            return
        about = _about("tensorflow", name)
        if number:
            about |= {"earlier": True, "guard_failures": [words]}
        begin = Begin(ns, about["function"], "tensorflow", None, id, about)
        self._log.emit(begin)
        self._log.emit(End(ns, begin, {"outcome": "compiled"}))

    def end(self) -> Seen | None:
        """All compiles have been emitted."""
        return Seen("partial", None, [_ONLY_WARNED]) if self._traced else None


class SlowCompiles:
    """Reads XLA's alarms in the log of one process."""

    name: ClassVar[str] = "jax"
    marks: ClassVar[tuple[bytes, ...]] = (b"Very slow compile", b"The operation took ")
    goes_on = False

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: tuple[Begin, str] | None = None
        self._seen = False

    def read(self, line: Line) -> bool:
        """Take in a line."""
        if match := _SLOW.search(line.text):
            self._finish(line.ns)
            self._begin(match["name"], line.ns)
        elif self._open is not None and (match := _TOOK.search(line.text)):
            seconds = 3600 * int(match["h"] or 0) + 60 * int(match["m"] or 0) + float(match["s"])
            self._finish(line.ns, round(seconds * 1e9))
        else:
            return False
        return True

    def _begin(self, name: str, ns: int) -> None:
        self._seen = True
        if (id := self._log.new_compile()) is not None:
            about = _about("jax", name)
            self._open = Begin(ns, about["function"], "jax", None, id, about), name

    def _finish(self, ns: int, took_ns: int | None = None) -> None:
        """The compile has ended; the alarm came amid it, and without a time it is not known how long it took."""
        opened, self._open = self._open, None
        if opened is None:
            return
        begin, _ = opened
        begin.ns = max(1, ns - took_ns) if took_ns is not None else begin.ns
        self._log.emit(begin)
        if took_ns is not None:
            phase = Begin(begin.ns, "compile", "jax", "xla.compile")
            self._log.emit(phase)
            self._log.emit(End(begin.ns + took_ns, phase))
        self._log.emit(End(ns, begin, {"outcome": "compiled" if took_ns is not None else "in_progress"}))

    def end(self) -> Seen | None:
        """Emit the compile that did not end."""
        cut = self._open is not None
        self._finish(self._open[0].ns if self._open is not None else 0)
        return Seen("partial", None, [_ONLY_SLOW], cut=cut) if self._seen else None


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
        self._failed, self._ending, self._ns = _about("dynamo", name or "a function", file, number), ending, ns
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
                self._failed |= _about("dynamo", match["name"], match["file"], int(match["line"]))
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
        self._emit(_about("dynamo", "vLLM's model"), begun, begun + ns, {"outcome": "compiled"}, self._transform_ns)

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
