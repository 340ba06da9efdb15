"""Each sequence is one token longer than the one before."""
# expect: shape tokens i32[1] -> i32[2]
# expect: shape tokens i32[2] -> i32[3]
# expect: shape tokens i32[3] -> i32[4]
# expect: shape tokens i32[4] -> i32[5]
# expect: shape tokens i32[5] -> i32[6]
# finding: not_settled
# finding: repeat_offender
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing

import tensorflow as tf

import coldstep


@tf.function
def score(tokens):
    return tf.reduce_sum(tokens * 2)


for length in range(1, 7):
    with coldstep.step():
        coldstep.wait(score(tf.ones(length, tf.int32)))
