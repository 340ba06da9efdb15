import tensorflow as tf


@tf.function(jit_compile=True)
def energy(signal, start):
    window = tf.slice(signal, [0, start], [4, 16])  # of each row
    return tf.reduce_sum(tf.square(window))


signal = tf.reshape(tf.range(200, dtype=tf.float32), (4, 50))
for start in (0, 5, 20, 30):
    print("loss", float(energy(signal, tf.constant(start))))
