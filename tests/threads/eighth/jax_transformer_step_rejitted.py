"""Trains a small transformer of Flax on sequences of numbers."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        x = x + nn.SelfAttention(num_heads=2)(nn.LayerNorm()(x))
        return x + nn.Dense(self.width)(nn.relu(nn.Dense(2 * self.width)(nn.LayerNorm()(x))))


class Transformer(nn.Module):
    vocabulary: int = 20
    width: int = 16

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(self.vocabulary, self.width)(tokens)
        return nn.Dense(self.vocabulary)(Block(self.width)(x))


model = Transformer()
optimizer = optax.adam(1e-3)


def train_step(params, opt_state, batch):
    def loss_fn(params):
        logits = model.apply(params, batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

    loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


key = jax.random.key(0)
params = model.init(key, jnp.zeros((1, 8), "int32"))
opt_state = optimizer.init(params)
for step in range(6):
    batch = jax.random.randint(jax.random.fold_in(key, step), (4, 9), 0, 20)
    params, opt_state, loss = train_step(params, opt_state, batch)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/google/flax/issues/1218"
# asked = "My transformer is many orders of magnitude slower than I hoped, and I do not understand why."
# answer = """\
# The placement of jax.jit: it is called in each iteration, and does not capture the whole step. Decorate the train \
# step with it."""
# stack = "jax"
# mechanism = "new_function"
# argument = "loss_fn"
# before = ""
# after = ""
# line = 37
# lines_accepted = [32, 33, 46]
# compiles = [6, 1]
# counted = "compiles of loss_fn, or of train_step (jax_log_compiles)"
# cure = "Jit the whole step, once."
# cure_lines = [
#   {line = 32, code = """
# @jax.jit
# def train_step(params, opt_state, batch):"""},
#   {line = 37, code = "    loss, grads = jax.value_and_grad(loss_fn)(params)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
