"""Fits a Flax layer to samples by Optax, with the loss jitted, as an example of Optax did."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

learning_rate = 0.3
n_training_steps = 12

rng = jax.random.key(0)
rng, key1, key2, key3, key4, key5 = jax.random.split(rng, 6)
x_dim, y_dim, n_samples = 3, 2, 100
weights, biases = jax.random.normal(key1, (x_dim, y_dim)), jax.random.normal(key2, (y_dim,))
x_samples = jax.random.normal(key3, (n_samples, x_dim))
y_samples = x_samples @ weights + biases + 0.1 * jax.random.normal(key4, (n_samples, y_dim))

model = nn.Dense(features=y_dim)
params = model.init(key5, x_samples)
tx = optax.adam(learning_rate=learning_rate)
opt_state = tx.init(params)


def make_mse_func(x_batched, y_batched):
    def mse(params):
        def squared_error(x, y):
            prediction = model.apply(params, x)
            return jnp.inner(y - prediction, y - prediction) / 2.0

        return jnp.mean(jax.vmap(squared_error)(x_batched, y_batched), axis=0)

    return jax.jit(mse)


loss_grad_fn = jax.value_and_grad(make_mse_func(x_samples, y_samples))

for _ in range(n_training_steps):
    loss_value, grads = loss_grad_fn(params)
    updates, opt_state = tx.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
    print("loss", repr(float(loss_value)))
# /// thread
# address = "https://github.com/google-deepmind/optax/issues/319"
# asked = "The example with Flax runs in 2 s on a CPU and 28 s on a GPU; the part of Optax is the bottleneck. Why?"
# answer = """\
# jax.jit is only around the loss, and not around the calls of Optax, which run op by op; put update and \
# apply_updates within the jit."""
# stack = "jax"
# mechanism = "silent_eager"
# argument = "tx.update"
# before = ""
# after = ""
# line = 39
# lines_accepted = [35, 37, 38, 40]
# compiles = [45, 26]
# counted = "compiles (jax_log_compiles); those that make the data and the parameters stay"
# cure = "Jit the whole step."
# cure_lines = [
#   {line = 37, code = """
# @jax.jit
# def step(params, opt_state):
#     loss_value, grads = loss_grad_fn(params)
#     updates, opt_state = tx.update(grads, opt_state)
#     return optax.apply_updates(params, updates), opt_state, loss_value
#
#
# for _ in range(n_training_steps):"""},
#   {line = 38, code = "    params, opt_state, loss_value = step(params, opt_state)"},
#   {line = 39, code = ""},
#   {line = 40, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
