"""A second trace, causes with both values, a stale global, numbers that compare equal, and XLA below a trace."""

import tensorflow as tf

import coldstep

RATE = 0.1


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = None

    @tf.function
    def __call__(self, x):
        if self.w is None:
            self.w = tf.Variable(tf.ones((4, 4)), name="w")
        return tf.tanh(x @ self.w)


@tf.function
def train_step(batch, scale):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch["x"]) ** 2) * scale
    model.w.assign_sub(RATE * tape.gradient(loss, model.w))
    return loss


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 64])])
def score(x):
    return tf.reduce_sum(tf.tanh(x @ tf.ones((64, 64))))


model = Model()
model(tf.ones((8, 4)))
for n in range(4):
    with coldstep.step():
        coldstep.wait(train_step({"x": tf.ones((8 if n < 3 else 5, 4))}, 1.0 if n else 1))
    if n == 1:
        RATE = 0.05
for size in (4, 6):
    with coldstep.step("score"):
        coldstep.wait(score(tf.ones((size, 64))))
