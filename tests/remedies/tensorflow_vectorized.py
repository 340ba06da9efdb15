"""A Jacobian outside of any tf.function is a new function, and a new trace, in each call."""

import tensorflow as tf

rates = tf.constant([[0.5, 0.25], [0.125, 0.5]])


def newton(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        residual = 1.0 - tf.linalg.matvec(rates, x**2) - x
    jacobian = tape.jacobian(residual, x)
    return x - tf.linalg.solve(jacobian, residual[:, None])[:, 0]


x = tf.ones(2)
for _ in range(5):
    x = newton(x)
    print("loss", round(float(tf.reduce_sum(x)), 4))
