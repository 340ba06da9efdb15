"""A captured variable of Python changes, and the graph does not see it."""
# expect: nothing
# finding: stale_capture

import tensorflow as tf


def train():
    scale = 1.0

    @tf.function
    def step(x):
        return x * scale

    for _ in range(2):
        step(tf.ones(2))
        scale += 1.0


train()
