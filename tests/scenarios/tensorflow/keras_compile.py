"""model.compile() throws away what was traced."""
# expect: new_function - "Sequential.fit #1" -> "Sequential.fit #2"

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
for _ in range(2):
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    model.fit(np.ones((8, 4), "float32"), np.ones((8, 1), "float32"), batch_size=4, verbose=0)
