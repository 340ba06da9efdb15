"""A cache is set, and keeps nothing that compiles in less than a second."""

# shows: caches.unkept _BY_REASON[threshold]
import os
import tempfile

import jax
import jax.numpy as jnp

os.environ["XLA_FLAGS"] = ""  # what compiles in less than 100 ms may as well be compiled again
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())


@jax.jit
def f(x):
    for _ in range(20):
        x = jnp.sort(jnp.sin(x) @ jnp.ones((16, 16)), axis=0)
    return x.sum()


print("loss", float(f(jnp.ones((16, 16)))))
