"""Train a small Flax NNX network with a trainer class that has the loss and the optimizer."""

import jax.numpy as jnp
import optax
from flax import nnx


class Network(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(4, 8, rngs=rngs)
        self.output = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.output(nnx.relu(self.hidden(x)))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = nnx.Optimizer(model, optax.sgd(0.05), wrt=nnx.Param)

    def training_step(self, x, y):
        def loss_fn(model):
            return jnp.mean((model(x) - y) ** 2)

        loss, grads = nnx.jit(nnx.value_and_grad(loss_fn))(self.model)
        self.optimizer.update(self.model, grads)
        return loss


x = jnp.linspace(-1.0, 1.0, 64).reshape(16, 4)
y = x.sum(axis=1, keepdims=True)
trainer = Trainer(Network(nnx.Rngs(0)))
for _ in range(5):
    print("loss", repr(float(trainer.training_step(x, y))))
# /// thread
# address = "https://github.com/energnn/energnn/pull/75"
# asked = "Each training step of a Flax NNX trainer is slow: JAX and NNX retrace and recompile in every step."
# answer = """\
# The jitted functions are built again inside every training step; build them once when the Trainer is made and \
# use them in all the steps."""
# stack = "jax"
# mechanism = "new_function"
# argument = "loss_fn"
# before = ""
# after = ""
# line = 26
# lines_accepted = [22, 23, 27, 35]
# compiles = [5, 1]
# counted = "XLA compiles of the jitted loss and gradient (nnx.jit of nnx.value_and_grad)"
# cure = "Make the jitted function in __init__ and pass it the data."
# cure_lines = [
#   {line = 20, code = """
#         self.optimizer = nnx.Optimizer(model, optax.sgd(0.05), wrt=nnx.Param)
#
#         def loss_fn(model, x, y):
#             return jnp.mean((model(x) - y) ** 2)
#
#         self.loss_and_grads = nnx.jit(nnx.value_and_grad(loss_fn))"""},
#   {line = 23, code = ""},
#   {line = 24, code = ""},
#   {line = 26, code = "        loss, grads = self.loss_and_grads(self.model, x, y)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
