"""Traces for other shapes and numbers, twice in a first call, under a tape, and compiles by XLA alone."""

import tensorflow as tf

import coldstep

variables = []


@tf.function
def plain(x, n):
    return tf.reduce_sum(x) * n


@tf.function
def lazy(x):
    if not variables:
        variables.append(tf.Variable(2.0))
    return tf.reduce_sum(x * variables[0])


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
def jitted(x):
    return tf.reduce_sum(tf.tanh(x))


@tf.function
def forward(x):
    return tf.reduce_sum(x * x)


for function, *values in (
    (plain, 37, 2),
    (plain, 38, 2),
    (plain, 38, 3),
    (plain, 38, 3.0),
    (lazy, 4),
    (jitted, 4),
    (jitted, 5),
):
    with coldstep.step():
        print(coldstep.wait(function(tf.ones(values[0]), *values[1:])).numpy())
for _ in range(2):
    with coldstep.step("other"):
        x = tf.ones(6)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = forward(x)
        print(tape.gradient(loss, x).numpy())
