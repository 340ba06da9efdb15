"""Trains a small network; jit was switched off once to look at a value, and stayed off."""

import itertools

import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_disable_jit", True)


def init(key, sizes=(4, 16, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = itertools.pairwise(sizes)
    return [(jax.random.normal(k, (n, m)) / n**0.5, jnp.zeros(m)) for k, (n, m) in zip(keys, shapes, strict=True)]


def predict(params, x):
    for weights, bias in params[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = params[-1]
    return (x @ weights + bias).squeeze(-1)


optimizer = optax.adam(0.01)


@jax.jit
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(lambda params: jnp.mean((predict(params, x) - y) ** 2))(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


params = init(jax.random.key(0))
opt_state = optimizer.init(params)
x = jax.random.normal(jax.random.key(1), (32, 4))
y = jnp.sin(x[:, 0])
for _ in range(20):
    params, opt_state, loss = train_step(params, opt_state, x, y)
print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/19654"
# asked = "With jax_disable_jit operations still are compiled, again in each iteration, and all is slow."
# answer = """\
# Under disable_jit the individual primitives still are compiled (and documented so); it is for debugging: \
# leave it off."""
# stack = "jax"
# mechanism = "silent_eager"
# argument = "jax_disable_jit"
# before = ""
# after = ""
# line = 9
# lines_accepted = [29, 40]
# compiles = [0, 1]
# counted = "compiles of train_step (jax_log_compiles); without the cure of each of its operations"
# cure = "Leave jit on."
# cure_lines = [
#   {line = 9, code = "jax.config.update(\"jax_disable_jit\", False)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
