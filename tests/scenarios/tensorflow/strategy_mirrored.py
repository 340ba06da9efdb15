"""Two replicas: each batch is shared out among them, and the last one is smaller."""
# expect: shape x[0] f32[4,4] -> f32[2,4]
# settles: 1
# pattern: last_batch

import tensorflow as tf

import coldstep

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    w = tf.Variable(tf.ones((4, 4)))


@tf.function
def train_step(x):
    losses = strategy.run(lambda x: tf.reduce_mean((x @ w) ** 2), (x,))
    return strategy.reduce("MEAN", losses, axis=None)


data = tf.data.Dataset.from_tensor_slices(tf.ones((36, 4))).batch(8)
for batch in strategy.experimental_distribute_dataset(data):
    with coldstep.step():
        coldstep.wait(train_step(batch))
