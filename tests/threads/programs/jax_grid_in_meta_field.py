"""Evaluate a field on a grid that travels with its values as a dataclass through jit."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass
class Field:
    values: jax.Array
    grid: jax.Array


jax.tree_util.register_dataclass(Field, data_fields=["values"], meta_fields=["grid"])


@jax.jit
def energy(field):
    return jnp.sum(field.values**2) * (field.grid[1] - field.grid[0])


for i in range(4):
    grid = jnp.linspace(0.0, 1.0, 8)
    field = Field(values=jnp.sin((i + 1) * grid), grid=grid)
    print("value", repr(float(energy(field))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/24204"
# asked = "A jitted function with a static array field works at the first call and raises a ValueError at the second."
# answer = "Static fields are compared and hashed to find the cache entry, arrays cannot be; make it a data field."
# stack = "jax"
# mechanism = "pytree"
# argument = "field.grid"
# before = ""
# after = ""
# line = 15
# lines_accepted = [12, 18, 19, 25, 26]
# compiles = [1, 1]
# counted = "compiles of jit(energy) in JAX_LOG_COMPILES; without the cure the second call raises a ValueError"
# cure = "Register the grid as data: data_fields=[\"values\", \"grid\"], meta_fields=[]."
# cure_lines = [
#   {line = 15, code = "jax.tree_util.register_dataclass(Field, data_fields=[\"values\", \"grid\"], meta_fields=[])"},
# ]
# cure_environment = {}
# losses = "other"
# ///
