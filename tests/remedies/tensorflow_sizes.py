import tensorflow as tf


@tf.function
def step(x, y):
    return tf.reduce_sum(x) + tf.reduce_sum(y)


for n in (3, 4, 5, 6):
    print("loss", float(step(tf.ones([n, 4]), tf.ones(2))))
