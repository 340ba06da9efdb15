"""The first call makes its variable, and so is traced twice."""
# expect: nothing
# finding: second_trace

import tensorflow as tf

import coldstep


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = None

    @tf.function
    def __call__(self, x):
        if self.w is None:
            self.w = tf.Variable(tf.ones((3, 3)), name="w")
        return x @ self.w


model = Model()
for _ in range(3):
    with coldstep.step():
        coldstep.wait(model(tf.ones((2, 3))))
