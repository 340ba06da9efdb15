"""Training that no tf.function runs: what a program is told about it, and where nothing is."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from program import warm

import coldstep

pytestmark = pytest.mark.tensorflow

PROGRAM = """
    import keras
    import numpy as np
    import tensorflow as tf

    import coldstep

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam()
    x = tf.ones((8, 4))


    def loss_of(y):
        return seen(tf.reduce_mean(y))


    def seen(loss):
        assert loss.numpy() < 1e9
        return loss


    def with_a_helper(x):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x))
        optimizer.apply(tape.gradient(loss, model.trainable_variables))
        return loss


    def with_a_number(x, scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x)) * scale
        optimizer.apply(tape.gradient(loss, model.trainable_variables))
        return loss


    def with_a_loop(times):
        for _ in range(times):
            with coldstep.step():
                with_a_tape()


    def with_a_tape():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x))
        optimizer.apply(tape.gradient(loss, model.trainable_variables))


    def once():
        optimizer.apply([tf.zeros_like(each) for each in model.trainable_variables])


    @tf.function
    def traced():
        with_a_tape()


    class Reads(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return seen(tf.reduce_mean(y_true - y_pred))


    optimizer.build(model.trainable_variables)
    once()
    for _ in range(4):
        traced()
        model(x)
    for at in range(4):
        with_a_helper(x)
        with_a_number(x, at)
    given = np.ones((32, 4), "float32"), np.ones((32, 2), "float32")
    model.compile("sgd", "mse")
    model.fit(*given, batch_size=4, verbose=0)
    model.compile("sgd", Reads(), run_eagerly=True)
    model.fit(*given, batch_size=4, verbose=0)
    with_a_loop(4)
    raise KeyboardInterrupt
"""


def test_each_step_that_runs_eagerly_is_answered_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    warm("tensorflow", ["coldstep", "run", "-o", "run.pftrace", "program.py"], tmp_path, check=False)
    trace = coldstep.load(tmp_path / "run.pftrace")
    rows = [row for row in trace.findings if row.kind == "uncompiled" and "called itself" not in row.text]
    assert sorted(row.text.partition(" ")[0] for row in rows if "outside of any tf.function" in row.text) == [
        "with_a_helper",
        "with_a_number",
        "with_a_tape",
    ]
    by_text = {row.text.partition(" ")[0]: row for row in rows}
    assert len(rows) == 4
    assert "seen may read, show or keep a tensor's value" in by_text["with_a_helper"].advice
    assert "scale, a Python number" in by_text["with_a_number"].advice
    assert [remedy.code for remedy in by_text["with_a_tape"].remedies] == ["@tf.function\ndef with_a_tape():"]
    assert "run_eagerly of Sequential is True" in by_text["run_eagerly"].text
    assert "seen may read, show or keep a tensor's value" in by_text["run_eagerly"].advice
    assert not any(remedy.code for name in ("with_a_helper", "with_a_number", "run_eagerly")
                   for remedy in by_text[name].remedies)  # fmt: skip


SWITCHED = """
    import tensorflow as tf


    @tf.function
    def step(x):
        return shown(x * 2)


    def shown(x):
        print(x.numpy())
        return x


    tf.config.run_functions_eagerly(True)
    tf.config.run_functions_eagerly(False)
    off = tf.function(lambda x: x * 2)
    for _ in range(4):
        off(tf.ones(2))
    tf.config.experimental_run_functions_eagerly(True)
    for _ in range(4):
        step(tf.ones(2))
    tf.config.run_functions_eagerly(False)
"""


def test_a_switch_counts_while_functions_run_and_stays_where_they_read_values(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(SWITCHED))
    done = warm("tensorflow", ["coldstep", "run", "-o", "run.pftrace", "program.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    trace = coldstep.load(tmp_path / "run.pftrace")
    [row] = [row for row in trace.findings if row.kind == "uncompiled"]
    assert row.text.startswith("tf.config.run_functions_eagerly(True): step is a tf.function")
    assert row.location is not None
    assert "experimental" in trace.code[row.location.file, row.location.line]
    assert "shown may read, show or keep a tensor's value" in row.advice
    assert not any(remedy.code for remedy in row.remedies)
