"""What a trainer or a model library compiles for the user is the user's, and explained."""

from __future__ import annotations

from pathlib import Path

import program

import coldstep
from coldstep.model import Trace

# one that trains what it is given, with helpers of its own beside it
LIBRARY = """
from functools import partial
import jax

class Initializer:
    def __call__(self, x):
        return x * 0

class Layer:
    def __init__(self):
        self.initializer = Initializer()

    def build(self, x):
        return jax.jit(self.initializer.__call__)(x)

@jax.jit
def noise(x):
    return x + 1

class Solver:
    def __init__(self):
        self._compiled = jax.jit(self._step)

    def _step(self, x):
        return x * 3

    def run(self, data):
        for batch in data:
            noise(batch)
            self._compiled(batch)

class Static:
    @partial(jax.jit, static_argnums=0)
    def _update(self, x):
        return x * 4

    def fit(self, x):
        return self._update(x)

class Net:
    def __call__(self, x):
        return x * 5

def train(net, x):
    def train_step(x):
        return net(x)
    return jax.jit(train_step)(x)
"""


def test_what_a_trainer_jits_is_the_programs_its_small_functions_too(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "fitting"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(LIBRARY)
    program.run(
        """
        import sys
        sys.path.insert(0, "site-packages")
        import coldstep, jax, numpy as np

        with coldstep.trace("run.pftrace", collectors="jax"):
            import fitting, keras, optax
            from flax import nnx

            tx = optax.adamw(optax.cosine_decay_schedule(1e-3, 10))
            init, layer = jax.jit(tx.init), fitting.Layer()
            solver, static, net = fitting.Solver(), fitting.Static(), fitting.Net()
            for size in (3, 4):
                x = np.ones(size, np.float32)
                init({"w": x})
                nnx.Rngs(size).params()
                layer.build(x)
                solver.run([x])
                static.fit(x)
                fitting.train(net, x)

            inputs, labels = np.ones((10, 6), np.float32), np.ones((10, 1), np.int32)
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1), keras.layers.Dropout(0.5)])
            model.compile(optimizer="adam", loss="mse")
            model.fit(
                inputs, labels, batch_size=8, verbose=0)
            model.predict(inputs, batch_size=8, verbose=0)
        """,
        tmp_path,
        env={"KERAS_BACKEND": "jax"},
        stack="jax",
    )
    trace = coldstep.load(tmp_path / "run.pftrace")
    users = {row.function for row in trace.compiles if row.origin == "user" and row.outcome == "compiled"}
    small = {"init_fn", "noise", "__call__"}
    assert users == {"_step", "_update", "train_step", "predict_step", *small}
    assert {row.origin for row in trace.compiles} == {"user", "eager"}
    assert {row[:5] for row in _told(trace) if row[0] in small} == {
        ("init_fn", "shape", "params['w']", "f32[3]", "f32[4]"),
        ("noise", "shape", "x", "f32[3]", "f32[4]"),
        ("__call__", "new_function", None, "__call__ #1", "__call__ #2"),
    }
    assert [row for row in _told(trace) if row[0] not in small] == [
        ("_step", "shape", "x", "f32[3]", "f32[4]", "solver.run([x])"),
        ("_update", "shape", "x", "f32[3]", "f32[4]", "static.fit(x)"),
        ("train_step", "new_function", None, "train_step #1", "train_step #2", "fitting.train(net, x)"),
        ("train_step", "shape", "data[0]", "f32[8,6]", "f32[2,6]", "model.fit("),
        ("predict_step", "shape", "data", "f32[8,6]", "f32[2,6]", "model.predict(inputs, batch_size=8, verbose=0)"),
    ]
    fit, predict = trace.recompiles[-2:]
    assert fit.evidence == ["train_step is called by JAXTrainer.fit, which program.py:25 calls"]
    assert "pad inputs to one size, or drop the last batch" in predict.advice


def test_a_trainers_step_is_the_users_in_pytorch(tmp_path: Path) -> None:
    program.run(
        """
        import functools, torch
        torch.compile = functools.partial(torch.compile, backend="eager")  # what is compiled takes minutes else
        import coldstep, keras, numpy as np

        inputs = np.ones((10, 6), np.float32)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse", jit_compile=True)
        with coldstep.trace("run.pftrace", collectors="dynamo"):
            model.predict(inputs, batch_size=8, verbose=0)
        """,
        tmp_path,
        env={"KERAS_BACKEND": "torch"},
        stack="torch",
    )
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert _told(trace) == [
        (
            "one_step_on_data",
            "shape",
            "data[0]",
            "f32[8,6]",
            "f32[2,6]",
            "model.predict(inputs, batch_size=8, verbose=0)",
        )
    ]
    (row,) = trace.recompiles
    assert "pad inputs to one size, or drop the last batch" in row.advice
    assert "mark_dynamic" not in row.advice  # the user never holds the batch


def _told(trace: Trace) -> list[tuple[str | None, ...]]:
    """What the report says of each recompile: function, cause, argument, both values, and the line that set it off."""
    compiles = {row.id: row for row in trace.compiles}
    told: list[tuple[str | None, ...]] = []
    for row in trace.recompiles:
        caller = compiles[row.compile].caller
        assert caller is not None
        line = trace.code[caller.file, caller.line].strip()
        told.append((compiles[row.compile].function, row.cause, row.argument, row.before, row.after, line))
    return told
