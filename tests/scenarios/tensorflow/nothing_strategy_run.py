"""Called by itself, then by a strategy of two replicas, which traces it as a part of its own function."""
# expect: nothing

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
train_step(tf.ones(2))
for _ in range(2):
    strategy.run(train_step, (tf.ones(2),))
