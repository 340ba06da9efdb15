"""Calibrates the sensors of a plant, each of which has parameters of its own."""

import jax
import jax.numpy as jnp

SENSORS = 100


def residual(sensor, reading, truth):
    curved = sensor["gain"] * reading + sensor["bend"] * jnp.square(reading) + sensor["offset"]
    return jnp.mean(jnp.square(curved - truth))


@jax.jit
def update(sensors, readings, truths):
    def total(sensors):
        return sum(map(residual, sensors, readings, truths)) / SENSORS

    value, gradients = jax.value_and_grad(total)(sensors)
    return jax.tree.map(lambda sensor, gradient: sensor - 5.0 * gradient, sensors, gradients), value


sensors = [{"gain": jnp.float32(1.0), "bend": jnp.float32(0.0), "offset": jnp.float32(0.0)} for _ in range(SENSORS)]
readings = list(jax.random.uniform(jax.random.key(0), (SENSORS, 20)))
truths = [1.2 * reading - 0.1 for reading in readings]
for _ in range(3):
    sensors, value = update(sensors, readings, truths)
    print("loss", repr(float(value)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/4667"
# asked = "Functions of pytrees are slow to compile. Is there a solution (asked in 2024)?"
# answer = """\
# Compile time grows with the number of arrays, not with their size: fewer arrays (stack them)."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "map(residual"
# before = ""
# after = ""
# line = 17
# lines_accepted = [9, 14, 16, 20, 23, 24, 27]
# compiles = [1, 1]
# counted = "seconds that XLA compiles update: 6.4 to 1.3"
# cure = "One array for each parameter, and vmap."
# cure_lines = [
#   {line = 17, code = "        return jax.vmap(residual)(sensors, readings, truths).sum() / SENSORS"},
#   {line = 23, code = '''
# zeros = jnp.zeros(SENSORS)
# sensors = {"gain": zeros + 1, "bend": zeros, "offset": zeros}'''},
#   {line = 24, code = "readings = jax.random.uniform(jax.random.key(0), (SENSORS, 20))"},
#   {line = 25, code = "truths = 1.2 * readings - 0.1"},
# ]
# cure_environment = {}
# losses = "close"
# ///
