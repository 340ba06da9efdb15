"""Draw samples with annealed Langevin dynamics: one compiled step, a smaller step size at each noise level."""

import tensorflow as tf

sigmas = [1.0, 0.6, 0.36, 0.2, 0.1]


@tf.function
def sample_one_step(x, noise, alpha):
    score = -(x - 1.5)
    return x + 0.5 * alpha * score + tf.sqrt(alpha) * noise


x = tf.zeros([8])
generator = tf.random.Generator.from_seed(7)
for sigma in sigmas:
    alpha = 0.02 * sigma**2 / sigmas[-1] ** 2
    for _ in range(3):
        x = sample_one_step(x, generator.normal([8]), alpha)
    print("value", repr(float(tf.reduce_mean(x))))
# /// thread
# address = "https://github.com/Xemnas0/NCSN-TF2.0/issues/26"
# asked = "The sampling loop can trigger tf.function's retracing warning: a step size goes into the compiled step."
# answer = "A Python number is part of the signature, so each new value makes a graph; pass it as a tensor."
# stack = "tensorflow"
# mechanism = "python_scalar"
# argument = "alpha"
# before = "1.9999999999999996"
# after = "0.7199999999999999"
# line = 19
# lines_accepted = [8, 9, 17]
# compiles = [5, 1]
# counted = "traces of sample_one_step (experimental_get_tracing_count)"
# cure = "Make the step size a tensor: tf.constant(alpha)."
# cure_lines = [{line = 19, code = "        x = sample_one_step(x, generator.normal([8]), tf.constant(alpha))"}]
# cure_environment = {}
# losses = "equal"
# ///
