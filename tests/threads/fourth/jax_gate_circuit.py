"""Simulates a circuit of rotations of one qubit in a jitted function."""

import jax
import jax.numpy as jnp


def apply_gate(state, angle):
    cosine, sine = jnp.cos(angle / 2.0), jnp.sin(angle / 2.0)
    return jnp.stack([jnp.stack([cosine, -sine]), jnp.stack([sine, cosine])]) @ state


@jax.jit
def circuit(state, angles):
    for angle in angles:
        state = apply_gate(state, angle)
    return state[0] ** 2 - state[1] ** 2


for seed in range(3):
    angles = jax.random.normal(jax.random.key(seed), (48,))
    print("value", repr(float(circuit(jnp.array([1.0, 0.0]), angles))))
# /// thread
# address = "https://github.com/pasqal-io/horqrux/issues/19"
# asked = "Use apply_gate via jax.lax.scan."
# answer = """\
# jax.lax.scan is the equivalent of for loops and is recommended for tensor manipulations; all for loops \
# should be replaced by it."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "angles"
# before = ""
# after = ""
# line = 14
# lines_accepted = [12, 13, 15, 21]
# compiles = [48, 1]
# counted = "copies of apply_gate in the jaxpr of circuit"
# cure = "Apply the gates in a jax.lax.scan."
# cure_lines = [
#   {line = 14, code = """
#     state, _ = jax.lax.scan(lambda state, angle: (apply_gate(state, angle), None), state, angles)"""},
#   {line = 15, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
