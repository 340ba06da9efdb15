"""Models that are called themselves where that is as it should be: within a tf.function, not compiled, run eagerly on
request, to build another model, with a `call` that is a tf.function."""
# expect: nothing

import keras
import tensorflow as tf


def layers():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


x = tf.ones((8, 4))
plain, eager, compiled, whole = layers(), layers(), layers(), layers()
eager.compile("sgd", "mse", run_eagerly=True)
compiled.compile("sgd", "mse")
whole.compile("sgd", "mse")
whole.call = tf.function(whole.call)
inside = tf.function(lambda x: compiled(x))
for _ in range(6):
    for call in (plain, inside):
        call(x)
for _ in range(6):
    eager(x)
for _ in range(6):
    whole(x)
for _ in range(6):
    keras.Model(start := keras.Input((4,)), compiled(start))
