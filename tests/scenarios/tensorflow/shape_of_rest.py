"""One of any number of arguments."""
# expect: shape parts[1] f32[2] -> f32[3]

import tensorflow as tf


@tf.function
def join(*parts):
    return tf.concat(parts, 0)


join(tf.ones(2), tf.ones(2))
join(tf.ones(2), tf.ones(3))
