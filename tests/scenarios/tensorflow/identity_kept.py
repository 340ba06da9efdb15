"""Two configuration objects that stay alive: a variant each, and going back compiles nothing."""
# expect: identity config "Config #1" -> "Config #2"

import tensorflow as tf


class Config:
    scale = 2.0


@tf.function
def model(x, config):
    return x * config.scale


one, other = Config(), Config()
for config in (one, other, one):
    model(tf.ones(2), config)
