"""Scores documents that lie end to end in one array, batch after batch."""

import jax
import jax.numpy as jnp
import numpy as np


class PackedLoader:
    """Batches of documents of any lengths, packed into an array of one length."""

    def __init__(self, tokens=240, documents=12, seed=0):
        self.rng = np.random.default_rng(seed)
        self.tokens = tokens
        self.documents = documents

    def __iter__(self):
        for _ in range(5):
            values = self.rng.normal(size=self.tokens).astype("float32")
            ends = np.sort(self.rng.choice(np.arange(1, self.tokens), self.documents - 1, replace=False))
            yield values, ends


@jax.jit
def embed(values, scale):
    return jnp.tanh(values * scale)


def document_scores(values, ends, scale):
    embedded = embed(values, scale)
    parts = jnp.split(embedded, ends)
    return [float(np.mean(part)) for part in parts]


scale = jnp.float32(0.5)
for values, ends in PackedLoader():
    scores = document_scores(values, ends, scale)
    print("loss", repr(sum(score**2 for score in scores)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/12999"
# asked = "jnp.split takes seconds where there are many splits; the same call again is fast."
# answer = """\
# Each part is a slice of its own, which XLA compiles for its bounds. Slice on the host, or with bounds that \
# are traced (lax.dynamic_slice)."""
# stack = "jax"
# mechanism = "eager_compiles"
# argument = "jnp.split"
# before = ""
# after = ""
# line = 30
# lines_accepted = [36]
# compiles = [5, 0]
# counted = "compiles of split (jax_log_compiles)"
# cure = "Split on the host."
# cure_lines = [
#   {line = 30, code = "    parts = np.split(np.asarray(embedded), ends)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
