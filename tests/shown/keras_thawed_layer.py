"""A layer is frozen in the first stage of a training, and not in the second."""

# shows: rules.tensorflow REMEDIES[trainable of Keras]
import keras
import numpy as np

keras.utils.set_random_seed(0)
m = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)])
x = np.ones((16, 4), "float32")
y = np.ones((16, 1), "float32")
for frozen in (True, False):
    m.layers[0].trainable = not frozen
    m.compile("sgd", "mse")
    h = m.fit(x, y, batch_size=8, epochs=1, verbose=0)
    print("loss", h.history["loss"][-1])
