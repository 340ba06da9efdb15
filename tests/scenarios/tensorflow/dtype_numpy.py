"""A number of NumPy's is a tensor: its type counts, its value does not."""
# expect: dtype x f32[] -> f64[]

import numpy as np
import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


for value in (np.float32(1), np.float32(2), np.float64(1)):
    train_step(value)
