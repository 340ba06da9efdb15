"""Generates text with a small causal language model, whose sampler is chosen by name in each call."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf
from keras import layers


class GreedySampler:
    """Takes the likeliest token until the prompt has grown to its length."""

    def __init__(self, jit_compile=False):
        self.jit_compile = jit_compile

    def get_next_token(self, probabilities):
        return tf.argmax(probabilities, axis=-1, output_type=tf.int32)

    def __call__(self, token_probability_fn, prompt, mask):
        @tf.function(jit_compile=self.jit_compile)
        def sample(prompt, mask):
            length, current = tf.shape(prompt)[1], tf.constant(2)
            while current < length:
                next_token = self.get_next_token(token_probability_fn(prompt, current))
                given = mask[:, current]
                next_token = tf.where(given, prompt[:, current], next_token)
                column = tf.one_hot(current, length, dtype=tf.int32)
                prompt = prompt * (1 - column) + next_token[:, None] * column
                current += 1
            return prompt

        return sample(prompt, mask)


SAMPLERS = {"greedy": GreedySampler}


class CausalLM(keras.Model):
    def __init__(self, vocab_size=20, width=16):
        super().__init__()
        self.embed = layers.Embedding(vocab_size, width)
        self.mix = layers.Conv1D(width, 3, padding="causal", activation="relu")
        self.head = layers.Dense(vocab_size)
        self.generate_function = None

    def call(self, tokens):
        return self.head(self.mix(self.embed(tokens)))

    def generate(self, prompt, max_length, sampler="greedy"):
        sampler = SAMPLERS[sampler]()
        padded = tf.pad(prompt, [[0, 0], [0, max_length - prompt.shape[1]]])
        mask = tf.sequence_mask([prompt.shape[1]] * prompt.shape[0], max_length)

        def next_token(tokens, index):
            return tf.nn.softmax(self(tokens)[:, index - 1])

        return sampler(next_token, padded, mask)


keras.utils.set_random_seed(0)
gpt2_lm = CausalLM()
gpt2_lm(tf.zeros((1, 4), tf.int32))
for request in range(5):
    prompt = tf.constant([[request, 3, 7], [5, request, 2]], dtype=tf.int32)
    print("value", int(tf.reduce_sum(gpt2_lm.generate(prompt, max_length=16))))
# /// thread
# address = "https://github.com/keras-team/keras-hub/issues/779"
# asked = "gpt2_lm.generate() always recompiles."
# answer = """\
# The sampler is made anew in each call, and compiles its function in each; keep the sampler and the compiled \
# function of generate with the model (pull requests 808 and 804)."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "sample"
# before = ""
# after = ""
# line = 22
# lines_accepted = [21, 23, 34, 52, 59, 67]
# compiles = [5, 1]
# counted = "traces of sample (functions that func_graph_from_py_func traced)"
# cure = "Compile generate's function once, and keep it."
# cure_lines = [
#   {line = 59, code = """
#         if self.generate_function is None:
#             self.generate_function = tf.function(lambda prompt, mask: sampler(next_token, prompt, mask))
#         return self.generate_function(padded, mask)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
