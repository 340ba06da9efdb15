"""Run a small recurrent filter for many steps and collect one number of it with jax.debug.callback."""

import jax
import jax.numpy as jnp

means = []


@jax.jit
def filter_step(state, obs):
    state = 0.9 * state + 0.1 * obs
    jax.debug.callback(means.append, state.mean())
    return state


state = jnp.zeros(8)
signal = jnp.sin(jnp.arange(40, dtype=jnp.float32))[:, None] * jnp.ones((1, 8))
for i, row in enumerate([signal[i] for i in range(40)]):
    state = filter_step(state, row)
    if i % 10 == 9:
        print("value", repr(float(state.sum())))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/39289"
# asked = "With jax.debug.callback inside, jax.no_tracing raises at every warm call, though nothing is traced."
# answer = "Programs with host callbacks get no entry in the C++ dispatch cache: every call takes the Python path."
# stack = "jax"
# mechanism = "fast_path_miss"
# argument = "jax.debug.callback(means.append, state.mean())"
# before = ""
# after = ""
# line = 12
# lines_accepted = [9, 10, 19]
# compiles = [40, 1]
# counted = "calls of filter_step that leave the C++ path (count_pjit_cpp_cache_miss over the 40 calls of filter_step)"
# cure = "Take jax.debug.callback out of the jitted function (read the returned state outside where it is wanted)."
# cure_lines = [{line = 12, code = ""}]
# cure_environment = {}
# losses = "equal"
# ///
