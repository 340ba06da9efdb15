"""The last batch is smaller."""
# expect: shape batch['x'] f32[8,4] -> f32[5,4]
# settles: 1
# pattern: last_batch

import tensorflow as tf

import coldstep


@tf.function
def train_step(batch):
    return tf.reduce_sum(batch["x"] ** 2)


for size in (8, 8, 8, 8, 5):
    with coldstep.step():
        coldstep.wait(train_step({"x": tf.ones((size, 4))}))
