"""A model that is compiled to run its steps eagerly."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
x, y = np.ones((16, 4), "float32"), np.ones((16, 1), "float32")
done = model.fit(x, y, batch_size=4, epochs=2, verbose=0)
for loss in done.history["loss"]:
    print("loss", round(loss, 3))
