"""The step stands in the program's own loop, in no function."""

# shows: rules.tensorflow_eager _APART
import tensorflow as tf

w = tf.Variable(tf.ones([4, 1]))
x = tf.ones([8, 4])
y = tf.zeros([8, 1])
opt = tf.keras.optimizers.SGD(0.1)
for _ in range(200):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
    grads = tape.gradient(loss, [w])
    opt.apply_gradients([(grads[0], w)])
print("loss", float(loss))
