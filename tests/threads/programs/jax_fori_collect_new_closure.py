"""Draw samples in several batches with a small Metropolis sampler and check convergence between the batches."""

import jax
import jax.numpy as jnp


def log_density(z):
    return -0.5 * jnp.sum((z - 1.0) ** 2)


def sample_kernel(state):
    z, key = state
    key, k1, k2 = jax.random.split(key, 3)
    proposal = z + 0.5 * jax.random.normal(k1, z.shape)
    accept = jnp.log(jax.random.uniform(k2)) < log_density(proposal) - log_density(z)
    return jnp.where(accept, proposal, z), key


def fori_collect(body, init_state, num_samples):
    def collect(state):
        def one(i, carry):
            state, buffer = carry
            state = body(state)
            return state, buffer.at[i].set(state[0])

        buffer = jnp.zeros((num_samples, 2))
        return jax.lax.fori_loop(0, num_samples, one, (state, buffer))

    return jax.jit(collect)(init_state)


state = (jnp.zeros(2), jax.random.key(0))
for _ in range(5):
    state, samples = fori_collect(sample_kernel, state, 50)
    print("value", repr(float(samples.mean())))
# /// thread
# address = "https://github.com/pyro-ppl/numpyro/pull/2171"
# asked = "Every further MCMC.run() of the same sampler compiles the whole sampling loop again."
# answer = "fori_collect makes its loop function anew at each call and jit remembers by function; keep the function."
# stack = "jax"
# mechanism = "new_function"
# argument = "collect"
# before = ""
# after = ""
# line = 29
# lines_accepted = [20, 34]
# compiles = [5, 1]
# counted = "compiles of jit(collect) in JAX_LOG_COMPILES"
# cure = "Make the jitted loop once for a body and a length: functools.cache on the function that builds it."
# cure_lines = [
#   {line = 3, code = "import functools\n\nimport jax"},
#   {line = 19, code = "@functools.cache\ndef make_collect(body, num_samples):"},
#   {line = 29, code = "    return jax.jit(collect)"},
#   {line = 34, code = "    state, samples = make_collect(sample_kernel, 50)(state)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
