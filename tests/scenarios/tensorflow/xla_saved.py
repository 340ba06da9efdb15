"""A saved model, wrapped for XLA where it is served: every size of a request is compiled."""
# expect: shape x f32[2,64] -> f32[5,64]

import tempfile

import tensorflow as tf


class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def score(self, x):
        return tf.reduce_sum(tf.tanh(x @ tf.ones((64, 64))), 1)


with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(Model(), folder)
    loaded = tf.saved_model.load(folder)
serve = tf.function(loaded.score, jit_compile=True)
for size in (2, 5, 2):
    loaded.score(tf.ones((size, 64)))
    serve(tf.ones((size, 64)))
