"""Variables made before: one trace."""
# expect: nothing
# settles: 1

import tensorflow as tf

import coldstep


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones((3, 3)))

    @tf.function
    def __call__(self, x):
        return x @ self.w


model = Model()
for _ in range(4):
    with coldstep.step():
        coldstep.wait(model(tf.ones((2, 3))))
