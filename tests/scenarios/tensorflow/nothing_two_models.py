"""A decorated method of two objects: a function each, and each its first."""
# expect: nothing

import tensorflow as tf


class Model(tf.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = tf.Variable(scale)

    @tf.function
    def step(self, x):
        return x * self.scale


models = [Model(1.0), Model(2.0)]
for _ in range(2):
    for model in models:
        model.step(tf.ones(2))
