"""Train a two-headed Keras model in stages, with the loss weight of the second head rising from stage to stage."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(16, 3)).astype("float32")
y_a = rng.normal(size=(16, 1)).astype("float32")
y_b = rng.normal(size=(16, 1)).astype("float32")


def make_weights():
    return [1.0, 0.0]


def set_weight(weights, value):
    weights[1] = value


inputs = keras.Input((3,))
model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
weights = make_weights()
model.compile(optimizer=keras.optimizers.SGD(0.05), loss=["mse", "mse"], loss_weights=weights)
for stage in range(4):
    set_weight(weights, 0.5 * stage)
    for _ in range(2):
        losses = model.train_on_batch(x, [y_a, y_b])
    model.reset_metrics()
    print("loss", repr(float(losses[0])))
# /// thread
# address = "https://github.com/keras-team/keras/issues/20294"
# asked = "Loss weights that are changed between calls of fit have no effect on a compiled model with several outputs."
# answer = "Python numbers go into the compiled step once; use a keras.Variable for each weight and assign to it."
# stack = "tensorflow"
# mechanism = "baked_constant"
# argument = "loss_weights"
# before = "0.0"
# after = "0.5"
# line = 18
# lines_accepted = [14, 24, 26, 28]
# compiles = [2, 2]
# counted = "traces of one_step_on_data (Keras' train function): stages 2 to 4 have a wrong loss without the cure"
# cure = "Make the weights keras.Variables and assign the new value."
# cure_lines = [
#   {line = 14, code = "    return [keras.Variable(1.0), keras.Variable(0.0)]"},
#   {line = 18, code = "    weights[1].assign(value)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
