"""What a function counts itself is no stale value."""
# expect: nothing

import tensorflow as tf


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.traces = 0

    @tf.function
    def step(self, x):
        self.traces += 1
        return x * 2


model = Model()
for _ in range(4):
    model.step(tf.ones(2))
