"""A saved model, called twice."""
# expect: nothing

import tempfile

import tensorflow as tf


class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def __call__(self, x):
        return x * 2.0


with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(Model(), folder)
    loaded = tf.saved_model.load(folder)
    for size in (2, 5):
        loaded(tf.ones((size, 3)))
