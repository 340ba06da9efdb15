"""Draws from a posterior by random walk for each observation that arrives, with a sampler that caches what it jits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def model(parameters, y_obs):
    mu, log_sigma = parameters
    sigma = jnp.exp(log_sigma)
    prior = -0.5 * mu**2 - 0.5 * log_sigma**2
    return prior - log_sigma - 0.5 * jnp.square((y_obs - mu) / sigma)


def sample_chain(args, key, init, runtime_args, num_samples, log_density):
    args = args if runtime_args is None else runtime_args

    def kernel(state, key):
        key_step, key_accept = jax.random.split(key)
        proposal = state + 0.5 * jax.random.normal(key_step, state.shape)
        ratio = log_density(proposal, *args) - log_density(state, *args)
        state = jnp.where(jnp.log(jax.random.uniform(key_accept)) < ratio, proposal, state)
        return state, state

    return jax.lax.scan(kernel, init, jax.random.split(key, num_samples))[1]


class MCMC:
    def __init__(self, log_density, num_samples, jit_model_args=False):
        self.log_density = log_density
        self.num_samples = num_samples
        self.jit_model_args = jit_model_args
        self._cache = {}

    def _get_cached_fn(self, args):
        key = None if self.jit_model_args else tuple(float(each) for each in args)
        if key not in self._cache:
            sample = partial(sample_chain, args, num_samples=self.num_samples, log_density=self.log_density)
            self._cache[key] = jax.jit(sample)
        return self._cache[key]

    def run(self, key, *args):
        sample = self._get_cached_fn(args)
        return sample(key, jnp.zeros(2), args if self.jit_model_args else None)


rng = np.random.default_rng(0)
mcmc = MCMC(model, num_samples=50)
for _ in range(6):
    samples = mcmc.run(jax.random.key(0), rng.normal())
    print("value", repr(float(samples[:, 0].mean())))
# /// thread
# address = "https://github.com/pyro-ppl/numpyro/issues/1347"
# asked = "MCMC is run again and again with new observations, and memory grows; how can that be prevented?"
# answer = """\
# Each new observation makes and jits a sampler of its own; pass jit_model_args=True, so that the model's \
# arguments are traced."""
# stack = "jax"
# mechanism = "new_function"
# argument = "sample_chain"
# before = "sample_chain"
# after = "sample_chain"
# line = 41
# lines_accepted = [38, 40, 45, 46, 50, 52]
# compiles = [6, 1]
# counted = "compiles of sample_chain (jax_log_compiles)"
# cure = "Trace the model's arguments."
# cure_lines = [
#   {line = 50, code = "mcmc = MCMC(model, num_samples=50, jit_model_args=True)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
