"""Price a call option by Monte Carlo with a jitted path simulation, at a few strikes."""

import jax
import jax.numpy as jnp

n_steps = 12
n_paths = 64


@jax.jit
def call_price(key, strike):
    mu, rho, nu, h0 = 0.0001, 0.1, 0.001, -4.0
    s = jnp.full((n_paths,), jnp.log(10.0))
    h = jnp.full((n_paths,), h0)
    for _ in range(n_steps):
        key, subkey = jax.random.split(key)
        z = jax.random.normal(subkey, (2, n_paths))
        s = s + mu + 0.01 * jnp.exp(h) * z[0]
        h = rho * h + nu * z[1]
    return jnp.mean(jnp.maximum(jnp.exp(s) - strike, 0.0))


key = jax.random.key(1)
for strike in [9.5, 10.0, 10.5]:
    print("value", repr(float(call_price(key, strike))))
# /// thread
# address = "https://github.com/QuantEcon/lecture-python-programming/pull/442"
# asked = "The cell that prices an option with a jitted function runs into the build's time limit of 600 seconds."
# answer = "jit unrolls the Python for loop, so the program grows with the steps; use jax.lax.fori_loop."
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(n_steps)"
# before = ""
# after = ""
# line = 15
# lines_accepted = [10, 11, 16, 17, 18, 19, 25]
# compiles = [12, 1]
# counted = "copies of the loop's body in the one program of call_price (random_split equations in its jaxpr)"
# cure = "Write the loop as jax.lax.fori_loop with (key, s, h) as its carry."
# cure_lines = [
#   {line = 15, code = "    def body(_, carry):\n        key, s, h = carry"},
#   {line = 19, code = """
#         h = rho * h + nu * z[1]
#         return key, s, h
#
#     key, s, h = jax.lax.fori_loop(0, n_steps, body, (key, s, h))"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
