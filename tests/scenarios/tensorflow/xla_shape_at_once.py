"""Every call has another size: XLA compiles for each, and no call was ever quick."""
# expect: shape x f32[4,64] -> f32[5,64]
# expect: shape x f32[5,64] -> f32[6,64]

import tensorflow as tf

import coldstep


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 64])])
def train_step(x):
    for _ in range(4):
        x = tf.tanh(x @ tf.ones((64, 64)))
    return tf.reduce_sum(x)


for size in (4, 5, 6, 6):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((size, 64))))
