"""Trains a small network with gradients that are accumulated over micro-batches in one jitted step."""

import jax
import jax.numpy as jnp

steps = 16
key = jax.random.key(0)
params = {"in": jax.random.normal(key, (8, 16)) * 0.3, "out": jnp.ones(16) * 0.1}
batch = jax.random.normal(jax.random.fold_in(key, 1), (steps, 4, 8))


def loss_fn(params, x):
    return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - x.sum(-1)) ** 2)


@jax.jit
def train_step(params, batch):
    loss, grads = 0.0, jax.tree.map(jnp.zeros_like, params)
    for i in range(steps):
        step_loss, step_grads = jax.value_and_grad(loss_fn)(params, batch[i])
        loss = loss + step_loss / steps
        grads = jax.tree.map(lambda total, new: total + new / steps, grads, step_grads)
    return loss, jax.tree.map(lambda value, grad: value - 0.1 * grad, params, grads)


for _ in range(4):
    loss, params = train_step(params, batch)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/fattorib/ZeRO-transformer/issues/13"
# asked = "The training step takes long to compile."
# answer = """\
# A plain loop over the micro-batches (and the layers) is traced turn by turn; jax.lax.scan results in much \
# quicker compiles."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(steps)"
# before = ""
# after = ""
# line = 19
# lines_accepted = [17, 20, 27]
# compiles = [16, 1]
# counted = "copies of the micro-batch's gradient in the jaxpr of train_step"
# cure = "Accumulate in a jax.lax.scan."
# cure_lines = [
#   {line = 18, code = """
#     def turn(carry, x):
#         step_loss, step_grads = jax.value_and_grad(loss_fn)(params, x)
#         totals = jax.tree.map(lambda total, new: total + new / steps, carry[1], step_grads)
#         return (carry[0] + step_loss / steps, totals), None
#
#     (loss, grads), _ = jax.lax.scan(turn, (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)), batch)"""},
#   {line = 19, code = ""},
#   {line = 20, code = ""},
#   {line = 21, code = ""},
#   {line = 22, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
