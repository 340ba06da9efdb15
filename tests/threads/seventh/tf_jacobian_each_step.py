"""Finds the equilibrium of a reaction network by Newton's method, with Jacobians of a tape."""

import tensorflow as tf


class Reactions:
    def __init__(self, species=4):
        self.rates = tf.random.stateless_uniform((species, species), (0, 1))
        self.feed = tf.linspace(0.5, 1.5, species)

    def residual(self, x):
        return self.feed - tf.linalg.matvec(self.rates, x**2) - x


def newton_step(reactions, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        residual = reactions.residual(x)
    jacobian = tape.jacobian(residual, x)
    update = tf.linalg.solve(jacobian, residual[:, None])[:, 0]
    return x - update, tf.norm(residual)


reactions = Reactions()
x = tf.ones(4)
for _ in range(8):
    x, error = newton_step(reactions, x)
    print("loss", repr(float(error)))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/42835"
# asked = "tf.GradientTape().jacobian() triggers retracing in each iteration of a loop."
# answer = """\
# jacobian (as vectorized_map) makes a new tf.function in each eager call, with no traces; call it within a \
# tf.function that is kept."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "jacobian"
# before = ""
# after = ""
# line = 19
# lines_accepted = [27, 15]
# compiles = [8, 1]
# counted = "traces of pfor's f (functions that func_graph_from_py_func traced)"
# cure = "Decorate newton_step with tf.function."
# cure_lines = [
#   {line = 15, code = """
# @tf.function
# def newton_step(reactions, x):"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
