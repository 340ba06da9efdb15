import tensorflow as tf

w = tf.Variable(tf.ones([4]))


@tf.function
def step(x, epoch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((x * w) ** 2) * (1.0 / (1 + epoch))
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


for epoch in range(5):
    loss = step(tf.ones(4), epoch)
    print("loss", float(loss))
