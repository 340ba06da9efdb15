"""Clip small weights to zero after each gradient step, all in one jitted update."""

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(16, 6)), dtype=jnp.float32)
y = x @ jnp.array([1.0, 0.0, 0.0, -2.0, 0.0, 0.5])


def loss_fn(w):
    return jnp.mean((x @ w - y) ** 2)


def update(w):
    loss, grad = jax.value_and_grad(loss_fn)(w)
    w = w - 0.2 * grad
    small = w[jnp.abs(w) < 0.05]
    w = w.at[jnp.abs(w) < 0.05].add(-small)
    return w, loss


update = jax.jit(update)
w = jnp.zeros(6)
for _ in range(5):
    w, loss = update(w)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/21994"
# asked = "Updates through a boolean mask raise an error inside jit, though the result has the shape of the array."
# answer = "The trace cannot know how many elements a mask selects; write it as jnp.where(mask, new, old)."
# stack = "jax"
# mechanism = "failed_compile"
# argument = "w[jnp.abs(w) < 0.05]"
# before = ""
# after = ""
# line = 19
# lines_accepted = [20, 24, 27]
# compiles = [0, 1]
# counted = "compiled programs of jit(update): the trace raises NonConcreteBooleanIndexError without the cure"
# cure = "Write the update as one jnp.where over the whole array."
# cure_lines = [
#   {line = 19, code = ""},
#   {line = 20, code = "    w = jnp.where(jnp.abs(w) < 0.05, 0.0, w)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
