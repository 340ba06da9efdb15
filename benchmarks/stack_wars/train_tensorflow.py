"""Training in TensorFlow: a `tf.function`, run by its executor or compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from benchmarks.stack_wars import ops_tensorflow
from benchmarks.stack_wars.models import DECAY, MODELS, RATE, initial
from benchmarks.stack_wars.sizes import SIZES_OF

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class AdamW:
    """As PyTorch's and Optax': Keras' adds its epsilon before the bias is corrected, and losses would drift apart."""

    def __init__(self, variables: Iterable[tf.Variable]) -> None:
        self.state = [
            (variable, tf.Variable(tf.zeros_like(variable)), tf.Variable(tf.zeros_like(variable)))
            for variable in variables
        ]
        self.steps = tf.Variable(0.0)

    def update(self, gradients: Iterable[Any]) -> None:
        self.steps.assign_add(1.0)
        first, second = 1 - _FIRST**self.steps, 1 - _SECOND**self.steps
        for (variable, mean, square), found in zip(self.state, gradients, strict=True):
            gradient = tf.convert_to_tensor(found)  # that of a lookup names rows
            mean.assign(_FIRST * mean + (1 - _FIRST) * gradient)
            square.assign(_SECOND * square + (1 - _SECOND) * tf.square(gradient))
            step = (mean / first) / (tf.sqrt(square / second) + _EPSILON)
            variable.assign_sub(RATE * (step + DECAY * variable))


def start(_stack: str) -> None:
    """Begin with the device, so that what it needs is not taken for the model's."""
    tf.zeros(1)


def prepare(stack: str, model: str, size: str) -> Callable[[], Any]:
    """A function that trains once on the batch, and returns what is to be waited for, the loss last."""
    weights = {weight.name: tf.Variable(values) for weight, values in initial(model, size)}
    optimizer = AdamW(weights.values())
    batch = {name: tf.constant(values) for name, values in MODELS[model].batch(SIZES_OF[model][size]).items()}

    @tf.function(jit_compile=stack == "tensorflow_xla" or None)
    def train_step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = MODELS[model].loss(ops_tensorflow, weights, batch, SIZES_OF[model][size])
        optimizer.update(tape.gradient(loss, list(weights.values())))
        return loss

    return lambda: (train_step(batch),)
