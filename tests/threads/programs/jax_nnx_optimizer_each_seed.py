"""Train the same small NNX model from several seeds to see how stable the loss is."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(8, 2)), dtype=jnp.float32)
y = jnp.asarray(rng.normal(size=(8, 3)), dtype=jnp.float32)


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss_fn(model):
        return jnp.mean((model(x) - y) ** 2)

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


for seed in range(4):
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(seed))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    for _ in range(2):
        loss = train_step(model, optimizer, x, y)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/google/flax/issues/4329"
# asked = "nnx.jit compiles again for each new Module and Optimizer, although all shapes and dtypes are the same."
# answer = "Not for the module: some object that is not NNX and hashes by identity (here the optax functions) differs."
# stack = "jax"
# mechanism = "static_argument"
# argument = "optimizer.tx"
# before = ""
# after = ""
# line = 25
# lines_accepted = [13, 14, 27]
# compiles = [4, 1]
# counted = "compiles of jit(train_step) in JAX_LOG_COMPILES"
# cure = "Make the optax transformation once, before the loop over seeds, and hand the same object to each Optimizer."
# cure_lines = [
#   {line = 23, code = "tx = optax.adam(1e-2)\nfor seed in range(4):"},
#   {line = 25, code = "    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
