"""A Keras model that is compiled again for another learning rate, which its optimizer takes without that."""

from __future__ import annotations

import program
import pytest

import coldstep
from coldstep.model import Recompile, Trace

MODEL = """
import keras
import numpy as np

x = np.ones((8, 3), "float32")
y = np.ones((8, 1), "float32")
"""
MADE = """
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


SOURCES = {
    "rates": RATES, "losses": LOSSES, "schedule": SCHEDULE, "unfrozen": UNFROZEN, "schedules": SCHEDULES,
    "folds": FOLDS, "own loss": OWN_LOSS, "dropout": DROPOUT,
}  # fmt: skip
RAN = MODEL + "".join(MADE + source for source in SOURCES.values())


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """All of them in one process, each with a model of its own."""
    folder = tmp_path_factory.mktemp("compiled_again")
    (folder / "program.py").write_text(RAN)
    program.warm("tensorflow", ["coldstep", "run", "-o", "t.pftrace", "program.py"], folder)
    return coldstep.load(folder / "t.pftrace")


def recompiles(trace: Trace, name: str) -> list[Recompile]:
    """Those that lines of one of `SOURCES` made."""
    first = RAN[: RAN.index(SOURCES[name])].count("\n") + 1
    lines = range(first, first + SOURCES[name].count("\n") + 1)
    called = {row.id: row.caller.line for row in trace.compiles if row.caller is not None}
    return [row for row in trace.recompiles if called.get(row.compile) in lines]


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", SOURCES)
def test_a_model_compiled_again_for_its_rate_alone_is_told_to_set_the_rate(trace: Trace, name: str) -> None:
    rows = recompiles(trace, name)
    assert rows
    assert {"model.optimizer.learning_rate = …" in row.advice for row in rows} == {name == "rates"}
    at = RAN[: RAN.index("model.compile(")].count("\n") + 1
    assert all(f"line {at} of " in row.advice for row in rows if name == "rates")


@pytest.mark.tensorflow
def test_a_compile_for_other_weights_that_train_is_wanted(trace: Trace) -> None:
    [row] = recompiles(trace, "unfrozen")
    assert row.argument == "base.trainable"
    assert [each.how for each in row.remedies] == ["none"]
    [finding] = [each.id for each in trace.findings if each.kind == "recompile" and row.id in each.refs]
    assert finding not in {id_ for answer in trace.answers for id_ in (answer.finding, *answer.also)}
