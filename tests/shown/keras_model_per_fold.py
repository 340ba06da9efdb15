"""Each fold of a cross-validation makes a model of its own."""

# shows: rules.tensorflow_keras _KEPT
import keras
import numpy as np

x = np.ones((16, 4), "float32")
y = np.ones((16, 1), "float32")
for fold in range(4):
    keras.utils.set_random_seed(fold)
    m = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    print("loss", m.fit(x, y, batch_size=8, verbose=0).history["loss"][-1])
