"""Draws the columns of a synthetic table one after the other, each from its parents, after a warm-up."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.jit, static_argnames="size")
def generate_column(key, logits, parents, size):
    rows = logits[parents]
    return jax.random.categorical(key, rows, shape=(size,))


class SyntheticTable:
    def __init__(self, cardinalities, rows=64):
        self.cardinalities = cardinalities
        self.rows = rows
        rng = np.random.default_rng(0)
        states = 400
        self.logits = jnp.asarray(rng.normal(size=(states, 4)).astype("float32"))

    def precompile(self):
        """Compile for what generate passes."""
        parents = np.zeros(self.rows, "int32")
        generate_column(jax.random.key(0), self.logits, parents, self.rows)

    def parents_of(self, column, drawn):
        states = np.ravel_multi_index(drawn[-column:], self.cardinalities[:column])
        return states.astype(np.min_scalar_type(np.prod(self.cardinalities[:column])))

    def generate(self):
        drawn = [np.zeros(self.rows, "int64")]
        for column in range(1, len(self.cardinalities)):
            parents = self.parents_of(column, drawn)
            values = generate_column(jax.random.key(column), self.logits, parents, self.rows)
            drawn.append(np.asarray(values))
        return drawn


table = SyntheticTable((4, 4, 4, 4, 4))
table.precompile()
for column in table.generate():
    print("value", float(column.mean()))
# /// thread
# address = "https://github.com/ryan112358/mbi/pull/193"
# asked = "After precompile every generated column compiles _generate_column from scratch."
# answer = """\
# The parents are passed as np.min_scalar_type (uint8, uint16), and lowered as int32: a mismatch misses the \
# cache. Cast them to int32."""
# stack = "jax"
# mechanism = "dtype"
# argument = "parents"
# before = "int32"
# after = "uint8"
# line = 31
# lines_accepted = [37, 26, 36, 27]
# compiles = [3, 1]
# counted = "compiles of generate_column (jax_log_compiles)"
# cure = "Cast the parents to int32."
# cure_lines = [
#   {line = 31, code = "        return states.astype(\"int32\")"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
