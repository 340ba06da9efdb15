"""Evaluate the residual of an equilibrium at trial boundaries, each with the configuration that its run makes."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True, eq=False)
class ImplicitConfig:
    modes: int
    damping: float


@partial(jax.jit, static_argnames="config")
def residual(boundary, config):
    state = boundary
    for mode in range(config.modes):
        state = state - config.damping * jnp.sin((mode + 1) * state)
    return jnp.sum(state**2)


def make_config(modes=3):
    return ImplicitConfig(modes=modes, damping=0.1)


def run(boundary):
    config = make_config()
    return residual(boundary, config)


boundary = jnp.linspace(0.1, 0.5, 8)
for trial in range(5):
    print("value", repr(float(run(boundary * (1.0 + 0.01 * trial)))))
# /// thread
# address = "https://github.com/uwplasma/vmex/pull/199"
# asked = "The implicit solver compiles again at every trial of an optimization (400 compiles in a warm campaign)."
# answer = """\
# The configuration is a static argument, its class has eq=False and each evaluation makes a new instance, so the \
# caches, which go by identity, miss; let equal configurations be equal."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "config"
# before = ""
# after = ""
# line = 10
# lines_accepted = [16, 17, 25, 29, 30, 35]
# compiles = [5, 1]
# counted = "XLA compiles of jit(residual)"
# cure = "Let the dataclass compare by value (without eq=False)."
# cure_lines = [
#   {line = 10, code = "@dataclasses.dataclass(frozen=True)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
