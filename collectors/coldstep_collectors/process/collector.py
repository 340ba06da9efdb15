"""Shows the process itself: memory, CPU and threads over time, and what other processes worked for it."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.collector import SessionSink
from coldstep.events import Counter
from coldstep.pftrace.layout import AVAILABLE, DEVICE, DEVICE_PEAK, READ, RSS
from coldstep_collectors.proc import read_bytes
from coldstep_collectors.process import memory
from coldstep_collectors.process.children import Children
from coldstep_collectors.process.lines import LineSampler
from coldstep_collectors.process.waits import WaitLooker

_EVERY_S = 0.1
_CHILDREN_EVERY_S = 0.4
_SHARE_FOR_CHILDREN = 0.01  # of a processor: a scan reads the state of every process of the machine
_STEP_BYTES = 1 << 20  # what moves a memory curve
_STEP_CORES = 0.1
_VIRTUAL, _DATA = 0, 5  # as proc(5) orders statm; the latter counts the stack, too


class Process:
    """The collector `process`. All sampling is done on a thread of its own, 10 times a second."""

    name = "process"

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._devices: list[Callable[[], Iterator[tuple[str, int, int | None]]]] = []

    def start(self, sink: SessionSink) -> None:
        """Watch what starts processes, and begin to sample."""
        self._sink = sink
        self._below = Children(sink, self.name)
        self._prepare()  # all that `stop` asks, before anything is hooked: it may be interrupted here
        self._below.watch()
        self._lines.start()
        sink.when_imported("torch", lambda torch: self._devices.append(lambda: _cuda(torch)))
        sink.when_imported("jax", lambda jax: self._devices.append(lambda: _jax_devices(jax)))
        sink.state(self.name, "attached", None, [])
        self._thread.start()

    def begin_in_fork(self) -> None:
        """Sample this process, in which neither a thread of its parent's nor a child of it is."""
        self._below.begin_anew()
        self._last.clear()
        self._prepare()
        self._lines.start()
        self._thread.start()

    def _prepare(self) -> None:
        self._thread = OwnThread("coldstep-process", self._run)
        self._lines = LineSampler(self._sink)
        self._waits = WaitLooker(self._sink, self._below.cpu)
        self._limits: list[tuple[str, Callable[[], int], int]] = list(_limits())
        self._cpu = time.process_time_ns(), now()
        self._requests: SimpleQueue[None] = SimpleQueue()  # the last: `stop` asks for it first

    def stop(self) -> list[str]:
        """Sample once more, report the children that still run, and let go of Popen."""
        self._requests.put(None)
        self._lines.stop()
        self._thread.wait(5)
        self._waits.stop()
        self._sink.guarded(self.name, self._finish)()
        return self._below.unwatch()

    def rank(self) -> int | None:
        """This process's rank, where torch.distributed or jax.distributed was started; of one alone there is none."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()) if distributed.get_world_size() > 1 else None
        if "jax" not in sys.modules:
            return None
        from coldstep_collectors.jax._private.started import process_index

        return process_index()

    # --- sampling ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        sample = self._sink.guarded(self.name, self._sample)
        scan = self._sink.guarded(self.name, self._below.scan)
        next_scan = 0.0
        while True:
            sample()
            if time.monotonic() >= next_scan:
                before = time.thread_time()
                scan()
                pause = max(_CHILDREN_EVERY_S, (time.thread_time() - before) / _SHARE_FOR_CHILDREN)
                next_scan = time.monotonic() + pause
            self._waits.look()
            try:
                self._requests.get(timeout=_EVERY_S)
                return
            except Empty:
                continue

    def _sample(self) -> None:
        try:
            me = memory.stat("self")
            cpu, ns = time.process_time_ns(), now()
            used, since = self._cpu
            self._cpu = cpu, ns
            self._curve(RSS, me.rss_bytes, "bytes", _STEP_BYTES)
            self._curve("CPU", round((cpu - used) / max(1, ns - since), 2), "cores", _STEP_CORES)
            self._curve("threads", me.threads, "threads", 1)
            if (read := read_bytes()) is not None:
                self._curve(READ, read, "bytes", _STEP_BYTES)
            for limit, left, step in self._limits:
                self._curve(f"{AVAILABLE}{limit}", left(), "bytes", step)
            for devices in self._devices:
                for device, in_use, peak in devices():
                    self._curve(f"{DEVICE}{device}", in_use, "bytes", _STEP_BYTES)
                    if peak is not None:
                        self._curve(f"{DEVICE_PEAK}{device}", peak, "bytes", 1)
            self._below.look()
        except MemoryError:
            return  # there may be room again at the next sample, and the end of this is what will be asked about

    def _curve(self, name: str, value: float, unit: str, step: float) -> None:
        last = self._last.get(name)
        if last is None or abs(value - last) >= step:
            self._last[name] = value
            self._sink.emit(Counter(now(), name, value, unit))

    def _finish(self) -> None:
        self._last.clear()
        self._sample()
        self._below.finish()


# --- memory -------------------------------------------------------------------------------------------------------


def _limits() -> Iterator[tuple[str, Callable[[], int], int]]:
    """Each limit that the process stands under, what is left of it, and what change of that is worth a point."""
    for name, used in (("RLIMIT_AS", _VIRTUAL), ("RLIMIT_DATA", _DATA)):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY:
            yield f"under {name}", partial(_left_below, limit, used), _STEP_BYTES
    if (left := _left_in_cgroup()) is not None:
        yield "in the cgroup", left, _STEP_BYTES
    yield "on the machine", memory.available_bytes, memory.total_bytes() // 100


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
    """The rest of a cgroup's limit, by its files and the name of the cache in them that would be given back."""
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
    from coldstep_collectors.jax._private.started import backend_started

    if backend_started():
        for device in jax.local_devices():
            if stats := device.memory_stats():
                name = f"{device.platform}:{device.id} (JAX)"
                yield name, int(stats.get("bytes_in_use", 0)), stats.get("peak_bytes_in_use")
