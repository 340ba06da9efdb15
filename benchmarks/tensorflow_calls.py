"""What coldstep costs a call of a `tf.function`: CPU nanoseconds of the program's own thread, and a cold trace's time.

`.venv/bin/python benchmarks/tensorflow_calls.py [--rounds 5]`

Each form runs in processes of its own, in turn: "off" without coldstep, "steps" under a trace whose program marks its
steps, "inferred" under one whose program marks none, "profiler" under TensorFlow's own profiler instead. "null" is
"off" once more: how far it is from "off" is how much of the rest is noise. What coldstep puts around a call and around
a comparison of two numbers is also measured with nothing below it, which a busy machine can tell, too.
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
from typing import Any

import coldstep
from coldstep.session import Options
from coldstep.tracing import Block

FORMS = ("off", "null", "steps", "inferred", "profiler")
CALLS, CHUNKS = 200, 20
UNITS = {
    "around a call": 1e3,
    "around a comparison": 1e3,
    "a call": 1e3,
    "a call with a number": 1e3,
    "a jitted call of an open size": 1e3,
    "a step of 1 ms": 1e3,
    "a cold trace and first call": 1e6,
}
"""What is measured, and in how many nanoseconds it is told: microseconds, or milliseconds."""


class Below:
    """What TensorFlow calls a graph with, until it is told to do nothing."""

    def __init__(self, context: Any) -> None:
        self.idle = False
        real = context.call_function

        def call_function(me: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
            return None if self.idle else real(me, name, tensor_inputs, num_outputs)

        context.call_function = call_function


def measured(below: Below) -> dict[str, float]:
    """One sample of everything, in this process."""
    import tensorflow as tf
    from tensorflow.core.function.trace_type.default_types import Literal
    from tensorflow.python.eager.context import context

    rate = 0.5
    tiny = tf.function(lambda x: x * rate)
    numbered = tf.function(lambda x, n: x * n)
    jitted = tf.function(lambda x: x * 2, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    x, wide = tf.ones(8), tf.ones((192, 192))
    tiny(x)

    @tf.function
    def step(x):  # type: ignore[no-untyped-def]
        for _ in range(4):
            x = tf.tanh(x @ wide)
        return tf.reduce_sum(x)

    begun = time.thread_time_ns()
    step(wide)
    cold = time.thread_time_ns() - begun
    loops = {
        "a call": lambda: tiny(x),
        "a call with a number": lambda: numbered(x, 2),
        "a jitted call of an open size": lambda: jitted(x),
        "a step of 1 ms": lambda: step(wide),
    }
    found = {name: per_call(call) for name, call in loops.items()} | {"a cold trace and first call": cold}
    name, number = tiny.get_concrete_function(x).inference_fn.name, Literal(2)
    below.idle = True
    found["around a call"] = per_call(lambda: context().call_function(name, (), 0))
    found["around a comparison"] = per_call(lambda: number == Literal(2))
    return found


def per_call(call: Any) -> float:
    """CPU nanoseconds of this thread for one call: the median of many rows of calls."""
    for _ in range(CALLS):
        call()
    samples = []
    for _ in range(CHUNKS):
        begun = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        samples.append((time.thread_time_ns() - begun) / CALLS)
    return statistics.median(samples)


def child(form: str) -> dict[str, float]:
    """One sample in one form."""
    from tensorflow.python.eager.context import Context

    below = Below(Context)
    if form in ("off", "null"):
        return measured(below)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        if form == "profiler":
            import tensorflow as tf

            with tf.profiler.experimental.Profile(folder):
                return measured(below)
        with Block(Options(os.path.join(folder, "bench.pftrace"), infer=form == "inferred", live=False)):
            if form == "steps":
                with coldstep.step():
                    pass
            return measured(below)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=FORMS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child)))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.rounds):
        for form in FORMS[turn % len(FORMS) :] + FORMS[: turn % len(FORMS)]:
            words = [sys.executable, __file__, "--child", form]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            for name, ns in json.loads(done.stdout.splitlines()[-1]).items():
                found.setdefault(name, {}).setdefault(form, []).append(ns)
    print(f"{'CPU, µs':34} {'off':>10} " + " ".join(f"{form:>10}" for form in FORMS[1:]))
    for name, unit in UNITS.items():
        rows = found[name]
        off = statistics.median(rows["off"])
        more = [f"{(statistics.median(rows[form]) - off) / unit:+10.2f}" for form in FORMS[1:]]
        print(f"{name + (', ms' if unit > 1e3 else ''):34} {off / unit:10.2f} {' '.join(more)}")


if __name__ == "__main__":
    main()
