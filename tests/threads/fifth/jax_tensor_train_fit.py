"""Fits a tensor train to labelled features with a model class that has a train method."""

import jax
import jax.numpy as jnp
import numpy as np
import optax


def feature_map(x):
    return jnp.stack([jnp.cos(jnp.pi * x / 2), jnp.sin(jnp.pi * x / 2)], axis=-1)


def loss_function(cores, features, labels):
    def predict(embedded):
        first, middle, last = cores
        state = embedded[0] @ first
        for at in range(middle.shape[0]):
            state = jnp.einsum("l,lpr,p->r", state, middle[at], embedded[at + 1])
        return jnp.einsum("l,lpc,p->c", state, last, embedded[-1])

    logits = jax.vmap(predict)(feature_map(features))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


class MatrixProductClassifier:
    def __init__(self, sites, bond, classes, key):
        k1, k2, k3 = jax.random.split(key, 3)
        self.cores = (
            jax.random.normal(k1, (2, bond)) * 0.5,
            jax.random.normal(k2, (sites - 2, bond, 2, bond)) * 0.5,
            jax.random.normal(k3, (bond, 2, classes)) * 0.5,
        )
        self.history = []

    def configure(self, optimizer, loss):
        self.optimizer = optimizer
        self.opt_state = optimizer.init(self.cores)
        self.loss = loss

    def train_batch(self, features, labels):
        value_and_grad = jax.jit(jax.value_and_grad(lambda cores, x, y: self.loss(cores, x, y)))
        value, grads = value_and_grad(self.cores, features, labels)
        updates, self.opt_state = self.optimizer.update(grads, self.opt_state)
        self.cores = optax.apply_updates(self.cores, updates)
        return value

    def train(self, data, labels, epochs, batch_size):
        for _ in range(epochs):
            for start in range(0, len(data), batch_size):
                value = self.train_batch(data[start : start + batch_size], labels[start : start + batch_size])
            self.history.append(float(value))
            print("loss", repr(self.history[-1]))


rng = np.random.default_rng(0)
images = rng.random((24, 6)).astype("float32")
model = MatrixProductClassifier(sites=6, bond=4, classes=2, key=jax.random.key(0))
model.configure(optimizer=optax.adam(1e-2), loss=loss_function)
model.train(images, (images.mean(1) > 0.5).astype("int32"), epochs=3, batch_size=8)
# /// thread
# address = "https://github.com/bsc-quantic/tn4ml/pull/9"
# asked = "Much of the time of a training is spent on compiling, although the loss that is compiled stays the same."
# answer = """\
# Compile the function for loss and gradient once, ahead of the training, and use it again in each step; around a \
# hundred times as fast."""
# stack = "jax"
# mechanism = "new_function"
# argument = "value_and_grad"
# before = ""
# after = ""
# line = 41
# lines_accepted = [35, 38, 40, 42, 50]
# compiles = [9, 1]
# counted = "compiles of <lambda> (jax_log_compiles)"
# cure = "Jit in configure, and keep the function."
# cure_lines = [
#   {line = 38, code = "        self.value_and_grad = jax.jit(jax.value_and_grad(loss))"},
#   {line = 41, code = "        value_and_grad = self.value_and_grad"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
