import jax
import jax.numpy as jnp


def descend(x, rate):
    def step(x):
        return x - rate * jnp.sin(x)

    return jax.jit(step)(x)


x = jnp.ones(3)
for _ in range(4):
    x = descend(x, 0.5)
    print("loss", float(x.sum()))
