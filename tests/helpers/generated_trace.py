"""A trace of a run that never was, with as many steps and compiles as asked for, written by the recorder itself."""

from __future__ import annotations

import os
from pathlib import Path

from coldstep.candidates import Candidate
from coldstep.clock import Snapshot
from coldstep.events import (
    Args,
    Begin,
    Calls,
    CollectorState,
    DeviceLine,
    DeviceSlice,
    DeviceTrace,
    End,
    StepBegin,
    StepEnd,
)
from coldstep.pftrace.layout import FILE_SCHEMA
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder

_START = 1_000_000_000_000
_MS = 1_000_000
_HOME = Thread(4242, "MainThread")
_SIZES = 20
FIRST_STEP = _START + 50 * _MS


def write(
    path: Path,
    *,
    steps: int,
    compiles: int,
    started: str = "2026-11-20T12:00:00+00:00",
    function: str = "stage",
    device: DeviceTrace | None = None,
    labels: dict[str, str] | None = None,
    inferred: bool = False,
) -> None:
    """A run in which every so many steps compile: functions one after the other, each for 20 sizes of the batch.

    With `inferred` the program marks none of them.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    about: Args = {
        "schema": FILE_SCHEMA,
        "command": ["python", "train.py"],
        "root": "/repo",
        "started": started,
        "pid": 4242,
        "host": "box",
        "tid": _HOME.tid,
        "before_trace_ns": 400 * _MS,
        "collectors": ["jax", "steps"] if inferred else ["jax"],
        "labels": labels or {},
    }
    recorder = Recorder(fd, _HOME, None, _clocks(_START), about)
    recorder.handle(CollectorState(_START + 1, "jax", "attached", "0.10.2", []), _HOME)
    ns = FIRST_STEP
    every = max(1, steps // max(1, compiles))
    calls = Candidate("call", "update", None, gradients=True, loop=True, id="s0", tid=_HOME.tid)
    for n in range(steps):
        step = StepBegin(ns, "step", n)
        if not inferred:
            recorder.handle(step, _HOME)
        if n % every == 0 and n // every < compiles:
            ns = _compile(recorder, ns, n // every, function)
        if inferred:
            calls.calls.append((ns, ns := ns + (2 + n % 7 // 6) * _MS))
            if n % 1_000 == 999 or n == steps - 1:
                recorder.handle(Calls(ns, calls, calls.take()), _HOME)
                recorder.flush()
            continue
        execute = Begin(ns, "wait", "execute", "execute")
        recorder.handle(execute, _HOME)
        ns += (2 + n % 7 // 6) * _MS
        recorder.handle(End(ns, execute), _HOME)
        recorder.handle(StepEnd(ns + 1_000, step, True, 1), _HOME)
        ns += 50_000
        if n % 1_000 == 0:
            recorder.flush()
    recorder.handle(device or _device(), _HOME)
    about = {"ended": "ok", "versions": {"python": "3.11.7", "jax": "0.10.2"}, "peak_rss_bytes": 1 << 30}
    recorder.finish(ns, about, _clocks(ns))
    recorder.flush()
    os.close(fd)


def _clocks(ns: int) -> Snapshot:
    """How the clocks stood at `ns`: never this machine's, which may have been started later than that run."""
    return Snapshot(ns, ns, 1_763_640_000_000_000_000 + ns - _START, 100)


def _device() -> DeviceTrace:
    """What a profiler saw in the first step: XLA at work, and kernels that overlap on their stream."""
    at = FIRST_STEP
    xla = [DeviceSlice(at + 15 * _MS, at + 19 * _MS, "fusion", "xla.pass")]
    kernels = [DeviceSlice(at + n * _MS, at + (n + 2) * _MS, f"gemm_{n}", "kernel") for n in range(40, 44)]
    lines = [DeviceLine("xla", "XLA thread", xla), DeviceLine("device", "stream 7", kernels)]
    return DeviceTrace(at, "xspace", 1_000, lines, [])


def _compile(recorder: Recorder, ns: int, n: int, name: str) -> int:
    """The `n`-th compile; where it ends."""
    function, size = f"{name}_{n // _SIZES}", n % _SIZES + 1
    args: Args = {
        "function": function,
        "origin": "user",
        "key": f"jax:/repo/train.py:{function}",
        "identity": function,
        "location": {"file": "/repo/train.py", "line": 41 + n // _SIZES, "function": function},
        "caller": {"file": "/repo/train.py", "line": 88, "function": "main"},
        "inputs": [
            {"argument": "params['w']", "type": "f32[64,64]"},
            {"argument": "batch['tokens']", "type": f"i32[{size},32]"},
        ],
    }
    segment = Begin(ns, function, "jax", compile=f"c{n}", args=args)
    recorder.handle(segment, _HOME)
    for phase, took in (("jax.trace", 10), ("jax.lower", 5), ("xla.compile", 20_000 if n == 0 else 80 + n % 50)):
        begin = Begin(ns, phase.partition(".")[2], "jax", phase)
        recorder.handle(begin, _HOME)
        ns += took * _MS
        recorder.handle(End(ns, begin), _HOME)
    recorder.handle(End(ns, segment, {"outcome": "compiled"}), _HOME)
    return ns
