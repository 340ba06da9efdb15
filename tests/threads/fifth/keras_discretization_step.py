"""Trains a consistency model whose discretization gets finer with the training step that the model counts."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from keras import ops


class ConsistencyModel(keras.Model):
    def __init__(self, total_steps, s0=2, s1=12, sigma_max=3.0):
        super().__init__()
        self.total_steps, self.s0, self.s1, self.sigma_max = total_steps, s0, s1, sigma_max
        self.current_step = 0
        self.subnet = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(2)])

    def call(self, inputs):
        return self.subnet(inputs[:, :3])

    def schedule_discretization(self, step):
        """How many times there are at a step."""
        return self.s0 + (self.s1 - self.s0) * step / self.total_steps

    def consistency(self, x, t):
        skip = 1.0 / (1.0 + ops.square(t))
        return skip * x + (1.0 - skip) * self.subnet(ops.concatenate([x, t], axis=-1))

    def compute_loss(self, x, y=None, y_pred=None, sample_weight=None, training=True):
        self.current_step += 1
        num_times = self.schedule_discretization(self.current_step)
        later, noise, clean = x[:, 4:5], x[:, 2:4], x[:, :2]
        t1 = self.sigma_max * later
        t2 = t1 + self.sigma_max / num_times
        student = self.consistency(clean + t2 * noise, t2)
        teacher = ops.stop_gradient(self.consistency(clean + t1 * noise, t1))
        return ops.mean(ops.square(student - teacher)) + ops.mean(ops.square(student - clean))


keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
clean = rng.normal(size=(64, 2)) * np.array([1.0, 0.3])
x = np.concatenate([clean, rng.normal(size=(64, 2)), rng.random((64, 1))], axis=1).astype("float32")
model = ConsistencyModel(total_steps=24)
model(np.zeros((1, 5), "float32"))
model.compile(optimizer=keras.optimizers.SGD(0.05))
history = model.fit(x, np.zeros(64, "float32"), batch_size=16, epochs=6, shuffle=False, verbose=0)
for loss in history.history["loss"]:
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/bayesflow-org/bayesflow/issues/223"
# asked = "The training step of a consistency model is not tracked correctly when it is compiled."
# answer = "self.current_step += 1 runs while tracing alone; track the step as a variable, and update it with assign."
# stack = "tensorflow"
# mechanism = "module_attribute"
# argument = "current_step"
# before = "1"
# after = "2"
# line = 31
# lines_accepted = [16, 30, 32, 48]
# compiles = [1, 24]
# counted = "steps that current_step counts (the variable counts each)"
# cure = "Count in a variable."
# cure_lines = [
#   {line = 16, code = "        self.current_step = keras.Variable(0.0, trainable=False)"},
#   {line = 31, code = "        self.current_step.assign_add(1.0)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
