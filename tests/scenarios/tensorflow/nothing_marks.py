"""Marks within a traced function."""
# expect: nothing

import tensorflow as tf

import coldstep


@tf.function
def train_step(x):
    with coldstep.step(), coldstep.annotate("double"):
        return coldstep.wait(x * 2)


for _ in range(3):
    train_step(tf.ones(2))
