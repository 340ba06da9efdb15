"""Compiles by TensorFlow: for the first time, for another shape, twice where a call makes a variable, by XLA alone."""
# mypy: ignore-errors

import tensorflow as tf

import coldstep

variables = []


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


@tf.function
def lazy(x):
    if not variables:
        variables.append(tf.Variable(2.0, name="scale"))
    return x * variables[0]


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
def open_step(x):  # traced once, for any size
    return tf.reduce_sum(tf.tanh(x))


for function, sizes in ((train_step, (8, 8, 5)), (lazy, (8,)), (open_step, (8, 8, 6))):
    for size in sizes:
        with coldstep.step():
            coldstep.wait(function(tf.ones(size)))
