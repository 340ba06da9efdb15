"""A function within another is a part of it, and is alone what it was."""
# expect: nothing

import tensorflow as tf


@tf.function
def inner(x):
    return x * 2


@tf.function
def outer(x):
    return inner(x) + inner(x)


outer(tf.ones(2))
inner(tf.ones(2))
