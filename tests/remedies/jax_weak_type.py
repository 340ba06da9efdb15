import jax
import jax.numpy as jnp


@jax.jit
def step(total, x):
    return total + x.sum()


total = 0.0
x = jnp.ones(4)
for _i in range(5):
    total = step(total, x)
    print("loss", float(total))
