"""Cut windows from a long signal at changing positions with an XLA-compiled function."""

import tensorflow as tf


@tf.function(jit_compile=True)
def window_energy(signal, start):
    window = tf.slice(signal, [start], [16])
    return tf.reduce_sum(tf.square(window))


signal = tf.sin(tf.range(200, dtype=tf.float32) / 7.0)
starts = [0, 5, 40, 41, 90, 150]
for start in starts:
    print("value", repr(float(window_energy(signal, tf.constant(start)))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/76070"
# asked = "tf.slice with a tensor as start makes XLA compile at each call, although the sizes stay the same."
# answer = "XLA's tf.slice needs its start at compile time; xla.dynamic_slice takes it at run time and compiles once."
# stack = "tensorflow"
# mechanism = "baked_constant"
# argument = "start"
# before = "0"
# after = "5"
# line = 8
# lines_accepted = [6, 7, 15]
# compiles = [6, 1]
# counted = "XLA compiles of window_energy in TF_CPP_VMODULE=device_compilation_profiler=1 (tf.function traces it once)"
# cure = "Replace tf.slice by xla.dynamic_slice of tensorflow.compiler.tf2xla.python, whose start is a run-time value."
# cure_lines = [
#   {line = 3, code = "import tensorflow as tf\nfrom tensorflow.compiler.tf2xla.python import xla"},
#   {line = 8, code = "    window = xla.dynamic_slice(signal, [start], [16])"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
