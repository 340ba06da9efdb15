"""Reads what PyTorch prints with no setting at all: its errors, and the seconds and graph breaks in its own reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.blind_spots import Unseen, told_by
from coldstep.events import Args, Begin, GraphBreak, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep.places import is_installed
from coldstep_collectors.log_definitions import about_unasked
from coldstep_collectors.torch._private.breaks import BreakReason, whole_name
from coldstep_collectors.torch.graph_breaks import about_break
from coldstep_collectors.torch.inductor_log import AutotuneLines, SkipLines
from coldstep_collectors.torch.log_frames import passed_through
from coldstep_collectors.torch.vllm_log import VllmLines

_LIMIT_ERRORS = ("FailOnRecompileLimitHit", "RecompileLimitExceeded", "FailOnCacheLimitHit", "CacheLimitExceeded")
_OWN = ("BackendCompilerFailed", "InductorError", "TorchRuntimeError", "ConstraintViolationError", *_LIMIT_ERRORS)
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
    r"(?:(?:^|\s)torch\.(?:_(?:dynamo|inductor)\.exc|fx\.experimental\.symbolic_shapes)\."
    rf"|^(?=(?:{'|'.join(_OWN)}): ))"
    r"(?P<text>(?P<kind>\w{1,99})(?::(?: .*)?)?)$"
)
# Jupyter: "Unsupported: Data-dependent branching"
# Python: "RuntimeError: Cannot find a working triton installation."
# Pytest: "E       RuntimeError: Cannot find a working triton installation."
_ANY_ERROR = re.compile(
    r"(?:E {3,9})?(?:[\w.]{1,200}\.)?(?P<text>(?P<kind>\w{0,99}(?:Error|Exception|Failed|Unsupported))(?::(?: .*)?)?)$"
)
# PyTorch 2.0, 2.13: "Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information"
_OF_DYNAMO = "TORCHDYNAMO_VERBOSE=1"
# PyTorch 2.7: "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if"
# PyTorch 2.15: "Set TORCHDYNAMO_VERBOSE=1 for the full Dynamo stack trace (please do this especially if"
_END_OF_ERROR = re.compile(
    r"Set (?:TORCH_LOGS=\S{1,20} and )?TORCHDYNAMO_VERBOSE=1 for (?:more|the (?:internal|full))\b"
)
# PyTorch 2.4: "  File "/venv/torch/_dynamo/symbolic_convert.py", line 703, in inline_user_function_return"
# PyTorch 2.7: "  File "/venv/torch/_inductor/graph.py", line 1964, in codegen"
# Jupyter: "File ~/venv/torch/_dynamo/symbolic_convert.py:743, in InstructionTranslatorBase.call_function(self, fn)"
# Pytest: "/venv/torch/_dynamo/convert_frame.py:921: in catch_errors"
_IN_COMPILER = re.compile(
    r"(?:\s*File \W{0,2}[^\"\n]{0,1000}|[\w./\\:-]{0,300})"
    r"torch[\\/]_(?:dynamo[\\/](?!eval_frame)\w[\w\\/]{0,60}"
    r"|inductor[\\/](?:graph|scheduler|lowering|codegen[\\/]\w{1,40}))\.py"
    r"(?:\", line \d{1,9}, in |:\d{1,9}(?:, in |: in ))"
)
# PyTorch 2.8: "    raise e.remove_dynamo_frames() from None  # see TORCHDYNAMO_VERBOSE=1"
_RAISED_AGAIN = "    raise e.remove_dynamo_frames() from None"
# Jupyter: "InductorError                             Traceback (most recent call last)"
_HEAD = re.compile(rf"(?P<text>{'|'.join(_OWN)}) {{2,}}Traceback \(most recent call last\)$")
# Python: "  File "/usr/lib/python3.11/contextlib.py", line 81, in inner"
# Jupyter: "File ~/venv/torch/nn/modules/module.py:1511, in Module._wrapped_call_impl(self, *args, **kwargs)"
# Jupyter: "--> 743 self.push(fn.call_function(self, args, kwargs))"
# Pytest: "/usr/lib/python3.8/contextlib.py:75: in inner"
# Pytest: "/usr/lib/pyth"
_OF_STACK = re.compile(
    r"\s|$|File \S|-+> \d|(?:Cell|Input) In|Traceback \(most recent|The above exc|During handl|\.\.\."
    r"|[\w./\\:-]{1,300}\.py:\d{1,9}: |[/.~][\w./-]{0,300}$|(?:E|>) {3}|_ _"
)
# PyTorch 2.1: "[2023-11-14 10:41:12,330] torch._dynamo.convert_frame: [WARNING] torch._dynamo.exc.Unsupported: f"
_OWN_LINE = re.compile(r"\] torch\._[\w.]{1,99}: \[")
# ComfyUI: "backend='inductor' raised:"
# ComfyUI: "- **Exception Message:** backend='inductor' raised:"
_BARE = re.compile(r"(?:- \*\*Exception Message:\*\*)?\W{0,9}(?P<text>backend='[^']{1,99}' raised:)$")
# ComfyUI: "- **Exception Type:** torch._dynamo.exc.BackendCompilerFailed"
_REPORTED = "- **Exception Type:** "
# Pytest: "FAILED tests/test_net.py::test_step - torch._dynamo.exc.Unsupported: Data-dependent branc..."
_SUMMED_UP = re.compile(r"(?:FAILED|ERROR) \S{1,500} - ")
# PyTorch 2.8: "  Explanation: torch.* ops that return a non-Tensor cannot be traced into the graph"
# PyTorch 2.8: "  Developer debug context: example_value type: str; op: call_function"
# PyTorch 2.8: "  - You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (5)"
# PyTorch 2.13: "    - 0/0: tensor 'x' size mismatch at index 1. expected 16, actual 32"
_DETAIL = re.compile(
    r"\s*(?:Explanation|Hint|Developer debug context): \S|  - (?:You marked|Not all values of) "
    r"|\s*- \d+/\d+(?:_\d+)?: \S"
)
# PyTorch 2.13: "RecompileError: Recompiling function forward"
_RECOMPILED = re.compile(r"RecompileError: Recompiling function (?P<name>\S{1,200})$")
# PyTorch 2.7: "  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`)."
_WITHOUT_CLASS = re.compile(
    r"\s{2}Explanation: (?P<unsupported>\S.*)|(?P<of_user>Dynamic control flow is not supported.*)"
)
_WRAPPER = "external_utils.py"  # of what was handed to torch.compile and is no function of Python's
_USERS = "from user code:"
_NEXT_STACK = "Traceback (most recent call last)"
_CHAINED = ("direct cause of the following exception", "During handling of the above exception")
# Python: "  File "/repo/train.py", line 131, in score"
# PyTorch 2.0: "   File "/repo/train.py", line 559, in <resume in forward>"
_FRAME = re.compile(
    r'File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?:<(?:graph break|resume) in )?(?P<name>[\w.]+|\S+)'
)
_MOST_LINES = 60  # of a traceback after its error
NO_ERROR = "not in the log: the lines with the error are lost"
# PyTorch 2.0, 2.13: "TorchDynamo compilation metrics:"
_METRICS = "TorchDynamo compilation metrics:"
# PyTorch 2.0: "torch._dynamo.convert_frame._compile                             7.1824, 0.0092"
# PyTorch 2.6: "_compile.compile_inner, 23.8579"
_COMPILED = re.compile(
    r"(?:(?:torch\._dynamo\.)?convert_frame\.)?_compile(?:\.<locals>)?(?:\.compile_inner)?,?\s{1,200}"
    r"(?P<seconds>\d{1,9}\.\d{1,9}(?:, \d{1,9}\.\d{1,9})*)$"
)
# PyTorch 2.1, 2.13: "    Reason: generic_jump TensorVariable()"
_EXPLAINED = re.compile(r"\s{4}Reason: (?P<reason>.{1,2000})$")
_SUMMARY = r"<FrameSummary file ((?:<[^<>]{1,99}>)?[^<>]{0,1000}?), line (\d{1,9}) in ((?:[^<>]|<[^<>]{1,99}>){1,200})>"
# PyTorch 2.13: "<FrameSummary file /repo/train.py, line 6 in step>"
# PyTorch 2.13: "<FrameSummary file /repo/train.py, line 6 in <lambda>>"
_IN_REASON = re.compile(_SUMMARY)
# PyTorch 2.1, 2.13: "      <FrameSummary file /repo/train.py, line 4 in step>"
_EXPLAINED_AT = re.compile(rf"\s{{6}}{_SUMMARY}$")
# PyTorch 2.13: "  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']"
_EXPLANATION = re.compile(r"\s{2}Explanation: (.{1,2000})$")
# PyTorch 2.13: "reason='generic_jump TensorVariable()', user_stack=[<FrameSummary file /repo/a.py, line 6 in step>],
# graph_break=True)"
_REASON = re.compile(
    r"\breason=(?P<quote>[\"'])(?P<reason>(?:(?!, user_stack=|\breason=[\"']).){1,2000})(?P=quote), user_stack="
    rf"\[(?P<stack>(?:{_SUMMARY}(?:, (?=<))?){{1,200}})(?P<returns>\], graph_break=False)?"
)
# PyTorch 2.13: "with argument types [\\'str\\'] (has_kwargs False)"
_ESCAPED = re.compile(r"\\(.)")
_RETURNS = "return_value"  # no graph break, and the last words of a line may be lost
# PyTorch 2.5: "/venv/torch/_dynamo/variables/functions.py:725: UserWarning: Graph break due to unsupported builtin
# time.sleep. This function is either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension"
# PyTorch 2.8: "/venv/torch/_dynamo/variables/functions.py:1481: UserWarning: Dynamo does not know how to trace the
# builtin `time.sleep.` This function is either a Python builtin"
_BUILTIN = re.compile(
    r"(?![-+#]).{0,500}?[\\/]_dynamo[\\/]variables[\\/]\w{1,40}\.py:\d{1,9}: UserWarning: "
    r"(?P<words>(?:Graph break due to unsupported|Dynamo does not know how to trace the) builtin .{1,500}?)"
    r" This function is either"
)
MARKS_OF_BUILTINS = (b"UserWarning: Graph break due to unsupported builtin",
                     b"UserWarning: Dynamo does not know how to trace")  # fmt: skip
_MOST_LINES_OF_REPORT = 60
_MOST_COMPILES = 2_000
_ONLY_ERRORS = Unseen(
    "compiles, recompiles and their causes, and graph breaks: the log has only the lines printed unasked (it shows "
    "more with env: TORCH_LOGS: recompiles,graph_breaks,dynamic)",
    *told_by("dynamo"),
)


@slotted
class Failure:
    """A compile that has failed by PyTorch's words."""

    ns: int
    about: Args
    ending: Args
    compiled: tuple[str, str] | None = None
    """The file and name of the function that was compiled, where the error names it."""
    first: str = ""
    """The error that it was made of."""

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
            # at its limit, too: it is an error
            emit_whole(log.emit, begin, self.ns, self.ending | {"outcome": "failed"})


class Errors:
    """PyTorch's errors in the lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"torch._dynamo.exc.", b"torch._inductor.exc.", b"Detected recompile when",
                                          b"backend='", _OF_DYNAMO.encode(), b"Error: ", b"Unsupported: ",
                                          b"torch/_dynamo/", b"torch\\_dynamo\\", b"Error  ", b"Failed  ",
                                          b"torch/_inductor/", b"torch\\_inductor\\",
                                          b"symbolic_shapes.ConstraintViolationError",
                                          b"  Explanation: ", b"Dynamic control flow is not", _USERS.encode(),
                                          *(f"{name}: ".encode() for name in _OWN))  # fmt: skip

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._failed: Failure | None = None
        self._is_sure = False
        """Whether that one is a failure of a compile, and no other error."""
        self._lines = 0
        self._of_user = self._chained = False
        self._error_goes_on = self._is_reported = False
        self._stack: Failure | None = None
        """That of a stack through Dynamo, until its error is read."""

    @property
    def goes_on(self) -> bool:
        """Whether the next line may belong to an error."""
        return self._error_goes_on or self._stack is not None

    def read(self, line: Line) -> bool:
        """Take in a line: an error, or what follows one."""
        if "torch/_" in line.source or _OWN_LINE.search(line.text):  # a log's own line, which another reader takes
            return False
        if match := _REFUSED.search(line.text):
            is_users = match["file"] and not match["file"].endswith(_WRAPPER)
            place = (match["name"], match["file"], int(match["line"])) if is_users else ("", "", 0)
            self._fail(*place, {"outcome": "failed", "error": match["text"]}, line.ns)
        elif match := _ERROR.search(line.text):
            outcome = "limit" if match["kind"] in _LIMIT_ERRORS else "failed"
            if not (_SUMMED_UP.match(line.text) and self._is_known(match["text"])):
                named = _RECOMPILED.match(match["text"])
                name = named["name"] if named is not None else ""
                self._fail(name, "", 0, {"outcome": outcome, "error": match["text"]}, line.ns)
                self._is_reported = line.text.startswith(_REPORTED)
        elif match := _BARE.match(line.text):
            error = f"BackendCompilerFailed: {match['text']}"
            if not self._is_of_report(error):
                self._fail("", "", 0, {"outcome": "failed", "error": error}, line.ns)
        elif not self._is_open and (match := _ANY_ERROR.match(line.text)):
            is_sure = self._stack is not None
            self._fail("", "", 0, {"outcome": "failed", "error": match["text"]}, line.ns, is_sure)
            return is_sure
        elif not self._is_open and (match := _WITHOUT_CLASS.match(line.text)):
            error = f"Unsupported: {match[1]}" if match[1] else f"UserError: {match[2]}"
            self._fail("", "", 0, {"outcome": "failed", "error": error}, line.ns, is_sure=False)
            return False
        elif line.text == _USERS and self._failed is not None and self._is_sure and not self._of_user:
            self._error_goes_on, self._lines, self._of_user = True, 0, True  # behind a long error, of a C++ compiler
        elif self._is_end_of_lost(line.text):
            self._fail("", "", 0, {"outcome": "failed", "error": NO_ERROR}, line.ns)
            self._of_user = line.text == _USERS
        else:
            return self._after(line.text) or self._goes_through(line)
        return True

    def end(self) -> list[Failure]:
        """All of them, at the end of the log: that of a stack without its error, too."""
        is_of_last = self._is_sure and self._chained
        if self._stack is not None and not is_of_last:
            self.failures.append(self._stack)
        for failure in self.failures:
            error = failure.ending["error"]
            if failure.first not in error:
                failure.ending["error"] += f"; made of {failure.first}"
        return self.failures

    @property
    def _is_open(self) -> bool:
        """Whether the lines that come now may be of a failure."""
        return self._error_goes_on and self._is_sure

    def _is_end_of_lost(self, text: str) -> bool:
        """Whether a line is of the end of an error whose begin has not been read."""
        if text == _USERS:
            return not self._error_goes_on
        return not self.failures and self._failed is None and _END_OF_ERROR.match(text) is not None

    def _is_known(self, error: str) -> bool:
        """Whether a failure with these words, of which the end may be left out, has been read."""
        return any(failure.ending["error"].startswith(error.removesuffix("...")) for failure in self.failures)

    def _is_of_report(self, error: str) -> bool:
        """Whether an error is the one that a report has named by its class: the report has its words twice."""
        if self._failed is None or not (self._is_reported and self._error_goes_on):
            return False
        known = self._failed.ending["error"]
        is_again = known.startswith(error)
        if is_again or error.startswith(f"{known}: "):
            self._failed.ending["error"] = known if is_again else error
            self._lines = int(is_again)  # what comes next is there already
            return True
        return False

    def _fail(self, name: str, file: str, number: int, ending: Args, ns: int, is_sure: bool = True) -> None:
        first = ""
        if self._failed is not None and self._chained:  # what that error was made of
            self.failures = [failure for failure in self.failures if failure is not self._failed]
            first = self._failed.ending["error"]
        about = about_unasked("dynamo", name or "a function", file, number)
        self._failed, self._is_sure = Failure(ns, about, ending, first=first), is_sure
        self.failures += [self._failed] if is_sure else []
        self._error_goes_on, self._lines, self._of_user, self._chained = True, 0, False, False
        self._stack, self._is_reported = None, False

    def _goes_through(self, line: Line) -> bool:
        """A line of a stack through Dynamo: such an error is that of a compile, whatever its class."""
        head = _HEAD.match(line.text)
        is_inside = _IN_COMPILER.match(line.text) or _RAISED_AGAIN in line.text
        if head is not None or (self._stack is None and is_inside):
            error = f"{head['text']}: {NO_ERROR}" if head is not None else NO_ERROR
            about = about_unasked("dynamo", "a function")
            self._stack = Failure(line.ns, about, {"outcome": "failed", "error": error})
        elif self._stack is not None and not _OF_STACK.match(line.text):
            self._stack = None  # the log goes on: nothing is known of how that ended
        return self._stack is not None

    def _after(self, text: str) -> bool:
        """A line after an error: the user's code that it is of, or the error's own cause."""
        if (failed := self._failed) is None or not self._error_goes_on:
            return False
        self._lines += 1
        self._error_goes_on = self._lines < _MOST_LINES
        self._of_user = (self._of_user or _USERS in text) and _NEXT_STACK not in text
        self._chained |= any(words in text for words in _CHAINED)
        if (_OF_DYNAMO in text or text == _USERS) and not self._is_sure:
            self._is_sure = True
            self.failures.append(failed)
        if self._of_user and (match := _FRAME.search(text)):
            failed.compiled = failed.compiled or (match["file"], match["name"])
            is_first = failed.about["location"] is None and not passed_through(match["file"])
            if is_first or not is_installed(match["file"]):
                name, line = whole_name(match["name"]), int(match["line"])
                failed.about |= about_unasked("dynamo", name, match["file"], line)
            return self._is_sure
        if (self._lines == 1 and failed.ending["error"].endswith(" raised:")) or _DETAIL.match(text):
            failed.ending["error"] += f" {text.strip()}"
            return self._is_sure
        return False


class PrintedReports:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (_METRICS.encode(), b"Graph Break Count: ", b"  Break Reason ",
                                          b"user_stack=[<FrameSummary ")  # fmt: skip

    def __init__(self) -> None:
        self._seconds: list[tuple[int, float]] = []
        self._reasons: list[BreakReason] = []
        self._as_objects: list[BreakReason] = []
        """The same, which a program has printed as Python writes them."""
        self._lines = self._ns = self._reason_at = 0

    @property
    def reasons(self) -> list[BreakReason]:
        """Why graphs broke: a report has it in full."""
        return self._reasons or self._as_objects

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be of a report."""
        return self._lines > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._lines -= self._lines > 0
        if line.text.startswith((_METRICS, "Graph Break Count: ", "  Break Reason ")):
            self._lines, self._ns = _MOST_LINES_OF_REPORT, line.ns
        elif self._lines and (match := _COMPILED.match(line.text)):
            seconds = match["seconds"].split(", ")[:_MOST_COMPILES]  # of all so far
            self._seconds = [(line.ns, float(each)) for each in seconds]
        elif self._lines and (match := _EXPLAINED.match(line.text)):
            self._reasons.append(BreakReason(match["reason"], [], [], whole_frame=False))
            self._reason_at = self._lines
        elif self._lines and self._reasons and (match := _EXPLAINED_AT.match(line.text)):
            self._reasons[-1].stack.append(_place(*match.groups()))
        elif 0 < self._lines == self._reason_at - 1 and (match := _EXPLANATION.match(line.text)):
            self._reasons[-1].reason += f": {match[1]}"
        elif objects := [reason for each in _REASON.finditer(line.text) if (reason := _of_object(each)) is not None]:
            self._ns = line.ns
            self._as_objects += [each for each in objects if each not in self._as_objects]  # printed once more
        else:
            return False
        return True

    def emit(self, log: Log) -> bool:
        """Tell of each compile, and of the graph breaks of the function that was explained; whether there are any."""
        end = 1
        for ns, seconds in self._seconds:
            start = max(1, end, ns - round(1e9 * sum(s for _, s in self._seconds)))
            end = start + round(seconds * 1e9)
            _compile(log, "a function", start, end)
        if reasons := self.reasons:
            name = next((stack[0][2] for reason in reasons if (stack := reason.stack)), "a function")
            id = _compile(log, name, self._ns, self._ns)
            for number, reason in enumerate(reasons):
                if id is not None and log.takes_break():
                    log.emit(GraphBreak(self._ns, f"explained{number}", id, about_break(reason, name)))
        return bool(self._seconds or reasons)


def _of_object(printed: re.Match[str]) -> BreakReason | None:
    """The reason that a program has printed as Python writes it; None where no graph broke."""
    text = _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], printed["reason"])
    first, *rest = text.splitlines()
    if printed["returns"] or first == _RETURNS:
        return None
    why = [match[1] for line in rest if (match := _EXPLANATION.match(line))]
    stack = [_place(*frame) for frame in _IN_REASON.findall(printed["stack"])]
    return BreakReason(": ".join((first, *why)), [], stack, whole_frame=False)


def _place(file: str, line: str, name: str) -> tuple[str, int, str]:
    return file, int(line), whole_name(name)


def _compile(log: Log, name: str, start: int, end: int) -> str | None:
    if (id := log.new_compile()) is not None:
        about = about_unasked("dynamo", name) | {"identity": id}  # nothing is known of recompiles
        begin = Begin(start, about["function"], "torch", None, id, about)
        emit_whole(log.emit, begin, end, {"outcome": "compiled"})
    return id


def builtin_in(text: str) -> str | None:
    """The words of PyTorch's warning of a builtin that it cannot trace; None of another line. A diff's is another."""
    match = _BUILTIN.match(text) if "UserWarning: " in text else None
    return match["words"] if match is not None else None


def is_told_of(words: str, texts: Iterable[str]) -> bool:
    """Whether an error, or a report's reason, holds a warning's words, or is cut amid them."""
    return any(words in text or (text and words.startswith(text)) for text in texts)


def tell_of_builtins(log: Log, warned: Mapping[str, int], texts: Sequence[str]) -> bool:
    """Tell of each graph break that was warned of, of a compile that is not known; whether there are any."""
    untold = {words: ns for words, ns in warned.items() if not is_told_of(words, texts)}
    for number, (words, ns) in enumerate(untold.items()):
        if log.takes_break():
            about = about_break(BreakReason(words, [], [], whole_frame=False), "a function")
            log.emit(GraphBreak(ns, f"warned{number}", None, about))
    return bool(untold)


class TorchErrors:
    """Reads PyTorch's errors and reports, and vLLM's seconds, in the log of one process that has no more."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (*Errors.MARKS, *VllmLines.MARKS, *AutotuneLines.MARKS, *PrintedReports.MARKS,
                                          *MARKS_OF_BUILTINS, *SkipLines.MARKS)  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._errors, self._vllm = Errors(), VllmLines()
        self._tuned, self._printed, self._skips = AutotuneLines(), PrintedReports(), SkipLines()
        self._readers = (self._errors, self._vllm, self._tuned, self._printed, self._skips)
        self._builtins: dict[str, int] = {}

    @property
    def goes_on(self) -> bool:
        """Whether the next line may belong to an error."""
        return any(each.goes_on for each in self._readers)

    def read(self, line: Line) -> bool:
        """Take in a line."""
        if warned := builtin_in(line.text):
            self._builtins.setdefault(warned, line.ns)
            return True
        return any(each.read(line) for each in self._readers)

    def end(self) -> Seen | None:
        """Emit what failed, what vLLM compiled, and what reports hold."""
        failures = self._errors.end()
        for failure in failures:
            failure.emit(self._log)
        seen = self._vllm.emit(self._log) or bool(failures)
        seen |= self._printed.emit(self._log)
        seen |= self._tuned.emit(self._log, has_compiles=seen)
        texts = [failure.ending["error"] for failure in failures] + [row.reason for row in self._printed.reasons]
        seen |= tell_of_builtins(self._log, self._builtins, texts)
        seen |= self._skips.emit(self._log)
        return Seen("partial", None, [_ONLY_ERRORS], is_unasked=True) if seen else None
