"""Samples a regression's posterior by Hamiltonian Monte Carlo, one step after the other, as a first example does."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class HMCState(NamedTuple):
    position: dict
    logdensity: jax.Array


class HMC(NamedTuple):
    init: callable
    step: callable


def hmc(logdensity_fn, step_size, num_integration_steps):
    grad_fn = jax.grad(logdensity_fn)

    def kick(momentum, position, size):
        return jax.tree.map(lambda m, g: m + size * g, momentum, grad_fn(position))

    def energy(momentum):
        return 0.5 * sum(jnp.sum(m**2) for m in jax.tree.leaves(momentum))

    def init(position):
        return HMCState(position, logdensity_fn(position))

    def step(rng_key, state):
        key_momentum, key_accept = jax.random.split(rng_key)
        keys = dict(zip(state.position, jax.random.split(key_momentum, len(state.position)), strict=True))
        momentum = {name: jax.random.normal(keys[name], jnp.shape(x)) for name, x in state.position.items()}
        before, position = energy(momentum), state.position
        for _ in range(num_integration_steps):
            momentum = kick(momentum, position, 0.5 * step_size)
            position = jax.tree.map(lambda x, m: x + step_size * m, position, momentum)
            momentum = kick(momentum, position, 0.5 * step_size)
        proposal = HMCState(position, logdensity_fn(position))
        log_accept = proposal.logdensity - energy(momentum) - state.logdensity + before
        accept = jnp.log(jax.random.uniform(key_accept)) < log_accept
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), proposal, state)

    return HMC(init, step)


observed = np.random.default_rng(0).normal(10.0, 2.0, size=200).astype("float32")


def logdensity_fn(x):
    scale = jnp.exp(x["log_scale"])
    return jnp.sum(-0.5 * ((observed - x["loc"]) / scale) ** 2 - x["log_scale"])


nuts = hmc(logdensity_fn, 0.02, 4)
state = nuts.init({"loc": jnp.float32(9.0), "log_scale": jnp.float32(1.0)})

rng_key = jax.random.key(0)
step = jax.jit(nuts.step)
for i in range(20):
    nuts_key = jax.random.fold_in(rng_key, i)
    state = nuts.step(nuts_key, state)
    if i % 5 == 4:
        print("value", repr(float(state.position["loc"])))
# /// thread
# address = "https://github.com/blackjax-devs/blackjax/pull/711"
# asked = "The first page's example runs slowly."
# answer = "The jitted step remained unused, and nuts.step ran uncompiled; call step, which is thirty times as fast."
# stack = "jax"
# mechanism = "silent_eager"
# argument = "nuts.step"
# before = ""
# after = ""
# line = 64
# lines_accepted = [32, 61, 62]
# compiles = [42, 12]
# counted = "compiles (jax_log_compiles); those left are of init, the keys and step itself"
# cure = "Call the jitted step."
# cure_lines = [
#   {line = 64, code = "    state = step(nuts_key, state)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
