"""A new configuration object in each step, though it says the same."""
# expect: identity config "Config #1" -> "Config #2"
# expect: identity config "Config #2" -> "Config #3"

import tensorflow as tf


class Config:
    scale = 2.0


@tf.function
def model(x, config):
    return x * config.scale


for _ in range(3):
    model(tf.ones(2), Config())
