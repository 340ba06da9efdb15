"""Try several learning rates for one small model with a jitted train step that gets the optimizer as static."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(16, 4)), dtype=jnp.float32)
y = jnp.asarray(rng.normal(size=(16,)), dtype=jnp.float32)


@functools.partial(jax.jit, static_argnums=0)
def train_step(optimizer, params, opt_state):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


for rate in [0.3, 0.1, 0.03, 0.01]:
    optimizer = optax.adam(rate)
    params = jnp.zeros(4)
    opt_state = optimizer.init(params)
    for _ in range(5):
        params, opt_state, loss = train_step(optimizer, params, opt_state)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/google-deepmind/optax/issues/577"
# asked = "The jitted step compiles again for each optimizer that differs in its learning rate only."
# answer = "The rate sits in the optimizer's closures and the program; optax.inject_hyperparams puts it in the state."
# stack = "jax"
# mechanism = "static_argument"
# argument = "optimizer"
# before = "optax.adam(0.3)"
# after = "optax.adam(0.1)"
# line = 23
# lines_accepted = [15, 16, 22, 27]
# compiles = [4, 1]
# counted = "compiles of jit(train_step) in JAX_LOG_COMPILES"
# cure = "Make one optimizer with optax.inject_hyperparams and set the rate in its state for each run."
# cure_lines = [
#   {line = 22, code = """
# optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=0.1)
# for rate in [0.3, 0.1, 0.03, 0.01]:"""},
#   {line = 23, code = ""},
#   {line = 25, code = """
#     opt_state = optimizer.init(params)
#     opt_state.hyperparams["learning_rate"] = jnp.asarray(rate, dtype=jnp.float32)"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
