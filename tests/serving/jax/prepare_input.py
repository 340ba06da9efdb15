"""What prepares a request's input runs operations of its own, which the warm-up of the model alone never ran.

Rebuilt from HabanaAI/vllm-fork#935.
"""
# late: shape args[0]
# late: first

import jax
import jax.numpy as jnp

import coldstep

table = jnp.ones((32, 4))


@jax.jit
def forward(table, tokens):
    return table[tokens].sum(-1)


def serve(table, prompt):
    tokens = jnp.asarray(prompt, jnp.int32)
    return forward(table, jnp.stack([tokens, tokens]))


forward(table, jnp.zeros((2, 12), jnp.int32))
coldstep.ready()
with coldstep.step("request"):
    coldstep.wait(serve(table, list(range(12))))
