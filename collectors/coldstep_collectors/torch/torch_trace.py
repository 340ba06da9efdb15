"""Reads PyTorch's structured trace (TORCH_TRACE), what tlparse reads: every compile with its phases, its tensors, what
made it compile again, and where its graph broke."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from coldstep import context as forms
from coldstep._util.slotted import slotted
from coldstep.events import Begin, End, Work
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.torch._private import artifacts, breaks, caches, limits, phases
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch.log_frames import Frame, Frames, in_words
from coldstep_collectors.values import dtype_text

_GUARDS = "dynamo_cpp_guards_str"
_WANTED = ("chromium_event", _GUARDS)
_ARTIFACTS = (artifacts.RECOMPILE_REASONS, artifacts.BREAK_REASON, artifacts.FAILED, "torch_version")
# PyTorch 2.9, 2.13: "| | +- EQUALS_MATCH: L['n'] == 1                    # return x * n  # train.py:6 in f"
_EQUALS = re.compile(r"[| ]*\+- EQUALS_MATCH: (.+?) == (.+?)(?:\s+# .*)?$")
# PyTorch 2.13: "| +- GLOBAL_STATE: ___check_global_state() against {"allow_bf16_reduce":0,"allow_tf32":false}"
_STATE = re.compile(r"[| ]*\+- GLOBAL_STATE: ___check_global_state\(\) against (\{.*\})")
# PyTorch 2.9, 2.13: "| | +- GuardManager: source=G['np'], accessed_by=DictGetItemGuardAccessor('np'), type=<class
# 'module'>, tag_safe=(False, False)"
_OBJECT = re.compile(
    r"[| ]*\+- GuardManager: source=([^,]+?), accessed_by=.* type=<class '(?P<type>module|slice|range)'>"
)
_GUARD_MARK = ("EQUALS_MATCH: ", "GLOBAL_STATE: ", "<class 'module'>", "<class 'slice'>", "<class 'range'>")
# PyTorch 2.9, 2.13: "L['batch']['x']"
_ARGUMENT = re.compile(r"L\['(?!self'\])[A-Za-z_]\w*'\](?:\[[^\[\]]+\])*")
# PyTorch 2.9, 2.13: "device(type='cuda', index=0)"
_DEVICE = re.compile(r"type='(\w+)'(?:, index=(\d+))?")
_MAX_TENSORS, _MAX_INPUTS = 10_000, 256
_MAX_PAYLOAD_CHARS = 1 << 24  # of one payload that are read
_ALWAYS = "what ran, and what Python did between compiles"
_VALUES = "Python values that no guard asked for"
_PHASES = "how long each phase of a compile took: the log has no spans of it (PyTorch 2.5 and newer write them)"
# PyTorch 2.9, 2.13: "torch/_dynamo/utils.py"
_OF_TORCH = re.compile(r"(?:.*/)?torch/")


@slotted
class _Span:
    """An open span of the compiler's."""

    name: str
    part: str | None
    frame: Frame | None
    begin: Begin
    around: Begin | None


class TorchTrace:
    """Reads the records of one process."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (b'] {"',)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._frames = Frames(log)
        self._profile = caches.Profile()
        self._files: dict[int, str] = {}
        self._tensors: dict[tuple[int, int], str] = {}
        self._record: dict[str, Any] | None = None
        self._payload: list[str] = []
        self._size = 0
        self._spans: list[_Span] = []
        self._waits: list[Begin] = []
        self._gpu = False
        self._elsewhere: list[tuple[str, int]] = []
        self._ns = 0  # of PyTorch's own events, which tell the time in UTC; the lines tell the machine's
        self._logged_ns = 0
        self._version: str | None = None
        self._untimed: dict[int, tuple[Frame, Begin]] = {}
        """Open compiles, by the number of the frame, that no span of PyTorch's own tells of."""
        self._were_untimed: set[str] = set()
        self._missing = dict.fromkeys([_ALWAYS, _VALUES])
        self._seen = self._cut = False
        self.goes_on = False

    def read(self, line: Line) -> bool:
        """Take in a record's head, or a line of its payload."""
        if self.goes_on and not line.source and line.text.startswith("\t"):
            self._keep(line.text[1:])
            return True
        self._finish_record()
        if not _OF_TORCH.match(line.source) or not line.text.startswith('{"'):
            return False
        try:
            record = json.loads(line.text)
        except ValueError:
            self._cut = self._seen = True
            return True
        self._seen, self._cut = True, False
        self._take(record, line.ns)
        return True

    def end(self) -> Seen | None:
        """Emit all compiles."""
        self._finish_record()
        if not self._seen or not self._frames.known:
            return None
        for wait in self._waits if self._gpu else ():
            wait.phase = "inductor.triton"
        for number in list(self._untimed):
            self._end_untimed(number, {})
        self._frames.finish()
        return Seen("attached", self._version, [*self._missing], ("inductor",), self._cut or bool(self._spans))

    # --- records ----------------------------------------------------------------------------------------------

    def _take(self, record: dict[str, Any], ns: int) -> None:
        self._logged_ns = ns
        name, about = next(iter(record.items()))
        if name == "str" and isinstance(about, list):
            self._files[int(about[1])] = str(about[0])
        elif not isinstance(about, dict):
            return
        elif name == "dynamo_start":
            self._start(record, about)
        elif name == "compilation_metrics":
            self._end_untimed(record.get("frame_id"), about)
        elif name == "describe_source":
            self._describe(record, about)
        elif name == "describe_tensor":
            if len(self._tensors) == _MAX_TENSORS:
                self._tensors.clear()  # a tensor's source comes right after it
            self._tensors[_tensor_key(about)] = _type(about)
            self._gpu |= "@" in self._tensors[_tensor_key(about)]
        elif name == "create_symbol":
            if (frame := self._frame(record)) is not None:
                self._frames.add_symbol(frame, str(about.get("source", "")), str(about.get("val", "")))
        elif name == "symbolic_shape_specialization":
            self._specialize(record, about)
        elif name in _WANTED or (name == "artifact" and about.get("name") in _ARTIFACTS):
            self._record, self.goes_on = record, "has_payload" in record

    def _keep(self, text: str) -> None:
        """A line of a payload: of the guards, of which there are megabytes, only those that are read."""
        if self._record is not None and _GUARDS in self._record and not any(mark in text for mark in _GUARD_MARK):
            return
        self._size += len(text)
        if self._size <= _MAX_PAYLOAD_CHARS:
            self._payload.append(text)

    def _finish_record(self) -> None:
        record, lines = self._record, self._payload
        self._record, self._payload, self._size, self.goes_on = None, [], 0, False
        if record is None:
            return
        if "chromium_event" in record:
            self._on_event(record, "\n".join(lines))
        elif _GUARDS in record:
            self._guards(record, lines)
        else:
            self._artifact(record, str(record["artifact"]["name"]), "\n".join(lines))

    def _artifact(self, record: Mapping[str, Any], name: str, payload: str) -> None:
        if name == "torch_version":
            self._version = str(_parsed(payload).get("pytorch_version") or "") or None
            return
        if (frame := self._frame(record)) is None:
            return
        if name == artifacts.FAILED:
            frame.failed_in = breaks.failed_in(payload)
        elif name == artifacts.RECOMPILE_REASONS:
            with contextlib.suppress(ValueError):
                if payload.startswith('"'):  # a single reason is a text in JSON, too
                    payload = str(json.loads(payload))
            frame.explain(artifacts.recompile_reasons(payload))
        elif (reason := breaks.break_reason(payload)) is not None:
            frame.breaks.append((self._ns or self._logged_ns, reason))

    def _frame(self, record: Mapping[str, Any]) -> Frame | None:
        numbers = _of_head(record)
        return self._frames.find(numbers) if numbers is not None else None

    def _start(self, record: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """The frame that is compiled, below those that called it."""
        frame = self._frame(record)
        if frame is None or frame.compile.id in self._were_untimed:
            frame = self._begin_untimed(record)
        stack = [self._place(entry) for entry in about.get("stack") or ()]
        if frame is None or not stack:
            return
        frame.file, frame.line, frame.name = stack[-1]
        frame.tells_sizes = True
        frame.stack = stack[:-1]

    def _begin_untimed(self, record: Mapping[str, Any]) -> Frame | None:
        """A compile begins of which no span tells: PyTorch had none yet, or it was in what the log has lost."""
        if (numbers := _of_head(record)) is None:
            return None
        self._end_untimed(numbers[0], {})
        if (frame := self._frames.begin(numbers, self._now_ns)) is not None:
            self._untimed[numbers[0]] = frame, self._frames.open(frame, "forward", self._now_ns)
            self._were_untimed.add(frame.compile.id)
            self._missing[_PHASES] = None
        return frame

    def _end_untimed(self, number: object, metrics: Mapping[str, Any]) -> None:
        pending = self._untimed.pop(number, None) if isinstance(number, int) else None
        if pending is not None:
            frame, begin = pending
            frame.ending.update(_ending(frame, metrics) if metrics else {"outcome": "in_progress"})
            self._log.emit(End(self._now_ns, begin, frame.ending))

    @property
    def _now_ns(self) -> int:
        return self._ns or self._logged_ns

    def _place(self, entry: Mapping[str, Any]) -> tuple[str, int, str]:
        file = self._files.get(entry.get("filename", -1), "")
        return file, int(entry.get("line", 0)), str(entry.get("name", ""))

    # --- what was compiled ------------------------------------------------------------------------------------

    def _describe(self, record: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        frame, type_ = self._frame(record), self._tensors.get(_tensor_key(about))
        source = str(about.get("source", ""))
        if frame is None or type_ is None:
            return
        if _ARGUMENT.fullmatch(source) and len(frame.inputs) < _MAX_INPUTS:
            frame.inputs[source] = type_
        elif in_words(source) in frame.asked:
            frame.values[in_words(source)] = type_

    def _specialize(self, record: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        if (frame := self._frame(record)) is not None and str(about.get("value", "")).isdigit():
            for source in about.get("sources") or ():
                self._frames.remove_symbol(frame, *self._frames.symbol(str(source)))

    def _guards(self, record: Mapping[str, Any], lines: list[str]) -> None:
        """The constants that the graph holds, by the guards on them; the modes it was compiled under."""
        if (frame := self._frame(record)) is None:
            return
        for line in lines:
            if match := _EQUALS.match(line):
                path = in_words(match[1])
                if path in frame.asked:
                    frame.values.setdefault(path, match[2])
            elif match := _OBJECT.match(line):
                path = in_words(match[1])
                if any(asked.startswith(f"{path}.") for asked in frame.asked):
                    frame.objects[path] = match["type"]
            elif match := _STATE.match(line):
                frame.modes |= _modes(_parsed(match[1]))

    # --- spans ------------------------------------------------------------------------------------------------

    def _on_event(self, record: Mapping[str, Any], payload: str) -> None:
        event = _parsed(payload)
        kind, name, args = event.get("ph"), str(event.get("name", "")), event.get("args") or {}
        if not isinstance(event.get("ts"), (int, float)):
            self._cut = True
            return
        self._ns = ns = max(self._ns, round(event["ts"] * 1000))
        if (numbers := _numbers(args.get("compile_id"))) is not None:
            numbers = _of_head(record) or numbers
        if numbers is None and name == "compile_file":  # a compiler that a pool's thread waits for
            self._work(kind, name, ns)
        elif kind == "B":
            self._begin(name, numbers, ns)
        elif kind == "E":
            self._end(name, ns, args)
        elif numbers is not None and (frame := self._frames.find(numbers)) is not None:
            frame.hear_of_cache(name, args, self._frames.components)

    def _begin(self, name: str, numbers: tuple[int, int] | None, ns: int) -> None:
        part = phases.part_of(name)
        frame = self._frames.find(numbers) if numbers is not None else None
        if part == "forward" and numbers is not None:
            frame = self._frames.begin(numbers, ns)
        enclosing = next((span for span in reversed(self._spans) if span.frame is not None), None)
        within = enclosing is not None and (enclosing.frame, enclosing.part) == (frame, part)
        around = None
        begin = Begin(ns, name, "torch", phases.phase_of(name, [span.name for span in self._spans]))
        if name == phases.WAIT:
            begin.phase = "inductor.cpp"
            self._waits.append(begin)
        if part is not None and frame is not None and not within:
            around = self._frames.open(frame, part, ns)
        self._log.emit(begin)
        self._spans.append(_Span(name, part, frame if around is not None else None, begin, around))

    def _end(self, name: str, ns: int, args: Mapping[str, Any]) -> None:
        if not any(span.name == name for span in self._spans):
            return
        frame = next((span.frame for span in reversed(self._spans) if span.frame is not None), None)
        if frame is not None and (answer := self._profile.answer(name, args)) is not None:
            frame.compile.add_cache(answer)
        is_own = False
        while not is_own:
            span = self._spans.pop()
            is_own = span.name == name
            self._log.emit(End(ns, span.begin))
            if span.around is not None and span.frame is not None:
                if is_own and phases.part_of(name) == "forward":
                    span.frame.ending.update(_ending(span.frame, args))
                self._log.emit(End(ns, span.around, span.frame.ending))

    def _work(self, kind: object, name: str, ns: int) -> None:
        if kind == "B":
            self._elsewhere.append((name, ns))
        elif kind == "E" and self._elsewhere:
            _, start = self._elsewhere.pop(0)
            self._log.emit(Work(start, ns, 0, "C++ compiler", phases.phase_of(name, ()), {}))


def _ending(frame: Frame, args: Mapping[str, Any]) -> dict[str, Any]:
    """How a frame's compile ended, by what PyTorch says of it at the end of its span."""
    ending: dict[str, Any] = {}
    reason = args.get("fail_reason")
    if limits.is_limit(args, None):
        ending |= {"outcome": "limit", "error": str(reason)[:2000], "fullgraph": limits.is_hard_limit(args, None)}
    elif args.get("fail_type"):
        broke = any(each.whole_frame for _, each in frame.breaks)
        ending |= {"outcome": "skipped"} if broke else {"outcome": "failed", "error": str(reason)[:2000]}
        frame.failure = None if broke else _failure(frame, str(reason))
    else:
        ending["outcome"] = "compiled" if args.get("graph_op_count") else "skipped"
    if isinstance(operations := args.get("graph_op_count"), int):
        ending["operations"] = {"fx": operations}
    return ending


def _failure(frame: Frame, reason: str) -> BreakReason | None:
    """What a compile failed of, if it is said in the words of a graph break, which tell no stack."""
    broken = breaks.break_reason(reason) if "Explanation:" in reason and frame.failed_in else None
    if broken is not None:
        broken.stack, broken.inlined = breaks.joined([*frame.stack, *frame.failed_in]), len(frame.failed_in)
    return broken


def _of_head(record: Mapping[str, Any]) -> tuple[int, int] | None:
    """The numbers of the compile that a record is about."""
    frame_id, number = record.get("frame_id"), record.get("frame_compile_id")
    return (frame_id, number) if isinstance(frame_id, int) and isinstance(number, int) else None


def _numbers(text: object) -> tuple[int, int] | None:
    match = re.match(r"(?:!\d*/?)?(\d+)/(\d+)", text) if isinstance(text, str) else None
    return (int(match[1]), int(match[2])) if match else None


def _tensor_key(about: Mapping[str, Any]) -> tuple[int, int]:
    return int(about.get("describer_id", 0)), int(about.get("id", 0))


def _type(about: Mapping[str, Any]) -> str:
    """A tensor's abstract value."""
    size, stride = list(about.get("size") or ()), list(about.get("stride") or ())
    words = [f"{dtype_text(about.get('dtype', ''))}[{','.join(map(str, size))}]"]
    if stride and not _is_contiguous(size, stride):
        words.append(f"stride({','.join(map(str, stride))})")
    if about.get("requires_grad"):
        words.append("requires_grad")
    if (device := _DEVICE.search(str(about.get("device", "")))) is not None and device[1] != "cpu":
        words.append(f"@{device[1]}" + (f":{device[2]}" if device[2] else ""))
    return " ".join(words)


def _is_contiguous(size: list[int], stride: list[int]) -> bool:
    expected = 1
    for length, step in zip(reversed(size), reversed(stride), strict=False):
        if length == 0:
            return True
        if length != 1 and step != expected:
            return False
        expected *= length
    return True


def _modes(state: Mapping[str, Any]) -> dict[str, str]:
    """The modes that the collector tells, of PyTorch's own list of them."""
    modes = {}
    if isinstance(on := state.get("grad_mode"), bool):
        modes[forms.GRAD_MODE.key()] = "on" if on else "off"
    if isinstance(threads := state.get("num_threads"), int):
        modes[forms.CONFIG.key("num_threads")] = str(threads)
    return modes


def _parsed(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
