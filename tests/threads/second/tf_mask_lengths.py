"""Hide the ends of random length of some series and train a small encoder on them, compiled with XLA."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

steps = 12
tf.random.set_seed(0)
weights = tf.Variable(tf.random.normal((4, 4)))
series = tf.random.normal((6, steps, 4))


@tf.function(jit_compile=True)
def masked_loss(series):
    kept = tf.random.uniform((6,), 4, steps + 1, dtype=tf.int32)
    mask = tf.sequence_mask(kept, dtype=tf.float32)
    mask = tf.pad(mask, [[0, 0], [0, steps - tf.shape(mask)[1]]])
    hidden = tf.tanh(series @ weights) * mask[:, :, None]
    return tf.reduce_mean(tf.square(hidden - series))


print("value", repr(float(tf.reduce_mean(tf.square(series)))))
for _ in range(3):
    try:
        print("loss", repr(float(masked_loss(series))))
    except tf.errors.InvalidArgumentError as error:
        print("failed:", error.message.splitlines()[0][:100])
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/122057"
# asked = "Functions that run in eager mode fail with jit_compile=True: an input must be a compile-time constant."
# answer = """\
# XLA needs static shapes, and the mask's length comes from data-dependent values; give tf.sequence_mask a static \
# maxlen, with which the same lengths compile."""
# stack = "tensorflow"
# mechanism = "other: operand that XLA needs at compile time"
# argument = "kept"
# before = ""
# after = ""
# line = 18
# lines_accepted = [15, 16, 17, 27]
# compiles = [0, 1]
# counted = "programs that XLA compiled (without the cure each call fails while compiling)"
# cure = "Pass maxlen=steps to tf.sequence_mask."
# cure_lines = [
#   {line = 18, code = "    mask = tf.sequence_mask(kept, maxlen=steps, dtype=tf.float32)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
