"""Inputs of a variable length, and a mask that only some requests have.

Rebuilt from tensorflow/tensorflow#38561.
"""
# late: shape batch['tokens']
# late: type batch['mask']

import tensorflow as tf

import coldstep


@tf.function
def encode(batch, scale):
    tokens = tf.cast(batch["tokens"], tf.float32)
    return tf.reduce_sum(tokens if batch["mask"] is None else tokens * batch["mask"]) * scale


def request(size, mask=None):
    return {"tokens": tf.zeros((1, size), tf.int32), "mask": mask}


scale = tf.constant(1.0)
for size in (8, 16):
    encode(request(size), scale)
coldstep.ready()
for batch in (request(16), request(11), request(8, tf.ones((1, 8)))):
    with coldstep.step("request"):
        encode(batch, scale)
