"""Sums the series of a lens model's deflections in a jitted function."""

import jax
import jax.numpy as jnp


@jax.jit
def deflection(angle, flattening):
    term = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    total = term
    turn = jnp.stack([jnp.cos(2.0 * angle), jnp.sin(2.0 * angle)])
    for i in range(1, 60):
        factor = -flattening * (2.0 * i - 1.0) / (2.0 * i + 1.0)
        term = factor * jnp.stack([term[0] * turn[0] - term[1] * turn[1], term[0] * turn[1] + term[1] * turn[0]])
        total = total + term
    return total


angles = jnp.linspace(0.1, 3.0, 64)
for flattening in (0.1, 0.2, 0.3):
    print("value", repr(float(deflection(angles, flattening).sum())))
# /// thread
# address = "https://github.com/Herculens/herculens/pull/29"
# asked = "The compiler takes long for the series of the elliptical power law."
# answer = """\
# The JIT compiler needs to unroll the entire for loop; with jax.lax.fori_loop it does not, which saves a lot \
# of time."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(1, 60)"
# before = ""
# after = ""
# line = 12
# lines_accepted = [7, 8, 14, 15, 21]
# compiles = [59, 1]
# counted = "copies of the loop's body in the jaxpr of deflection"
# cure = "Loop with jax.lax.fori_loop."
# cure_lines = [
#   {line = 12, code = """
#     def add(i, carry):
#         term, total = carry"""},
#   {line = 13, code = "        factor = -flattening * (2.0 * i - 1.0) / (2.0 * i + 1.0)"},
#   {line = 15, code = """
#         return term, total + term
# """},
#   {line = 16, code = "    return jax.lax.fori_loop(1, 60, add, (term, total))[1]"},
# ]
# cure_environment = {}
# losses = "close"
# ///
