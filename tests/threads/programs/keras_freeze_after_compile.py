"""Fine-tune a Keras model: train all of it first, then freeze the body and train the head alone."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(32, 4)).astype("float32")
y = rng.normal(size=(32, 1)).astype("float32")

body = keras.layers.Dense(8, activation="tanh")
head = keras.layers.Dense(1)
model = keras.Sequential([keras.Input((4,)), body, head])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
for epoch in range(4):
    if epoch == 2:
        body.trainable = False
    before = body.kernel.numpy()
    loss = model.train_on_batch(x, y)
    print("loss", repr(float(loss)))
    print("value", repr(float(np.abs(body.kernel.numpy() - before).sum())))
# /// thread
# address = "https://github.com/keras-team/keras/pull/22413"
# asked = "Setting trainable to False after compile() changes nothing in training and gives no warning."
# answer = "The compiled train function keeps the trainable state of its trace; call compile() again after the change."
# stack = "tensorflow"
# mechanism = "module_attribute"
# argument = "body.trainable"
# before = "True"
# after = "False"
# line = 17
# lines_accepted = [14, 16, 19]
# compiles = [1, 2]
# counted = "traces of one_step_on_data (Keras' train function): one more, and wanted, with the cure"
# cure = "Call model.compile(...) again after changing trainable."
# cure_lines = [
#   {line = 17, code = """
#         body.trainable = False
#         model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")"""},
# ]
# cure_environment = {}
# losses = "other"
# ///
