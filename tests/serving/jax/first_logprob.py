"""Only one value of a flag is warmed up: the first request that asks for log-probabilities compiles.

Rebuilt from sgl-project/sglang-jax#609.
"""
# late: static_argument return_logprob

from functools import partial

import jax
import jax.numpy as jnp

import coldstep

logits = jnp.ones((2, 8))


@partial(jax.jit, static_argnames="return_logprob")
def sample(logits, temperature, return_logprob=False):
    scores = jax.nn.log_softmax(logits / temperature)
    return (scores.argmax(-1), scores) if return_logprob else scores.argmax(-1)


sample(logits, 1.0, return_logprob=False)
coldstep.ready()
for wants in (False, True):
    with coldstep.step("request"):
        coldstep.wait(sample(logits, 0.7, return_logprob=wants))
