"""Fits a line by gradient descent with a step that is jitted where it is called."""

import jax
import jax.numpy as jnp

x = jnp.linspace(0.0, 1.0, 32)
y = 3.0 * x - 1.0


def loss_fn(line):
    return jnp.mean((line[0] * x + line[1] - y) ** 2)


line = jnp.zeros(2)
for _ in range(6):
    step = jax.jit(lambda line: line - 0.5 * jax.grad(loss_fn)(line))
    line = step(line)
    print("loss", repr(float(loss_fn(line))))
# /// thread
# address = "https://github.com/patrick-kidger/equinox/issues/1141"
# asked = """\
# Is a Python loop with jax.jit in it the same as jax.lax loops, in runtime and compilation?"""
# answer = "No, it will recompile if you put the jit inside the for-loop."
# stack = "jax"
# mechanism = "new_function"
# argument = "lambda"
# before = ""
# after = ""
# line = 16
# lines_accepted = [15, 17]
# compiles = [6, 1]
# counted = "compiles of the lambda (jax_log_compiles)"
# cure = "Jit before the loop."
# cure_lines = [
#   {line = 15, code = """
# step = jax.jit(lambda line: line - 0.5 * jax.grad(loss_fn)(line))
# for _ in range(6):"""},
#   {line = 16, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
