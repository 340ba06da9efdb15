"""Fits a table of probabilities to marginals that were measured with different noise."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@functools.partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["axis", "stddev"])
@dataclass
class Measurement:
    values: jax.Array
    axis: int
    stddev: float


def loss(logits, measurement):
    table = jax.nn.softmax(logits.ravel()).reshape(logits.shape)
    residual = table.sum(1 - measurement.axis) - measurement.values
    return jnp.sum(jnp.square(residual)) / measurement.stddev


@jax.jit
def update(logits, measurement):
    value, gradient = jax.value_and_grad(loss)(logits, measurement)
    return logits - 0.1 * gradient, value


logits = jnp.zeros((4, 4))
for turn, stddev in enumerate((1.0, 2.0, 0.5, 1.5, 3.0, 0.8)):
    noisy = jax.nn.softmax(jax.random.normal(jax.random.key(turn), (4,)))
    logits, value = update(logits, Measurement(noisy, axis=0, stddev=stddev))
    print("loss", repr(float(value)))
# /// thread
# address = "https://github.com/ryan112358/mbi/pull/196"
# asked = "Measurements that differ in their noise only compile the estimate again, and precompile() never helps."
# answer = """\
# stddev is static data of the pytree, and so part of jit's key: make it a dynamic leaf."""
# stack = "jax"
# mechanism = "pytree"
# argument = "stddev"
# before = "1.0"
# after = "2.0"
# line = 10
# lines_accepted = [11, 12, 15, 33]
# compiles = [6, 1]
# counted = "compiles of update (jax_log_compiles)"
# cure = "Make it a data field."
# cure_lines = [
#   {line = 10, code = '''
# fields = {"data_fields": ["values", "stddev"], "meta_fields": ["axis"]}
#
#
# @functools.partial(jax.tree_util.register_dataclass, **fields)'''},
# ]
# cure_environment = {}
# losses = "close"
# ///
