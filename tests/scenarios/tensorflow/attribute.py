"""An attribute that has changed when the method is wrapped again."""
# expect: module_attribute self.scale 2.0 -> 3.0

import tensorflow as tf


class Model:
    def __init__(self):
        self.scale = 2.0

    def step(self, x):
        return x * self.scale


model = Model()
tf.function(model.step)(tf.ones(2))
model.scale = 3.0
tf.function(model.step)(tf.ones(2))
