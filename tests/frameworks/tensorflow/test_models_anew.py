"""Keras models that are made anew in a loop, each of which compiles its own steps."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

MODELS = """
import keras
import numpy as np

x = np.ones((8, 3), "float32")
y = np.ones((8, 1), "float32")
def build(units):
    model = keras.Sequential([keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    return model
"""
ANEW = """
for fold in range(3):
    model = build(4)
    model.fit(x, y, verbose=0, validation_data=(x, y))
"""
ONCE = """
for fold in range(3):
    model = build(4)
    model.compile(optimizer="sgd", loss=keras.losses.MeanSquaredError())
    model.fit(x, y, verbose=0, validation_data=(x, y) if fold == 0 else None)
"""
KEPT = """
model = build(4)
model.build((None, 3))
model.optimizer.build(model.trainable_variables)
first = [each.numpy() for each in model.variables + model.optimizer.variables]
for fold in range(3):
    for each, value in zip(model.variables + model.optimizer.variables, first):
        each.assign(value)
    model.fit(x, y, verbose=0, validation_data=(x, y))
"""
OTHERS = """
for activation, rate in (("relu", 0.1), ("tanh", 0.1), ("tanh", 0.2)):
    model = keras.Sequential([keras.layers.Dense(4, activation=activation), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(rate), loss=keras.losses.MeanSquaredError())
    model.fit(x, y, verbose=0)
for units in (2, 3, 4):
    build(units).fit(x, y, verbose=0)
for _ in range(2):
    build(5).fit(x, y, verbose=0)
"""

LOADED = """
keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)]).save("model.keras")
def predict(x):
    model = keras.models.load_model("model.keras")
    return model.predict(x, verbose=0)
for request in range(4):
    predict(x)
"""
FOLDS = """
for fold in range(3):
    model = build(4)
    model.fit(x, y, verbose=0)
    model.predict(x, verbose=0)
"""
ENSEMBLE = """
models = [keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)]) for _ in range(4)]
for request in range(2):
    sum(model.predict(x, verbose=0) for model in models)
"""
OF_A_CLASS = """
class Scaled(keras.Model):
    def __init__(self, scale):
        super().__init__()
        self.dense, self.scale = keras.layers.Dense(4), scale

    def call(self, x):
        return self.dense(x) * self.scale

for scale in (1.0, 2.0, 3.0, 4.0):
    Scaled(scale).predict(x, verbose=0)
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (ANEW, ["Sequential.evaluate and Sequential.fit compiled for each of 3 models that are built alike"]),
        (ONCE, ["Sequential.fit compiled for each of 3 models that are built alike"]),
        (
            FOLDS,
            [f"Sequential.{each} compiled for each of 3 models that are built alike" for each in ("fit", "predict")],
        ),
        (KEPT, []),
        (OTHERS, []),
        (LOADED, ["Sequential.predict compiled for each of 4 models that are built alike"]),
        (ENSEMBLE, []),
        (OF_A_CLASS, []),
    ],
)
def test_models_that_are_built_alike_at_one_line_are_one_answer(
    tmp_path: Path, source: str, expected: list[str]
) -> None:
    (tmp_path / "program.py").write_text(MODELS + source)
    program.warm("tensorflow", ["coldstep", "run", "-o", "t.pftrace", "program.py"], tmp_path)
    trace = coldstep.load(tmp_path / "t.pftrace")
    rows = [row for row in trace.findings if row.kind == "repeat_offender"]
    assert [row.text for row in rows] == expected
    assert [row.text for row in trace.answers if row.finding in {each.id for each in rows}] == expected
    if expected:
        assert trace.answers[0].finding == rows[0].id
        assert rows[0].location is not None
        assert rows[0].location.file.rpartition("/")[2] == "program.py"
        assert len(rows[0].refs) == {ANEW: 4, ONCE: 2, FOLDS: 2, LOADED: 3}[source]
        assert {"load the model once" in row.advice for row in rows} == {source == LOADED}
