"""Solves for the roots of functions that are assigned to one solver, whose step is jitted as a method."""

from functools import partial

import jax
import jax.numpy as jnp


class Newton:
    def assign_fn(self, fn):
        self.fn = fn

    @partial(jax.jit, static_argnums=(0,))
    def step(self, x):
        value, slope = jax.value_and_grad(self.fn)(x)
        return x - value / slope

    def solve(self, x, steps=8):
        for _ in range(steps):
            x = self.step(x)
        return x


solver = Newton()
for fn in (lambda x: x**2 - 2.0, lambda x: x**2 - 3.0, lambda x: jnp.cos(x) - x):
    solver.assign_fn(fn)
    root = solver.solve(jnp.float32(1.0))
    print("value", repr(float(root)), repr(float(fn(root))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/9023"
# asked = "A jitted method goes on with the old function after another one is assigned to the object."
# answer = """\
# A static argument is evaluated again only where its hash changes, and the object's hash does not change with its fn: \
# pass the function as a static argument."""
# stack = "jax"
# mechanism = "baked_constant"
# argument = "self.fn"
# before = ""
# after = ""
# line = 13
# lines_accepted = [15, 11, 26, 20]
# compiles = [1, 3]
# counted = "compiles of step (jax_log_compiles): the cure's two more are wanted, the values were wrong"
# cure = "Pass the function, static as well."
# cure_lines = [
#   {line = 13, code = "    @partial(jax.jit, static_argnums=(0, 1))"},
#   {line = 14, code = "    def step(self, fn, x):"},
#   {line = 15, code = "        value, slope = jax.value_and_grad(fn)(x)"},
#   {line = 20, code = "            x = self.step(self.fn, x)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
