"""A small GPT in TensorFlow: eight steps, the last with a smaller batch. `python examples/gpt_tensorflow.py`"""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

import coldstep

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 256, 32, 64, 4, 1
BATCHES = (8, 8, 8, 8, 8, 8, 8, 5)


class Block(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        small = keras.initializers.RandomNormal(stddev=0.02)
        self.norm_1, self.norm_2 = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()
        self.qkv = keras.layers.Dense(3 * WIDTH, use_bias=False, kernel_initializer=small)
        self.out = keras.layers.Dense(WIDTH, use_bias=False, kernel_initializer=small)
        self.up = keras.layers.Dense(4 * WIDTH, use_bias=False, activation="gelu", kernel_initializer=small)
        self.down = keras.layers.Dense(WIDTH, use_bias=False, kernel_initializer=small)

    def attention(self, x: tf.Tensor) -> tf.Tensor:
        batch, length = tf.shape(x)[0], x.shape[1]
        q, k, v = (
            tf.transpose(tf.reshape(part, (batch, length, HEADS, -1)), (0, 2, 1, 3))
            for part in tf.split(self.qkv(x), 3, axis=-1)
        )
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(WIDTH // HEADS).astype(np.float32)
        mask = tf.linalg.band_part(tf.ones((length, length)), -1, 0)
        weights = tf.nn.softmax(tf.where(mask == 1, scores, -1e9))
        mixed = tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3))
        return self.out(tf.reshape(mixed, (batch, length, WIDTH)))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(self.up(self.norm_2(x)))


class GPT(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        small = keras.initializers.RandomNormal(stddev=0.02)
        self.token = tf.Variable(small((VOCABULARY, WIDTH)))
        self.position = tf.Variable(small((LENGTH, WIDTH)))
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm = keras.layers.LayerNormalization()

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        x = tf.gather(self.token, tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return tf.matmul(self.norm(x), self.token, transpose_b=True)


def batches() -> Iterator[np.ndarray]:
    """Sequences that count upwards, together through the whole vocabulary."""
    for size in BATCHES:
        with coldstep.annotate("data loading"):
            tokens = (LENGTH * np.arange(size)[:, None] + np.arange(LENGTH + 1)) % VOCABULARY
        yield tokens.astype(np.int32)


def train() -> None:
    keras.utils.set_random_seed(0)
    model, optimizer = GPT(), keras.optimizers.AdamW(1e-2)

    @tf.function
    def train_step(tokens: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(tokens[:, :-1])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits)
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for n, tokens in enumerate(batches()):
        with coldstep.step("tensorflow"):
            loss = coldstep.wait(train_step(tokens))
        print(f"tensorflow step {n}: loss {float(loss):.9g}")


if __name__ == "__main__":
    with coldstep.trace("gpt_tensorflow.pftrace") as run:
        train()
    print(run.report())
