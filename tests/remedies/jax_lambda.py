import jax
import jax.numpy as jnp

x = jnp.ones(3)
for _ in range(4):
    step = jax.jit(lambda x: x - 0.5 * jnp.sin(x))
    x = step(x)
    print("loss", float(x.sum()))
