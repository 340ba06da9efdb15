"""For XLA, too, a first call that makes its variable is traced twice; it is compiled once."""
# expect: nothing
# finding: second_trace
# settles: 1

import tensorflow as tf

import coldstep


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = None

    @tf.function(jit_compile=True)
    def __call__(self, x):
        if self.w is None:
            self.w = tf.Variable(tf.ones((64, 64)), name="w")
        return tf.tanh(x @ self.w)


model = Model()
for _ in range(4):
    with coldstep.step():
        coldstep.wait(model(tf.ones((2, 64))))
