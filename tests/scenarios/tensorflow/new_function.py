"""A tf.function made in the loop."""
# expect: new_function - "train_step #1" -> "train_step #2"
# expect: new_function - "train_step #2" -> "train_step #3"

import tensorflow as tf

for _ in range(3):

    @tf.function
    def train_step(x):
        return x * 2

    train_step(tf.ones(2))
