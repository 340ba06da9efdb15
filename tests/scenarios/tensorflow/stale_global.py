"""A global changes, and the graph does not see it."""
# expect: nothing
# finding: stale_capture

import tensorflow as tf

RATE = 0.1


@tf.function
def train_step(x):
    return x * RATE


for rate in (0.1, 0.05):
    RATE = rate
    train_step(tf.ones(2))
