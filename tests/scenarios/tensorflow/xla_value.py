"""tf.slice under jit_compile: XLA has to know where the slice begins, and compiles for each start."""
# expect: baked_constant start 0 -> 5
# expect: baked_constant start 5 -> 40

import tensorflow as tf


@tf.function(jit_compile=True)
def energy(signal, start):
    window = tf.slice(signal, [start], [16])
    return tf.reduce_sum(tf.square(window))


signal = tf.sin(tf.range(200, dtype=tf.float32))
for start in (0, 5, 40):
    energy(signal, tf.constant(start))
