"""TensorFlow: what only whole programs show: Keras, XLA below a trace, variants from before the trace, errors."""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from program import warm

import coldstep
from coldstep.converting.rewrite import strip
from coldstep.model import Compile, Trace

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]


def run(folder: Path, program: str, *options: str, traced: bool = True) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    words = ["coldstep", "run", "-o", "run.pftrace", *options] if traced else []
    return warm("tensorflow", [*words, path.name], folder)


STEP = """
    w = tf.Variable(tf.random.stateless_normal((64, 64), (1, 2)))


    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss
"""

# --- one process for most of it -----------------------------------------------------------------------------------

PROGRAM = f"""
    import traceback
    from pathlib import Path

    import keras
    import numpy as np
    import tensorflow as tf

    import coldstep


    @tf.function
    def known(x, n):
        return tf.reduce_sum(x) * n


    @tf.function(input_signature=[tf.TensorSpec([None, 16])])
    def wide(x):
        return tf.reduce_sum(x)


    @tf.function(jit_compile=True)
    def folded(x, n):
        return tf.reduce_sum(tf.reshape(tf.tanh(x @ tf.ones((64, 64))), [n, -1]), 1)


    @tf.function
    def scaled(x):
        return x * RATE


    @tf.function
    def broken(x):
        return helper(x)


    def helper(x):
        return x @ tf.ones((5, 5))


    @tf.function
    def forward(x):
        return tf.reduce_sum(x @ v)
{STEP}

    v = tf.Variable(tf.ones((3, 3)))
    keras.utils.set_random_seed(0)
    for size, n in ((2, 1), (3, 1), (3, 2)):
        known(tf.ones(size), n)
    wide(tf.ones((2, 16)))
    with coldstep.trace("late.pftrace"):
        known(tf.ones(4), 2)
        wide(tf.ones((5, 16)))

    with coldstep.trace("stale.pftrace"):
        for size, rate in ((2, 0.5), (2, 0.125), (3, 0.125)):
            RATE = rate
            scaled(tf.ones(size))

    with coldstep.trace("run.pftrace", ir=True):
        for n in (4, 4, 8, 8, 4):
            folded(tf.ones((64, 64)), tf.constant(n))
        try:
            broken(tf.ones((2, 3)))
        except ValueError:
            Path("error.txt").write_text(traceback.format_exc())
        for n in range(4):
            with coldstep.step("evaluate"):
                forward(tf.ones((2, 3)))
        for n in range(4):
            with coldstep.step("train"), tf.GradientTape() as tape:
                loss = forward(tf.ones((2, 3)))
                tape.gradient(loss, v)

    with coldstep.trace("long.pftrace"):
        settled = tf.function(folded.python_function, jit_compile=True)
        for n in [4] * 290 + [8, 4]:
            settled(tf.ones((64, 64)), tf.constant(n))

    def scaled_by(factor, name):
        number = tf.Variable(factor, name=name)
        return tf.function(lambda x: inner(x) * factor + number)

    inner = tf.function(lambda x: tf.tanh(x))
    with coldstep.trace("programs.pftrace"):
        train_step(np.full((8, 64), 0.1, np.float32))
        for factor, name, size in ((2.0, "a", 4), (2.0, "b", 4), (3.0, "a", 4), (2.0, "a", 5)):
            scaled_by(factor, name)(tf.ones(size))

    with coldstep.trace("keras.pftrace"):
        model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(1)])
        model.compile("adam", "mse", jit_compile=True)
        x, y = np.ones((36, 16), "float32"), np.ones((36, 1), "float32")
        model.fit(x, y, batch_size=8, epochs=2, verbose=0)
        model.predict(x[:8], verbose=0)

    with coldstep.trace("open.pftrace"):
        model.compile("adam", "mse", jit_compile=False)
        model.predict(x, batch_size=8, verbose=0)

    with coldstep.trace("lengths.pftrace"):
        layers = keras.Input((None,)), keras.layers.Embedding(9, 8), keras.layers.GlobalMaxPooling1D()
        words = keras.Sequential(layers)
        words.compile(loss="mse", jit_compile=True)
        lengths = tf.data.Dataset.from_tensor_slices([4, 4, 4, 9, 9])
        words.evaluate(lengths.map(lambda n: (tf.ones((8, n), tf.int32), tf.ones((8, 8)))), verbose=0)

    with coldstep.trace("anew.pftrace"):
        given = keras.Input((16,))
        hidden = keras.layers.Dense(8, name="hidden")(given)
        bent = keras.layers.ReLU(name="bent")(hidden)
        for _ in range(3):
            for made in (hidden, bent, keras.layers.Dense(8)(given)):
                keras.Model(given, made).predict(x[:8], verbose=0)

    with coldstep.trace("turns.pftrace"):
        for _ in range(3):
            turn = keras.Sequential([keras.Input((16,)), keras.layers.Dense(1)])
            with coldstep.step():
                turn.predict(x, batch_size=8, verbose=0)

    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    hooked = context.Context.call_function, tracing_compilation._create_concrete_function
    print("restored", all(each.__closure__ is None for each in hooked))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    done = run(folder, PROGRAM, traced=False)
    assert "restored True" in done.stdout
    return folder


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return coldstep.load(folder / "run.pftrace")


def of(trace: Trace, function: str) -> list[Compile]:
    return [row for row in trace.compiles if row.function == function]


def test_variants_from_before_the_trace_are_compared(folder: Path) -> None:
    trace = coldstep.load(folder / "late.pftrace")
    (row,) = trace.recompiles
    # nearest is f32[3] with n=2, the last of three
    assert (row.cause, row.argument, row.before, row.after) == ("shape", "x", "f32[3]", "f32[4]")
    assert (row.previous, row.confidence) == (None, "proven")
    (collector,) = [row for row in trace.collectors if row.name == "tensorflow"]
    assert collector.state == "late"


def test_what_xla_compiles_below_a_trace_is_seen_and_explained_by_the_one_value_that_differs(trace: Trace) -> None:
    (row,) = [row for row in trace.recompiles if row.cause == "baked_constant"]
    assert (row.argument, row.before, row.after, row.confidence) == ("n", "4", "8", "inferred")
    traced, again = of(trace, "folded")
    assert (again.parent, again.reason, again.outcome) == (traced.id, "recompile", "compiled")
    assert set(again.segments[0].phases) == {"tensorflow.xla"}
    assert row.compile == again.id
    assert any(text.startswith("n was '4', now '8'") for text in row.evidence)
    assert row.cost_ns == again.wall_ns > 0


def test_what_xla_compiles_is_seen_as_well_when_only_one_call_in_some_is_still_looked_at(folder: Path) -> None:
    (row,) = coldstep.load(folder / "long.pftrace").recompiles
    assert (row.cause, row.argument, row.confidence) == ("baked_constant", "n", "inferred")
    assert any(text.startswith("n was '4', now '8'") for text in row.evidence)


def test_a_stripped_trace_tells_the_same_and_no_value(folder: Path, trace: Trace) -> None:
    stripped = folder / "stripped.pftrace"
    strip(str(folder / "stale.pftrace"), str(stripped))
    (finding,) = [row for row in coldstep.load(stripped).findings if row.kind == "stale_capture"]
    assert finding.text.startswith("scaled does not see that RATE has changed")
    assert "0.125" not in finding.text
    before, after = (coldstep.load(path) for path in (folder / "stale.pftrace", stripped))
    assert [row.cause for row in before.recompiles] == [row.cause for row in after.recompiles] == ["shape"]


def test_a_trace_that_fails_says_where_in_the_users_words_and_raises_the_same(folder: Path, trace: Trace) -> None:
    (row,) = of(trace, "broken")
    assert row.outcome == "failed"
    (finding,) = [row for row in trace.findings if row.kind == "failed_compile"]
    assert "broken failed to compile" in finding.text
    assert "in user code" not in finding.text  # but the error that those words head
    assert finding.location is not None
    assert finding.location.function == "helper"
    error = (folder / "error.txt").read_text()
    assert "in helper" in error
    assert "coldstep" not in error.replace(str(folder), "")


def test_sizes_that_tensorflow_tells_to_nobody_are_said_to_be_those(folder: Path) -> None:
    (row,) = coldstep.load(folder / "lengths.pftrace").recompiles
    assert (row.cause, row.argument) == ("unknown", None)
    assert any(text.startswith("iterator[…][0] is i32[8,None]: ") for text in row.evidence)


def test_gradient_functions_are_made_in_the_first_step_under_a_tape(trace: Trace) -> None:
    (row,) = of(trace, "forward")
    parts = {segment.part for segment in row.segments}
    assert parts == {"trace", "first_call", "backward"}
    phases = {name for segment in row.segments for name in segment.phases}
    assert {"tensorflow.gradient", "tensorflow.trace", "tensorflow.grappler"} <= phases
    (train,) = [row for row in trace.settling if row.name == "train"]
    assert "the backward of forward was compiled in step 0" not in [cause.text for cause in train.causes]
    first = next(row for row in trace.intervals if row.name == "train")
    assert first.phases["tensorflow.gradient"] > 0


def test_the_programs_are_kept(trace: Trace) -> None:
    traced = of(trace, "folded")[0]
    programs = trace.details[traced.id].programs
    assert "MatMul" in programs["func_graph"]
    assert traced.ir is not None
    assert traced.ir["func_graph"]["operations"] > 3


def test_a_program_has_one_name_whatever_it_is_called_and_another_where_it_computes_otherwise(
    folder: Path,
) -> None:
    trace = coldstep.load(folder / "programs.pftrace")
    names = [row.program for row in trace.compiles if row.function == "<lambda>" and row.parent is None]
    one, other, constant, size = names
    assert re.fullmatch("1:[0-9a-f]{16}", one or "")
    assert one == other
    assert len({one, constant, size}) == 3
    assert {row.program for row in trace.compiles if row.outcome == "traced_only"} <= {None}


def test_what_models_made_anew_compile_again_for_is_one_answer(folder: Path) -> None:
    trace = coldstep.load(folder / "turns.pftrace")
    assert [row.cause for row in trace.recompiles] == ["shape"] * 3
    [answer] = [row for row in trace.answers if "recompiled" in row.text]
    again = "Sequential.predict recompiled 3 times, first in step 0 (shape): data[0] was f32[8,16], now f32[None,16]"
    assert answer.text == again
    assert answer.cost_ns == sum(row.cost_ns for row in trace.recompiles)
    assert "so this happens once for each model" in trace.recompiles[0].advice


def test_a_loop_of_keras_is_not_advised_what_only_a_function_of_ones_own_takes(folder: Path) -> None:
    (row,) = coldstep.load(folder / "open.pftrace").recompiles
    assert (row.cause, row.pattern) == ("shape", "relaxed")
    assert "input_signature" not in row.advice
    assert "which leaves its rows out" in row.advice, "what a remedy changes is said with it"


def test_a_model_that_is_made_anew_over_the_same_layers_is_traced_again(folder: Path) -> None:
    trace = coldstep.load(folder / "anew.pftrace")
    assert len(of(trace, "Functional.predict")) == 9
    assert [row.cause for row in trace.recompiles] == ["new_function"] * 4, "two of three: the third has new weights"
    assert all("Make the model once, compile() it once" in row.advice for row in trace.recompiles)


def test_keras_is_told_by_what_the_user_called(folder: Path) -> None:
    trace = coldstep.load(folder / "keras.pftrace")
    mine = {row.function for row in trace.compiles if row.origin == "user"}
    assert mine == {"Sequential.fit", "Sequential.predict"}
    (row,) = trace.recompiles
    # the last batch of the first epoch, of which TensorFlow says nothing
    assert of(trace, "Sequential.fit")[1].id == row.compile
    assert (row.cause, row.argument) == ("shape", "iterator[…][0]")
    assert (row.before, row.after) == ("f32[8,16]", "f32[4,16]")
    assert "drop_remainder" in row.advice
    (twice,) = [row for row in trace.findings if row.kind == "second_trace"]
    assert twice.text.startswith("Sequential.fit was traced twice in its first call, which made")
    assert "optimizer.build" in twice.advice
    called = next(row for row in trace.compiles if row.function == "Sequential.fit").caller
    assert called is not None
    assert called.file.endswith("program.py")


# --- processes of their own ---------------------------------------------------------------------------------------

LOOP = f"""
    import numpy as np
    import tensorflow as tf

    import coldstep
{STEP}

    for n in range(5):
        with coldstep.step():
            loss = coldstep.wait(train_step(np.full((8 - n // 4, 64), 0.1 * n, np.float32)))
        print(loss.numpy().hex() if hasattr(loss.numpy(), "hex") else repr(loss.numpy()))
"""


def test_the_program_computes_and_prints_the_same(tmp_path: Path, folder: Path) -> None:
    plain, watched = run(tmp_path, LOOP, traced=False), run(tmp_path, LOOP)
    assert plain.stdout == watched.stdout
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.cause, row.argument) for row in trace.recompiles] == [("shape", "x")]
    # what TensorFlow imports is not what the program does
    assert {row.stack for row in trace.compiles} == {"tensorflow"}
    assert not [row for row in trace.collectors if row.name == "xspace" and row.state != "absent"]
    here, elsewhere = of(trace, "train_step")[0], of(coldstep.load(folder / "programs.pftrace"), "train_step")[0]
    assert here.program is not None
    assert here.program == elsewhere.program
    (first,) = [row.first_step for row in trace.cost]
    assert (
        sum(phase.ns for phase in first.phases) + round((1 - first.attributed_share) * first.wall_ns) == first.wall_ns
    )


UNMARKED = """
    import tensorflow as tf

    w = tf.Variable(tf.ones((4, 4)))


    @tf.function
    def update(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss


    @tf.function
    def score(x):
        return tf.reduce_sum(x @ w)


    for n in range(6):
        update(tf.ones((8 if n < 5 else 5, 4)))
        if n % 3 == 2:
            score(tf.ones((8, 4)))
"""


def test_calls_of_what_trains_are_the_steps_of_a_program_without_marks(tmp_path: Path) -> None:
    run(tmp_path, UNMARKED)
    trace = coldstep.load(tmp_path / "run.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert {(row.name, row.source) for row in steps} == {("step", "inferred")}
    assert [row.label for row in steps] == ["first", "steady", "steady", "steady", "steady", "recompiled"]
    assert steps[0].phases["tensorflow.trace"] > 0
    assert [(row.step, row.cause, row.pattern) for row in trace.recompiles] == [(5, "shape", "last_batch")]


LINES = """
    import tensorflow as tf


    @tf.function
    def double(x):
        return x * 2


    @tf.function
    def triple(x):
        return x * 3


    def one(times):
        for _ in range(times):
            double(tf.ones(2))


    def other(times):
        for _ in range(times):
            double(tf.ones(2))


    one(20)
    other(40)
    for _ in range(300):
        triple(tf.ones(2))
    for _ in range(100):
        triple(tf.ones(2))
    for _ in range(30):
        triple(tf.ones(2))


    class Lookup(tf.Module):
        def __init__(self):
            super().__init__()
            values = tf.lookup.KeyValueTensorInitializer(["a"], [1])
            self.table = tf.lookup.StaticHashTable(values, 0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def find(self, x):
            return self.table.lookup(x)


    for _ in range(3):
        tf.saved_model.save(Lookup(), "saved")
        tf.saved_model.load("saved").find(tf.constant(["a"]))
"""


@pytest.fixture(scope="module")
def unmarked(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("unmarked")
    run(folder, LINES)
    return coldstep.load(folder / "run.pftrace")


def test_calls_from_several_lines_are_told_apart_and_at_a_glance_where_there_was_long_one_only(unmarked: Trace) -> None:
    counted = Counter(
        (row.inferred_by.of, row.inferred_by.location.line)
        for row in unmarked.intervals
        if row.inferred_by and row.inferred_by.location
    )
    calls = {name: [counted[key] for key in sorted(counted) if key[0] == name] for name in ("double", "triple")}
    # a loop's first call is none where nothing compiles in it: only the ends of calls are seen
    assert calls["double"] == [20, 40 - 1]
    first, second, third = calls["triple"]
    assert first + second == 400 - 1
    assert 300 <= first <= 315, "the second line is not looked for at each call, after so many from one"
    assert third == 30 - 1, "once there were two lines, each call is held against them"


def test_what_tensorflow_calls_to_load_a_model_is_not_the_users(unmarked: Trace) -> None:
    users = {row.function for row in unmarked.compiles if row.origin == "user"}
    assert users == {"double", "triple", "Lookup.find", "find"}
    assert any(row.function == "_initializer" and row.origin == "library" for row in unmarked.compiles)


def test_a_program_is_named_by_another_thread_than_the_one_that_trains(tmp_path: Path) -> None:
    program = """
        import threading

        import tensorflow as tf
        from coldstep_collectors.tensorflow._private import programs

        named, name = [], programs.program
        programs.program = lambda *of: named.append(threading.current_thread().name) or name(*of)
        weights = [tf.ones((8, 8)) * n for n in range(40)]
        for scale in (1.0, 2.0, 3.0):

            @tf.function(jit_compile=True)
            def step(x):
                for weight in weights:
                    x = tf.tanh(x @ weight) * scale
                return x

            step(tf.ones((2, 8)))
        print(*named)
    """
    done = run(tmp_path, program, "--device", "off")
    assert set(done.stdout.split()) == {"coldstep-drain"}  # the last may be named when it is printed
    compiles = [row for row in coldstep.load(tmp_path / "run.pftrace").compiles if row.outcome == "compiled"]
    assert len({row.program for row in compiles} - {None}) == len(compiles) == 3


def test_where_xla_compiles_for_each_size_no_open_signature_is_advised(tmp_path: Path) -> None:
    program = """
        import tensorflow as tf

        @tf.function(jit_compile=True)
        def encode(tokens):
            return tf.reduce_sum(tf.cast(tokens, tf.float32))

        for length in (3, 5, 4):
            encode(tf.ones([2, length], tf.int32))
    """
    run(tmp_path, program, "--device", "off")
    trace = coldstep.load(tmp_path / "run.pftrace")
    [finding] = [row for row in trace.findings if row.id == trace.answers[0].finding]
    assert finding.kind == "recompile"
    assert not any(row.code for row in finding.remedies)
    assert "XLA compiles for each size" in finding.advice
