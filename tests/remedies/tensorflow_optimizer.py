import keras
import tensorflow as tf

place = tf.Variable(1.0)


@tf.function
def step():
    optimizer = keras.optimizers.SGD(0.1, momentum=0.0)
    with tf.GradientTape() as tape:
        loss = place * place
    optimizer.apply_gradients([(tape.gradient(loss, place), place)])
    return loss


def by_hand():
    loss = place * place
    place.assign_sub(0.1 * 2 * place)
    return loss


for _ in range(4):
    try:
        loss = step()
    except ValueError:
        loss = by_hand()
    print("loss", round(float(loss), 5))
