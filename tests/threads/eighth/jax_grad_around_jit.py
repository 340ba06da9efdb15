"""Descends on a jitted function by its gradient, as with autograd."""

import jax
import jax.numpy as jnp


@jax.jit
def energy(x):
    stretch = x[1:] - x[:-1]
    return jnp.sum(stretch**2) + 0.1 * jnp.sum(jnp.cos(x)) + jnp.sum(jnp.exp(-(x**2)))


gradient = jax.grad(energy)

x = jnp.linspace(-1.0, 2.0, 50)
for step in range(300):
    x = x - 0.05 * gradient(x)
    if step % 60 == 0:
        print("loss", repr(float(energy(x))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/14185"
# asked = "With jit the gradient of a simple function still is ten times slower than autograd's: can one fix it?"
# answer = """\
# Put jax.jit outside of jax.grad: the more is under a jit, the more is staged out for compilation."""
# stack = "jax"
# mechanism = "silent_eager"
# argument = "gradient"
# before = ""
# after = ""
# line = 13
# lines_accepted = [17, 8]
# compiles = [300, 1]
# counted = "calls that JAX differentiates in Python (seconds of the loop: 1.0 to 0.1)"
# cure = "Jit the gradient."
# cure_lines = [
#   {line = 13, code = "gradient = jax.jit(jax.grad(energy))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
