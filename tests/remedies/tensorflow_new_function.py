import tensorflow as tf


def evaluate(weights, steps):
    @tf.function
    def loss():
        return tf.reduce_sum(weights[0] * weights[0])

    for _ in range(steps):
        value = loss()
        weights[0].assign_sub(0.1 * weights[0])
    return value


weight = tf.Variable(tf.ones(3))
for _ in range(4):
    print("loss", float(evaluate([weight], 2)))
