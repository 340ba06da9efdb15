"""A Keras model that is compiled again for another learning rate, which its optimizer takes without that."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

MODEL = """
import keras
import numpy as np

x = np.ones((8, 3), "float32")
y = np.ones((8, 1), "float32")
base = keras.layers.Dense(4)
model = keras.Sequential([keras.Input((3,)), base, keras.layers.Dense(1)])
"""
RATES = """
class Trainer:
    def set_rate(self, rate):
        model.compile(
            optimizer=keras.optimizers.SGD(rate),
            loss="mse",
        )

    def train(self):
        for epoch in range(3):
            self.set_rate(0.1 * 0.5 ** epoch)
            model.fit(x, y, verbose=0)

Trainer().train()
"""
LOSSES = """
for loss in ("mse", "mae", "huber"):
    model.compile(optimizer="sgd", loss=loss)
    model.fit(x, y, verbose=0)
"""
SCHEDULE = """
for rate in (0.1, keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)):
    model.compile(optimizer=keras.optimizers.SGD(rate), loss="mse")
    model.fit(x, y, verbose=0)
"""
SCHEDULES = """
for rate in (0.1, 0.01):
    schedule = keras.optimizers.schedules.ExponentialDecay(rate, 10, 0.9)
    model.compile(optimizer=keras.optimizers.SGD(schedule), loss="mse")
    model.fit(x, y, verbose=0)
"""
FOLDS = """
for fold in range(3):
    model.compile(optimizer=keras.optimizers.Adam(0.1), loss="mse")
    model.fit(x, y, verbose=0)
"""
OWN_LOSS = """
def weighted(weight):
    def loss(true, predicted):
        return weight * keras.ops.mean((true - predicted) ** 2)
    return loss

for number in (1, 2):
    model.compile(optimizer=keras.optimizers.SGD(0.1 / number), loss=weighted(number))
    model.fit(x, y, verbose=0)
"""
DROPOUT = """
drop = keras.layers.Dropout(0.1)
model = keras.Sequential([keras.Input((3,)), base, drop])
for number in (1, 2):
    drop.rate = 0.1 * number
    model.compile(optimizer=keras.optimizers.SGD(0.1 / number), loss="mse")
    model.fit(x, y, verbose=0)
"""
UNFROZEN = """
for trains in (False, True):
    base.trainable = trains
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    model.fit(x, y, verbose=0)
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("source", "line"),
    [(RATES, "line 12 of "), (LOSSES, None), (SCHEDULE, None), (UNFROZEN, None), (SCHEDULES, None), (FOLDS, None),
     (OWN_LOSS, None), (DROPOUT, None)],
    ids=["rates", "losses", "schedule", "unfrozen", "schedules", "folds", "own loss", "dropout"],
)  # fmt: skip
def test_a_model_compiled_again_for_its_rate_alone_is_told_to_set_the_rate(
    tmp_path: Path, source: str, line: str | None
) -> None:
    program.run(f"{MODEL}{source}", tmp_path, env={"COLDSTEP": "t.pftrace"})
    trace = coldstep.load(tmp_path / "t.pftrace")
    rows = [row for row in trace.recompiles if row.cause == "new_function"]
    advised = {"model.optimizer.learning_rate = …" in row.advice for row in trace.recompiles}
    assert advised == {line is not None}
    assert all(line in row.advice for row in rows if line is not None)


@pytest.mark.tensorflow
def test_a_compile_for_other_weights_that_train_is_wanted(tmp_path: Path) -> None:
    program.run(f"{MODEL}{UNFROZEN}", tmp_path, env={"COLDSTEP": "t.pftrace"})
    trace = coldstep.load(tmp_path / "t.pftrace")
    [row] = [row for row in trace.recompiles if row.argument == "base.trainable"]
    assert [each.how for each in row.remedies] == ["none"]
    recompiles = {each.id for each in trace.findings if each.kind == "recompile"}
    assert not recompiles & {each.finding for each in trace.answers}
