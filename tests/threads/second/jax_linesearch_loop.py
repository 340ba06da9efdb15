"""Fit a small curve with L-BFGS from Optax, one update after the other in a Python loop."""

import jax
import jax.numpy as jnp
import optax

x = jnp.linspace(-1.0, 1.0, 40)
y = jnp.sin(3.0 * x) + 0.3 * x


@jax.jit
def loss(params):
    prediction = params["amplitude"] * jnp.tanh(params["slope"] * x + params["shift"])
    return jnp.mean((prediction - y) ** 2)


solver = optax.lbfgs()
value_and_grad = jax.jit(jax.value_and_grad(loss))


def step(params, state):
    value, grad = value_and_grad(params)
    updates, state = solver.update(grad, state, params, value=value, grad=grad, value_fn=loss)
    return optax.apply_updates(params, updates), state, value


params = {"amplitude": jnp.array([1.0]), "slope": jnp.array([1.0]), "shift": jnp.array([0.1])}
state = solver.init(params)
for _ in range(6):
    params, state, value = step(params, state)
    print("loss", repr(float(value)))
# /// thread
# address = "https://github.com/pasteurlabs/mosaic/pull/19"
# asked = """\
# Long L-BFGS runs with Optax trace the line search again in each iteration until the host's memory is exhausted."""
# answer = """\
# The line search makes a new body for its while_loop at every call of solver.update, and the loop's cache goes \
# by the body's identity; wrap update and apply_updates in one jax.jit."""
# stack = "jax"
# mechanism = "new_function"
# argument = "solver.update"
# before = ""
# after = ""
# line = 23
# lines_accepted = [17, 21, 24, 30]
# compiles = [6, 2]
# counted = """\
# XLA compiles of the line search's loop: jit(while); with the cure as a part of jit(step), the second time \
# because the state that Optax starts with is weakly typed"""
# cure = "Decorate the function that calls solver.update with jax.jit."
# cure_lines = [
#   {line = 21, code = """
# @jax.jit
# def step(params, state):"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
