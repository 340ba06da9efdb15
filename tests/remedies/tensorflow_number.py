import tensorflow as tf


@tf.function
def step(x, scale):
    return tf.reduce_sum(x * scale)


for i in range(5):
    scale = 0.5 * i
    y = step(tf.ones(3), scale)
    print("loss", float(y))
