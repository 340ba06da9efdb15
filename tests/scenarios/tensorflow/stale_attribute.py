"""An attribute changes, and the graph does not see it."""
# expect: nothing
# finding: stale_capture

import tensorflow as tf


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.rate = 0.1

    @tf.function
    def step(self, x):
        return x * self.rate


model = Model()
for rate in (0.1, 0.05):
    model.rate = rate
    model.step(tf.ones(2))
