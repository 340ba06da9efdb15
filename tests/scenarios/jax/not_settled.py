"""Each sequence is as long as it is, and none as long as the one before."""
# expect: shape tokens i32[1] -> i32[2]
# expect: shape tokens i32[2] -> i32[3]
# expect: shape tokens i32[3] -> i32[4]
# expect: shape tokens i32[4] -> i32[5]
# expect: shape tokens i32[5] -> i32[6]
# finding: not_settled
# settling: shape
# settling: shape
# settling: shape
# settling: shape
# settling: shape

import jax
import numpy as np

import coldstep


@jax.jit
def score(tokens):
    return (tokens * 2).sum()


for length in range(1, 7):
    with coldstep.step():
        coldstep.wait(score(np.ones(length, np.int32)))
