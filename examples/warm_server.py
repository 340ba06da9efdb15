"""A service that is warmed up, and that a request surprises: `python examples/warm_server.py`, then the report."""

import jax
import jax.numpy as jnp
import numpy as np

import coldstep

params = {"embed": jnp.ones((256, 32)), "head": jnp.ones((32, 8))}


@jax.jit
def classify(params, tokens):
    """Scores for a batch of padded texts."""
    return params["embed"][tokens].mean(1) @ params["head"]


def serve(texts):
    """Answer a batch of requests, padded to a multiple of 16."""
    longest = max(map(len, texts))
    padded = np.zeros((len(texts), -(-longest // 16) * 16), np.int32)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = list(text.encode())
    return np.asarray(classify(params, padded))


with coldstep.trace("warm_server.pftrace"):
    for size in (16, 32):
        classify(params, np.zeros((1, size), np.int32))
    coldstep.ready("serving")
    for texts in (["short"], ["one that is longer than the others, and than what was warmed up"], ["one", "two"]):
        with coldstep.step("request"):
            serve(texts)
