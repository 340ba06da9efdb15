"""Shows what Python did where no hook reaches: stacks sampled from outside by py-spy, under the threads they are of."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from queue import Empty, SimpleQueue
from types import FunctionType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep._util.stderr import say
from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import CallStacks, ThreadCallStacks

_RATE_HZ = 100  # samples a second
_MAX_RUN_S = 600
_MAX_FRAMES = 100_000
_MAX_FILE_BYTES = 1 << 26
_ANCHOR = "coldstep_clock_anchor"
_ANCHOR_S = 0.05
_ANCHOR_EVERY_S = 1.0
_BEGINS_WITHIN_S = 5.0
_LOOKS_EVERY_S = 0.01
_SAMPLES = "Sampling process"
_ENDS_WITHIN_S = 20.0
_EVERY_S = 0.1
_MAX_TEXT_CHARS = 300
# py-spy 0.4: "thread (31): MainThread"
_THREAD = expression(r"thread \((\d+)\): (.*)|thread \((\d+)\)", re.DOTALL)
_TRACE_ME, _ANYBODY, _NOBODY = 0x59616D61, -1, 0  # PR_SET_PTRACER, PR_SET_PTRACER_ANY
# py-spy 0.4: "Permission Denied: Try running again with elevated permissions"
_REFUSED = expression(r"permission denied|operation not permitted", re.IGNORECASE)
_NO_PTRACE = (
    "this process may not be looked into; ptrace has to be allowed "
    "(in a container --cap-add SYS_PTRACE, else kernel.yama.ptrace_scope=0)"
)


@slotted
class _Open:
    """A frame that is on a thread's stack."""

    ts: int
    name: str
    file: str
    line: int


@slotted
class _Seen:
    """What py-spy saw of one thread: (begin, end, depth, name, file, line), its microseconds."""

    tid: int = 0
    thread: str = ""
    stack: list[_Open] = field(default_factory=list)
    frames: list[tuple[int, int, int, str, str, int]] = field(default_factory=list)


class PySpy:
    """The collector `stacks`: runs py-spy on this process until the block ends, and then reads what it wrote."""

    name = "stacks"
    samples_stacks = True

    def start(self, sink: Sink) -> None:
        """Have py-spy begin, and wait until it samples; whatever keeps it from that is one note."""
        self._sink = sink
        self._anchors: dict[str, tuple[int, int]] = {}
        self._alive: dict[int, int] = {}  # when each thread was last seen to live: py-spy does not say when one ends
        self._requests: SimpleQueue[None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = OwnThread("coldstep-stacks", self._watch)
        if (program := shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")) is None:
            self._cannot("py-spy is not installed (pip install 'coldstep[stacks]')")
            return
        self._folder = tempfile.mkdtemp(prefix="coldstep-")
        self._file, self._log = (os.path.join(self._folder, name) for name in ("stacks.json", "log"))
        command = [program, "record", "--pid", str(os.getpid()), "--nonblocking", "--idle", "--threads", "--function"]
        command += ["--full-filenames", "--rate", str(_RATE_HZ), "--duration", str(_MAX_RUN_S)]
        command += ["--format", "chrometrace", "--output", self._file]
        _allow(_ANYBODY)  # its process id is not known before it may look
        try:
            with open(self._log, "wb") as log:
                # its own session: Ctrl-C is for the program, whose end we tell it ourselves
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._cannot(f"py-spy did not start: {error.strerror}")
            return
        finally:
            _allow(self._process.pid if self._process else _NOBODY)
        self._await_samples(self._process)
        self._watcher.start()

    def stop(self) -> list[str]:
        """End py-spy, and hand over what it saw."""
        if (process := self._process) is None:
            return []
        try:
            self._requests.put(None)
            self._watcher.wait(_ENDS_WITHIN_S)
            process.send_signal(signal.SIGINT)
            process.wait(_ENDS_WITHIN_S)
            if process.returncode == 0 and self._anchors:
                self._hand_over()
            else:
                self._cannot(self._said())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._cannot("py-spy did not end in time")
        finally:
            _allow(_NOBODY)
            shutil.rmtree(self._folder, ignore_errors=True)
        return []

    def _cannot(self, why: str) -> None:
        self._sink.state(self.name, "absent", None, [why])
        self._sink.note(f"No stacks were sampled: {why}.")
        say(f"no stacks will be sampled: {why}")  # while there is time to start again with them

    def _await_samples(self, process: subprocess.Popen[bytes]) -> None:
        """What is asked for is seen from the first line on: on a busy machine py-spy takes a while to begin."""
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while process.poll() is None and _SAMPLES not in self._said() and time.monotonic() < deadline:
            time.sleep(_LOOKS_EVERY_S)

    def _watch(self) -> None:
        """Until the block ends: see which threads live, and show py-spy things whose time is known."""
        process, again = self._process, 0.0
        while process is not None and process.poll() is None:
            ns = now()
            self._alive |= dict.fromkeys(map(int, os.listdir("/proc/self/task")), ns)
            if not self._anchors and _SAMPLES in self._said():
                self._sink.state(self.name, "attached", None, [])
                self._anchor()
                again = time.monotonic() + _ANCHOR_EVERY_S
            elif self._anchors and time.monotonic() > again:
                self._anchor()
                again = time.monotonic() + _ANCHOR_EVERY_S
            try:
                self._requests.get(timeout=_EVERY_S)
            except Empty:
                continue
            if self._anchors:
                self._anchor()
            return

    def _said(self) -> str:
        """What py-spy has printed, in one line."""
        try:
            with open(self._log, errors="replace") as log:
                lines = [line.strip() for line in log if line.strip()]
        except OSError:
            return ""
        words = " ".join(lines).removeprefix("Error: ").partition(" Stack backtrace:")[0]
        if _REFUSED.search(words):
            return _NO_PTRACE
        return words[:_MAX_TEXT_CHARS] or "the block ended before it had begun"

    def _anchor(self) -> None:
        name = f"{_ANCHOR}_{len(self._anchors)}"
        # under a name of its own, since a sampler that is late misses some
        code = _anchor.__code__.replace(co_name=name, co_qualname=name)
        time.sleep(_ANCHOR_S)
        self._anchors[name] = FunctionType(code, globals())()
        time.sleep(_ANCHOR_S)

    # --- reading ----------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        if os.path.getsize(self._file) > _MAX_FILE_BYTES:
            self._cannot(f"py-spy wrote more than {_MAX_FILE_BYTES >> 20} MiB")
            return
        import json  # here: most traces sample nothing

        with open(self._file) as file:
            threads = _threads(json.load(file))
        if (clock := _clock(threads, self._anchors)) is None:
            self._cannot("the samples could not be placed on this process's clock")
            return
        offset_ns, bound_ns = clock
        seen = [thread for thread in threads if not thread.thread.startswith("coldstep-")]
        living = max(self._alive.values(), default=0)
        for thread in seen:
            if 0 < (last := self._alive.get(thread.tid, 0)) < living:
                _end(thread, (last - offset_ns) // 1000)
        dropped = _bound(seen)
        modules = _Modules()
        self._sink.emit(
            CallStacks(
                now(),
                bound_ns,
                [
                    ThreadCallStacks(
                        thread.tid,
                        thread.thread,
                        [
                            (begin * 1000 + offset_ns, end * 1000 + offset_ns, name, modules.of(file), file, line)
                            for begin, end, _, name, file, line in thread.frames
                        ],
                    )
                    for thread in seen
                ],
                dropped,
            )
        )


def _anchor() -> tuple[int, int]:
    """Be on the stack from one known time to another."""
    begin = now()
    time.sleep(_ANCHOR_S)
    return begin, now()


def _allow(pid: int) -> None:
    """Let that process look into this one, where the kernel lets only ancestors do so."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            if file.read().strip() != "1":
                return
        import ctypes

        ctypes.CDLL(None).prctl(_TRACE_ME, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError, ImportError):
        return


def _threads(events: list[dict[str, Any]]) -> list[_Seen]:
    """The frames of each thread, outermost first among those that begin together."""
    threads: dict[int, _Seen] = {}
    last = 0
    for event in events:
        seen = threads.setdefault(int(event["tid"]), _Seen())
        ts, name, args = int(event["ts"]), str(event["name"]), event.get("args") or {}
        last = max(last, ts)
        if event["ph"] == "B":
            seen.stack.append(_Open(ts, name, str(args.get("filename") or ""), int(args.get("line") or 0)))
        elif seen.stack:
            _close(seen, ts)
    for seen in threads.values():
        while seen.stack:
            _close(seen, last)
        seen.frames.sort(key=lambda frame: (frame[0], frame[2]))
    return [seen for seen in threads.values() if seen.tid]


def _close(seen: _Seen, ts: int) -> None:
    top = seen.stack.pop()
    match = _THREAD.fullmatch(top.name)
    if match and not seen.stack:
        seen.tid, seen.thread = int(match[1] or match[3]), match[2] or ""
    elif ts > top.ts:
        seen.frames.append((top.ts, ts, len(seen.stack), top.name, top.file, top.line))


def _clock(threads: list[_Seen], anchors: dict[str, tuple[int, int]]) -> tuple[int, int] | None:
    """What to add to py-spy's time (in ns) for ours, and how far that may be off; None where it saw no anchor.

    A frame is first seen at the first sample after it began, and gone at the first after it ended, which is later the
    busier the machine is: the end that was seen soonest is off by less than a sample's distance, the others by what
    they differ from it.
    """
    period_ns = 1_000_000_000 // _RATE_HZ
    offsets = [
        true - sampled * 1000
        for thread in threads
        for frame in thread.frames
        if frame[3] in anchors
        for true, sampled in zip(anchors[frame[3]], frame[:2], strict=True)
    ]
    if not offsets:
        return None
    return max(offsets) + period_ns // 2, max(max(offsets) - min(offsets), period_ns)


def _end(thread: _Seen, ts: int) -> None:
    """Cut off what py-spy says of a thread that had ended by then."""
    thread.frames = [(frame[0], min(frame[1], ts), *frame[2:]) for frame in thread.frames if frame[0] < ts]


def _bound(threads: list[_Seen]) -> int:
    """Drop the oldest frames, whole, until there are no more than may be; how many."""
    total = sum(len(thread.frames) for thread in threads)
    if total <= _MAX_FRAMES:
        return 0
    begins = sorted(frame[0] for thread in threads for frame in thread.frames)
    since = begins[total - _MAX_FRAMES]
    for thread in threads:
        thread.frames = [frame for frame in thread.frames if frame[0] >= since]
    return total - sum(len(thread.frames) for thread in threads)


class _Modules:
    """The names of modules by their files."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        for name, module in sys.modules.copy().items():  # as in `own_package`
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name not in ("__main__", "__mp_main__"):
                self._known.setdefault(file, name)

    def of(self, file: str) -> str:
        """`torch._inductor.sizevars`; the name of a file that is no module's; code that is in no file is in angles."""
        if module := self._known.get(file):
            return module
        in_file = os.path.isabs(file) or file.startswith("<")
        return os.path.basename(file).removesuffix(".py") if in_file else "<generated>"
