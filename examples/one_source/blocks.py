"""n feed-forward blocks as each stack writes them (benchmarks/stack_wars), and one Keras model on its backends.

Both have the same weights, batch, loss and optimizer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.stack_wars.models import DECAY, MODELS, RATE, initial
from benchmarks.stack_wars.sizes import SIZES_OF, Blocks
from benchmarks.study.program import Work


def work(stack: str, way: str, n: int) -> Work:
    size = Blocks(width=64, hidden=128, heads=1, layers=n, length=8, batch=16)
    SIZES_OF["ffn"] = {"n": size}
    backend = stack.partition("_")[0] if stack.startswith(("jax", "tensorflow")) else "torch"
    if way == "keras":
        step = _keras(backend, stack, size)
    else:
        step = import_module(f"benchmarks.stack_wars.train_{backend}").prepare(stack, "ffn", "n")
    return Work(step, lambda: _without_compiler(backend, step))


def _keras(backend: str, stack: str, size: Blocks) -> Callable[[], Any]:
    os.environ["KERAS_BACKEND"] = backend
    import keras

    pairs = ((keras.layers.Dense(size.hidden, "relu"), keras.layers.Dense(size.width)) for _ in range(size.layers))
    layers = [layer for pair in pairs for layer in pair]
    model = keras.Sequential([keras.Input((size.length, size.width)), *layers])
    model.set_weights([values for _, values in initial("ffn", "n")])
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
    model.compile(optimizer, "mse", jit_compile=stack in ("jax", "tensorflow_xla"))
    if stack not in ("jax", "tensorflow", "tensorflow_xla", "eager"):
        import torch  # Keras asks for Inductor only

        model.make_train_function()
        model.train_function = torch.compile(model.train_function, backend=stack)
    batch = MODELS["ffn"].batch(size)
    return lambda: model.train_on_batch(batch["x"], batch["y"])


def _without_compiler(backend: str, step: Callable[[], Any]) -> Any:
    if backend == "jax":
        import jax

        with jax.disable_jit():
            return step()
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.run_functions_eagerly(True)
        return step()
    import torch

    with torch.compiler.set_stance("force_eager"):
        return step()
