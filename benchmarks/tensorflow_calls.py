"""What coldstep costs a program of TensorFlow's, beside TensorFlow's own profiler: its steps, and what it traces cold.

    .venv/bin/python benchmarks/tensorflow_calls.py [--rounds 3] [--output docs/evidence/tensorflow.md]

Counted is what lies around a call of a graph: a clock is read before and after what the program calls, and before and
after what TensorFlow calls in the end, in the step itself. Counted is also the time of a cold trace's hooks, on their
thread. For a whole step, and a whole cold trace with its first call, there is only the ratio of one form to another, in
processor time of the whole process; "null" is "off" once more: how much of the other ratios is noise. The forms take
turns in one process, in short blocks; what is told is the median of all blocks of several processes.

    off       without coldstep's hooks, and without marks
    marked    under a trace, each step in `coldstep.step()`
    inferred  under a trace, without marks: every call is looked at
    profiler  under TensorFlow's own profiler, as it is by default
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pages

import coldstep
from coldstep.recording.attached import Attached
from coldstep.recording.options import Options
from coldstep.tracing import Block

MEASURED = ("marked", "inferred")
BLOCKS, CALLS, WARM = 24, 40, 300
TRACES, LAYERS, WIDTH = 8, 24, 232
STEPS = {"a call of next to nothing": "tiny", "a step of about 1 ms": "step", "the same step for XLA": "jitted"}
COLD = {"a cold trace and first call": False, "the same for XLA": True}

Samples = dict[str, dict[str, list[float]]]
"""What is measured, form, samples."""


class Around:
    """The hook around `Context.call_function`, put in and out, with clocks on both sides."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._inside = 0
        self.ns: list[int] = []
        real, clock = context.call_function, time.perf_counter_ns

        def call_function(me: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
            began = clock()
            made = real(me, name, tensor_inputs, num_outputs)
            self._inside = clock() - began
            return made

        self.off = context.call_function = _no_files(call_function)

    @contextlib.contextmanager
    def put(self, hook: Any) -> Iterator[None]:
        """Have `hook` called within, with a clock before and after it."""
        was, clock = self._context.call_function, time.perf_counter_ns

        def call_function(me: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
            began = clock()
            made = hook(me, name, tensor_inputs, num_outputs)
            self.ns.append(clock() - began - self._inside)
            return made

        self._context.call_function = _no_files(call_function)
        try:
            yield
        finally:
            self._context.call_function = was


def _no_files(function: Any) -> Any:
    """`function` as no user's: the line that calls a graph is the program's, above it."""
    function.__code__ = function.__code__.replace(co_filename="<clocks>")
    return function


def functions(tf: Any) -> dict[str, Any]:
    """What is called, as new functions."""
    rate, wide = 0.5, tf.ones((WIDTH, WIDTH))

    def step(x: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x @ wide)
        return tf.reduce_sum(x)

    open_rows = [tf.TensorSpec([None, WIDTH])]
    return {
        "tiny": tf.function(lambda x: x * rate),
        "step": tf.function(step),
        "jitted": tf.function(step, jit_compile=True, input_signature=open_rows),
    }


def steps(form: str, folder: str) -> Samples:
    """Steps of which one form is measured."""
    import tensorflow as tf
    from tensorflow.python.eager.context import Context

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    around = Around(Context)
    x = tf.ones((WIDTH, WIDTH))
    found: Samples = {}
    with traced(folder, form):
        if form == "marked":
            with coldstep.step():
                pass
        hook = Context.call_function
        for title, name in STEPS.items():
            step = functions(tf)[name]
            mine = found.setdefault(title, {})
            forms = {"off": around.off, "null": around.off, form: hook, "profiler": around.off}
            with around.put(hook):
                block(step, x, WARM, marked=form == "marked")
            for turn in range(BLOCKS):
                for which in rotated(list(forms), turn):
                    around.ns.clear()
                    with around.put(forms[which]), profiled(tf, folder, which):
                        took = block(step, x, CALLS, marked=which == "marked")
                    mine.setdefault(which, []).append(took)
                    mine.setdefault(f"{which} around", []).append(statistics.median(around.ns))
    return found


def block(step: Any, x: Any, calls: int, *, marked: bool) -> float:
    """Nanoseconds of processor time for one of so many calls."""
    began = time.process_time_ns()
    for _ in range(calls):
        if marked:
            with coldstep.step():
                step(x)
        else:
            step(x)
    return (time.process_time_ns() - began) / calls


def cold(folder: str) -> Samples:
    """Traces with their first calls, of a network's forward and backward that AutoGraph has seen before."""
    import tensorflow as tf

    weights = [tf.Variable(tf.ones((16, 16))) for _ in range(LAYERS)]
    x = tf.ones((4, 16))

    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            for weight in weights:
                x = tf.tanh(x @ weight) + tf.nn.softmax(x)
            loss = tf.reduce_sum(x)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    found: Samples = {}
    for title, jitted in COLD.items():
        tf.function(train, jit_compile=jitted)(x)
        mine = found.setdefault(title, {})
        for turn in range(TRACES):
            for which in rotated(["off", "null", *MEASURED, "profiler"], turn):
                step = tf.function(train, jit_compile=jitted)
                with counted() as spent, traced(folder, which), profiled(tf, folder, which):
                    spent["ns"], began = 0, time.process_time_ns()
                    step(x)
                    mine.setdefault(which, []).append(time.process_time_ns() - began)
                    mine.setdefault(f"{which} hooks", []).append(spent["ns"])
    return found


@contextlib.contextmanager
def traced(folder: str, form: str) -> Iterator[None]:
    """An active trace, for the forms that have one."""
    if form not in MEASURED:
        yield
        return
    options = Options(os.path.join(folder, "bench.pftrace"), infer=form == "inferred", live=False)
    with contextlib.redirect_stderr(io.StringIO()), Block(options):
        yield


@contextlib.contextmanager
def profiled(tf: Any, folder: str, form: str) -> Iterator[None]:
    """TensorFlow's profiler, for the form that has it."""
    if form != "profiler":
        yield
        return
    with tf.profiler.experimental.Profile(folder):
        yield


@contextlib.contextmanager
def counted() -> Iterator[dict[str, int]]:
    """The time of the hooks of a trace that begins within, on their thread: the outermost calls only."""
    spent = {"ns": 0, "open": 0}
    real = Attached.guarded

    def guarded(attached: Attached, collector: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        guard = real(attached, collector, hook)

        def watched(*args: Any) -> Any:
            if spent["open"]:
                return guard(*args)
            spent["open"], began = 1, time.thread_time_ns()
            try:
                return guard(*args)
            finally:
                spent["ns"] += time.thread_time_ns() - began
                spent["open"] = 0

        return watched

    with patch.object(Attached, "guarded", guarded):
        yield spent


def rotated(names: list[str], turn: int) -> list[str]:
    at = turn % len(names)
    return names[at:] + names[:at]


# ---- what is told


def table(found: Samples) -> str:
    """What was found, as a table."""
    lines = ["| processor time | off | null | marked | inferred | TensorFlow's profiler |", "| --- |" + " ---: |" * 5]
    for title, rows in found.items():
        off = statistics.median(rows["off"])
        ratios = (f"x {statistics.median(rows[form]) / off:.3f}" for form in ("null", *MEASURED, "profiler"))
        lines.append(f"| {title} | {off / 1e6:.3g} ms | {' | '.join(ratios)} |".replace("x ", "× "))  # noqa: RUF001
    lines += ["", "| counted | off | null | marked | inferred |", "| --- |" + " ---: |" * 4]
    for title in STEPS:
        rows = found[title]
        off = statistics.median(rows["off around"])
        more = (f"{(statistics.median(rows[f'{form} around']) - off) / 1e3:+.2f} µs" for form in ("null", *MEASURED))
        lines.append(f"| around the graph's call in {title} | {off / 1e3:.2f} µs | {' | '.join(more)} |")
    for title in COLD:
        rows = found[title]
        spent = (f"{statistics.median(rows[f'{form} hooks']) / 1e6:.2f} ms" for form in MEASURED)
        lines.append(f"| hooks in {title} | | | {' | '.join(spent)} |")
    return "\n".join(lines)


_ABOUT = """\
`benchmarks/tensorflow_calls.py` {made}. Processor time of the whole process, TensorFlow with one thread of
each kind; a mark's own time is in *marked*. *null* is *off* once more. Counted is what the hook adds around a call of a
graph, in the step itself, and what all hooks take of a trace of {layers} layers with their backward, whose function
AutoGraph has seen before. Of a graph's calls, each of the first 256, and one in 16 after these, is looked at, which
costs more: the medians are of the others.

{table}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the tables to this page")
    parser.add_argument("--child", choices=(*MEASURED, "cold"))
    options = parser.parse_args()
    if options.child:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(cold(folder) if options.child == "cold" else steps(options.child, folder)))
        return
    made = pages.made()
    found: Samples = {}
    for _ in range(options.rounds):
        for form in (*MEASURED, "cold"):
            words = [sys.executable, __file__, "--child", form]
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            for title, rows in json.loads(done.stdout.splitlines()[-1]).items():
                for name, samples in rows.items():
                    found.setdefault(title, {}).setdefault(name, []).extend(samples)
            print(f"{form}: done", file=sys.stderr, flush=True)
    text = table(found)
    print(text)
    if options.output is not None:
        pages.write(options.output, "What it costs", _ABOUT.format(made=made, layers=LAYERS, table=text))


if __name__ == "__main__":
    main()
