"""A text model: sentences from the shortest to the longest, padded batch by batch; then text of its own."""

import keras
import numpy as np
import tensorflow as tf

WORDS = ["the", "a", "cat", "dog", "bird", "sees", "likes", "old", "small", "quick", "because", "it", "is", "raining"]

random = np.random.default_rng(0)
sentences = sorted((" ".join(random.choice(WORDS, length)) for length in random.integers(4, 16, 96)), key=len)
vectorize = keras.layers.TextVectorization(standardize=None)
vectorize.adapt(sentences)
data = (
    tf.data.Dataset.from_tensor_slices(sentences)
    .map(vectorize)
    .padded_batch(16)
    .map(lambda tokens: (tokens[:, :-1], tokens[:, 1:]))
)

keras.utils.set_random_seed(0)
size = vectorize.vocabulary_size()
model = keras.Sequential(
    [keras.layers.Embedding(size, 32), keras.layers.GRU(32, return_sequences=True), keras.layers.Dense(size)]
)
optimizer = keras.optimizers.Adam(1e-2)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)


@tf.function
def train_step(tokens, following):
    with tf.GradientTape() as tape:
        loss = loss_of(following, model(tokens))
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


@tf.function
def next_word(tokens):
    return tf.argmax(model(tokens)[:, -1], -1)


for epoch in range(2):
    for tokens, following in data:
        loss = train_step(tokens, following)
    print(f"epoch {epoch}: {float(loss):.3f}")

tokens = vectorize(["the cat"])
for _ in range(5):
    tokens = tf.concat([tokens, next_word(tokens)[:, None]], 1)
print(tokens.shape)
