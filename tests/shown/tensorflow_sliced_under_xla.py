"""XLA needs where a slice ends."""

# shows: rules.tensorflow REMEDIES[baked_constant]
import tensorflow as tf


@tf.function(jit_compile=True)
def f(x, n):
    return tf.reduce_sum(x[:n] * 2.0)


x = tf.ones([24])
for n in (2, 3, 4):
    print("loss", float(f(x, tf.constant(n))))
