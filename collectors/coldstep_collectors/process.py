"""Shows the process itself: memory, CPU and threads over time, and what other processes worked for it."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from queue import Empty, SimpleQueue
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from coldstep import threads
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Args, Counter, Work
from coldstep.expressions import expression
from coldstep.pftrace.layout import AVAILABLE, DEVICE, DEVICE_PEAK, NOT_TRACED, RSS
from coldstep.slotted import slotted
from coldstep_collectors import proc
from coldstep_collectors._private.jax_started import backend_started, process_index

if TYPE_CHECKING:
    import subprocess

_EVERY_S = 0.1
_CHILDREN_EVERY_S = 1.0
_SHARE_FOR_CHILDREN = 0.01  # of a processor: a scan reads the state of every process of the machine
_STEP_BYTES = 1 << 20  # what moves a memory curve
_STEP_CORES = 0.1
_VIRTUAL, _DATA = 0, 5  # as proc(5) orders statm; the latter counts the stack, too
_BUSY_CORES = 0.1  # of a processor: from there on a pool's worker is at work
_MAX_COMMAND_CHARS = 500
# Debian 12: "x86_64-linux-gnu-g++-12"
_CPP = expression(r"(?:.*-)?(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?|icpx|nvcc)(?:-[\d.]+)?")
_GPU = ("ptxas", "ptxas-blackwell", "nvlink", "cicc", "fatbinary", "cuobjdump", "lld", "ld.lld")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")  # in the command of what runs no code
_POOL = "compile_worker"  # in the command of the pool in which Inductor has Triton's kernels compiled


@slotted
class _Child:
    """A process below this one, while it runs."""

    pid: int
    begin_ns: int
    name: str
    phase: str | None
    command: str | None
    parent: int
    pool: bool = False
    popen: bool = False
    cpu_ns: int | None = None
    busy_since: int | None = None  # of a pool's worker: since when it has been using its processor
    busy_cpu_ns: int = 0
    seen_ns: int = 0


class Process:
    """The collector `process`. All sampling is done on a thread of its own, 10 times a second."""

    name = "process"

    def __init__(self) -> None:
        self._requests: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="coldstep-process", daemon=True)
        self._children: dict[int, _Child] = {}
        self._pythons = 0  # children that run the user's own Python
        self._last: dict[str, float] = {}
        self._cpu = 0, 0
        self._undo: list[Callable[[], str | None]] = []
        self._limits: list[tuple[str, Callable[[], int], int]] = []
        self._devices: list[Callable[[], Iterator[tuple[str, int, int | None]]]] = []

    def start(self, sink: Sink) -> None:
        """Watch `subprocess.Popen`, and begin to sample."""
        self._sink = sink
        self._limits = list(_limits())
        self._cpu = time.process_time_ns(), now()
        sink.when_imported("subprocess", self._watch_popen)
        sink.when_imported("torch", lambda torch: self._devices.append(lambda: _cuda(torch)))
        sink.when_imported("jax", lambda jax: self._devices.append(lambda: _jax_devices(jax)))
        sink.state(self.name, "attached", None, [])
        threads.start(self._thread)

    def stop(self) -> list[str]:
        """Sample once more, tell of the children that still run, and let go of Popen."""
        self._requests.put(None)
        if self._thread.is_alive():  # it may not have begun
            self._thread.join(5)
        self._sink.guarded(self.name, self._finish)()
        return [words for undo in self._undo if (words := undo()) is not None]

    def _watch_popen(self, subprocess: ModuleType) -> None:
        guarded = self._sink.guarded
        self._undo.append(
            _around_popen(subprocess.Popen, guarded(self.name, self._began), guarded(self.name, self._ended))
        )

    def rank(self) -> int | None:
        """This process's rank, where torch.distributed or jax.distributed was started."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return process_index()

    # --- sampling ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        sample = self._sink.guarded(self.name, self._sample)
        scan = self._sink.guarded(self.name, self._scan)
        next_scan = 0.0
        while True:
            sample()
            if time.monotonic() >= next_scan:
                before = time.thread_time()
                scan()
                pause = max(_CHILDREN_EVERY_S, (time.thread_time() - before) / _SHARE_FOR_CHILDREN)
                next_scan = time.monotonic() + pause
            try:
                self._requests.get(timeout=_EVERY_S)
                return
            except Empty:
                continue

    def _sample(self) -> None:
        try:
            me = proc.stat("self")
            cpu, ns = time.process_time_ns(), now()
            used, since = self._cpu
            self._cpu = cpu, ns
            self._curve(RSS, me.rss_bytes, "bytes", _STEP_BYTES)
            self._curve("CPU", round((cpu - used) / max(1, ns - since), 2), "cores", _STEP_CORES)
            self._curve("threads", me.threads, "threads", 1)
            for limit, left, step in self._limits:
                self._curve(f"{AVAILABLE}{limit}", left(), "bytes", step)
            for devices in self._devices:
                for device, in_use, peak in devices():
                    self._curve(f"{DEVICE}{device}", in_use, "bytes", _STEP_BYTES)
                    if peak is not None:
                        self._curve(f"{DEVICE_PEAK}{device}", peak, "bytes", 1)
            for child in list(self._children.values()):
                if child.popen or child.pool:
                    self._look_at(child)
        except MemoryError:
            return  # there may be room again at the next sample, and the end of this is what will be asked about

    def _curve(self, name: str, value: float, unit: str, step: float) -> None:
        last = self._last.get(name)
        if last is None or abs(value - last) >= step:
            self._last[name] = value
            self._sink.emit(Counter(now(), name, value, unit))

    # --- children ---------------------------------------------------------------------------------------------

    def _began(self, popen: subprocess.Popen[Any], args: object, begin_ns: int, frame: FrameType) -> None:
        words = _words(args)
        name = os.path.basename(words[0]) if words else "process"
        inductor = _called_by_inductor(frame)
        pool = inductor and any(_POOL in word for word in words)
        phase = None if pool or not inductor else "inductor.triton" if name in _GPU else "inductor.cpp"
        self._pythons += not inductor and _runs_python(words)
        command = " ".join(words)[:_MAX_COMMAND_CHARS] if inductor else None
        child = _Child(popen.pid, begin_ns, "worker pool" if pool else name, phase, command, os.getpid())
        child.popen, child.pool = True, pool
        self._children[popen.pid] = child

    def _ended(self, popen: subprocess.Popen[Any]) -> None:
        child = self._children.pop(popen.pid, None)
        if child is not None:
            self._tell(child, now(), popen.returncode)

    def _scan(self) -> None:
        began = now()
        try:
            # fails where there is no child at all, which is much quicker than a look at every process
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            found = proc.below(os.getpid())
        except ChildProcessError:
            found = []
        alive = {row.pid for row in found}
        for row in found:
            if row.pid not in self._children:
                self._discover(row)
            elif not self._children[row.pid].popen:
                self._measure(self._children[row.pid], row.cpu_ns)
        for child in list(self._children.values()):
            # gone, unseen by Popen: an end known to the second
            if child.pid not in alive and child.begin_ns < began and self._children.pop(child.pid, None) is not None:
                self._tell(child, began, None)

    def _discover(self, row: proc.Stat) -> None:
        above = self._children.get(row.parent)
        in_pool = above is not None and above.pool
        begin_ns = now() - row.age_ns
        try:
            name = proc.whole_name(row)
            if _CPP.fullmatch(name) or name in _GPU:
                words = proc.words(row.pid)
                pool = any(_POOL in word for word in words)
            else:
                words, pool = [], in_pool and name.startswith("python")
                self._pythons += not in_pool and _runs_python(proc.words(row.pid))
        except OSError:
            return  # gone already
        phase = None
        if words and not pool:
            gpu = "inductor.triton" if in_pool else "xla.compile"
            phase = gpu if name in _GPU else "inductor.cpp" if in_pool else None
        command = " ".join(words)[:_MAX_COMMAND_CHARS] or None
        child = _Child(row.pid, begin_ns, "pool worker" if pool else name, phase, command, row.parent, pool)
        self._children[row.pid] = child
        self._measure(child, row.cpu_ns)

    def _look_at(self, child: _Child) -> None:
        with contextlib.suppress(OSError):  # gone already
            self._measure(child, proc.stat(child.pid).cpu_ns)

    def _measure(self, child: _Child, cpu: int) -> None:
        ns = now()
        if child.pool and child.cpu_ns is not None and child.seen_ns:
            busy = cpu - child.cpu_ns >= _BUSY_CORES * (ns - child.seen_ns)
            if busy and child.busy_since is None:
                child.busy_since, child.busy_cpu_ns = child.seen_ns, child.cpu_ns
            elif not busy and child.busy_since is not None:
                self._tell_busy(child, child.seen_ns)
        child.cpu_ns, child.seen_ns = cpu, ns

    def _tell(self, child: _Child, end_ns: int, exit_code: int | None) -> None:
        above = self._children.get(child.parent)
        if above is not None and above.phase is not None:
            return  # a compiler's own helper: its time is the compiler's
        if child.pool:
            if child.busy_since is not None:
                self._tell_busy(child, end_ns)
            if exit_code in (None, 0):
                return  # it slept in between
        args: Args = {"command": child.command, "cpu_ns": child.cpu_ns, "exit_code": exit_code}
        self._sink.emit(Work(child.begin_ns, end_ns, child.pid, child.name, None if child.pool else child.phase, args))
        if exit_code is not None and exit_code < 0 and (child.phase or child.pool):
            self._sink.note(f"{child.name} (process {child.pid}) was killed by signal {-exit_code}")

    def _tell_busy(self, child: _Child, end_ns: int) -> None:
        if child.busy_since is not None:
            args: Args = {"cpu_ns": (child.cpu_ns or 0) - child.busy_cpu_ns}
            self._sink.emit(Work(child.busy_since, end_ns, child.pid, child.name, "inductor.triton", args))
            child.busy_since = None

    def _finish(self) -> None:
        self._last.clear()
        self._sample()
        if self._pythons:
            ran = " ran below this one and is" if self._pythons == 1 else "es ran below this one and are"
            self._sink.note(f"{self._pythons} {NOT_TRACED}{ran} not traced: what was compiled there, and what a wait "
                            "for it was for, is not known.")  # fmt: skip
        ns = now()
        for child in list(self._children.values()):
            self._tell(child, ns, None)
        self._children.clear()


def _around_popen(
    popen: Any, began: Callable[[Any, object, int, FrameType], None], ended: Callable[[Any], None]
) -> Callable[[], str | None]:
    """Call `began` for every process started through `subprocess.Popen`, and `ended` when its end is known there."""
    init, poll, wait = popen.__init__, popen.poll, popen.wait

    @wraps(init)
    def started(self: Any, args: object, *rest: Any, **options: Any) -> None:
        ns = now()
        init(self, args, *rest, **options)
        began(self, args, ns, sys._getframe(1))

    @wraps(poll)
    def polled(self: Any) -> Any:
        running = self.returncode is None
        result = poll(self)
        if running and result is not None:
            ended(self)
        return result

    @wraps(wait)
    def waited(self: Any, *args: Any, **options: Any) -> Any:
        running = self.returncode is None
        result = wait(self, *args, **options)
        if running and result is not None:
            ended(self)
        return result

    ours = {"__init__": started, "poll": polled, "wait": waited}
    real = {"__init__": init, "poll": poll, "wait": wait}
    for name, hook in ours.items():
        setattr(popen, name, hook)

    def undo() -> str | None:
        kept = [name for name, hook in ours.items() if getattr(popen, name) is not hook]
        for name in ours.keys() - kept:
            setattr(popen, name, real[name])
        return f"wrappers of Popen.{', Popen.'.join(kept)}, which other wrappers call" if kept else None

    return undo


def _words(args: object) -> list[str]:
    """A command as Popen takes it, as texts."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return os.fsdecode(args).split()
    if isinstance(args, Sequence):
        return [os.fsdecode(word) for word in args if isinstance(word, (str, bytes, os.PathLike))]
    return []


def _runs_python(words: Sequence[str]) -> bool:
    """Whether a command is Python's, and no helper of multiprocessing."""
    python = bool(words) and os.path.basename(words[0]).startswith("python")
    return python and not any(helper in word for helper in _HELPERS for word in words)


def _called_by_inductor(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("torch._inductor", "triton.")):
            return True
        frame = frame.f_back
    return False


# --- memory -------------------------------------------------------------------------------------------------------


def _limits() -> Iterator[tuple[str, Callable[[], int], int]]:
    """Each limit that the process stands under, what is left of it, and what change of that is worth a point."""
    for name, used in (("RLIMIT_AS", _VIRTUAL), ("RLIMIT_DATA", _DATA)):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY:
            yield f"under {name}", partial(_left_below, limit, used), _STEP_BYTES
    if (left := _left_in_cgroup()) is not None:
        yield "in the cgroup", left, _STEP_BYTES
    yield "on the machine", proc.available_bytes, proc.total_bytes() // 100


def _left_below(limit: int, used: int) -> int:
    with open("/proc/self/statm", "rb") as file:
        return limit - int(file.read().split()[used]) * resource.getpagesize()


def _left_in_cgroup() -> Callable[[], int] | None:
    """What is left in the innermost cgroup with a limit; None where none has one."""
    for folder, most, used, cache in _cgroups():
        try:
            text = _text(os.path.join(folder, most)).strip()
        except OSError:
            continue
        if text.isdigit() and (limit := int(text)) < 1 << 60:  # without one it says max, or a number near 2**63
            return partial(cgroup_left, limit, os.path.join(folder, used), os.path.join(folder, "memory.stat"), cache)
    return None


def cgroup_left(limit: int, usage: str, stat: str, cache: str) -> int:
    """What is left of a cgroup's limit, by its files and the name of the cache in them that would be given back."""
    return limit - _used(usage, stat, cache)


def _cgroups() -> Iterator[tuple[str, str, str, str]]:
    """The memory cgroups above this process, innermost first: folder, and the names in it."""
    try:
        lines = _text("/proc/self/cgroup").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = "/sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = "/sys/fs/cgroup/memory"
        else:
            continue
        folders = [name for name in path.split("/") if name]
        for depth in range(len(folders), -1, -1):
            yield (os.path.join(root, *folders[:depth]), *names)


def _used(usage: str, stat: str, cache: str) -> int:
    """What a cgroup uses, less what the kernel would give back first."""
    used = int(_text(usage))
    for line in _text(stat).splitlines():
        if line.startswith(f"{cache} "):
            return used - int(line.split()[1])
    return used


def _text(file: str) -> str:
    with open(file) as opened:
        return opened.read()


def _cuda(torch: Any) -> Iterator[tuple[str, int, int | None]]:
    """Device, bytes in use and their peak, of torch's allocator on each CUDA device that is in use."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    for index in range(cuda.device_count()):
        # memory_stats() flattens some hundred figures in Python, ten times a second beside the training
        stats = cuda.memory_stats_as_nested_dict(index).get("allocated_bytes", {}).get("all", {})
        if in_use := stats.get("current"):
            yield f"cuda:{index} (torch)", int(in_use), stats.get("peak")


def _jax_devices(jax: Any) -> Iterator[tuple[str, int, int | None]]:
    """The same of each of JAX's devices whose backend keeps count; a CPU's does not."""
    if backend_started():
        for device in jax.local_devices():
            if stats := device.memory_stats():
                name = f"{device.platform}:{device.id} (JAX)"
                yield name, int(stats.get("bytes_in_use", 0)), stats.get("peak_bytes_in_use")
