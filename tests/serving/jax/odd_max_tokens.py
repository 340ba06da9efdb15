"""An odd maximum of tokens: the largest batch has a size that the warm-up's powers of two never reach.

Rebuilt from vllm-project/vllm#16726.
"""
# late: shape tokens

import jax
import jax.numpy as jnp
import numpy as np

import coldstep

MAX_TOKENS = 317
params = {"embed": jnp.ones((32, 4)), "head": jnp.ones((4, 8))}


@jax.jit
def forward(params, tokens):
    return params["embed"][tokens] @ params["head"]


def serve(prompt):
    size = min(MAX_TOKENS, 1 << (len(prompt) - 1).bit_length())
    return forward(params, np.resize(prompt, size).astype(np.int32))


size = 16
while size <= MAX_TOKENS:
    forward(params, np.zeros(size, np.int32))
    size *= 2
coldstep.ready()
for length in (16, 100, 300):
    with coldstep.step("request"):
        coldstep.wait(serve(list(range(length))))
