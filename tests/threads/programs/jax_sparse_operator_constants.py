"""Apply a large sparse matrix inside a jitted objective and follow a few descent steps."""

import jax
import jax.numpy as jnp
from jax.experimental import sparse

n = 100_000


def build_operator():
    indices = sparse.eye(n).indices
    values = jnp.linspace(0.5, 1.5, n)

    def product(vector):
        matrix = sparse.BCOO((values, indices), shape=(n, n), indices_sorted=True, unique_indices=True)
        return matrix @ vector

    return product


operator = build_operator()


@jax.jit
def objective(scale):
    return jnp.mean(jnp.square(operator(jnp.ones(n)) * scale - 2.0))


scale = jnp.float32(1.0)
for _ in range(3):
    value, slope = objective(scale), objective(scale + 0.01) - objective(scale - 0.01)
    print("value", repr(float(value)))
    scale = scale - 10.0 * slope
# /// thread
# address = "https://github.com/jax-ml/jax/issues/14655"
# asked = "A function with a closed-over sparse matrix runs in 0.1 s without jit and takes a minute to compile with it."
# answer = "jit bakes closed-over arrays into the program as constants, which XLA then folds; pass them as arguments."
# stack = "jax"
# mechanism = "captured_constants"
# argument = "indices"
# before = ""
# after = ""
# line = 15
# lines_accepted = [11, 12, 14, 21, 24, 25, 26]
# compiles = [2, 0]
# counted = "closed-over arrays (constants of 100000 elements and more) in the lowered program of jit(objective)"
# cure = "Return the matrix's arrays from build_operator and pass them to the jitted objective as arguments."
# cure_lines = [
#   {line = 14, code = "    def product(vector, values, indices):"},
#   {line = 18, code = "    return product, values, indices"},
#   {line = 21, code = "operator, values, indices = build_operator()"},
#   {line = 25, code = "def objective(scale, values, indices):"},
#   {line = 26, code = "    return jnp.mean(jnp.square(operator(jnp.ones(n), values, indices) * scale - 2.0))"},
#   {line = 31, code = """
#     value = objective(scale, values, indices)
#     slope = objective(scale + 0.01, values, indices) - objective(scale - 0.01, values, indices)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
