"""A step gives back another shape than it takes."""

# shows: rules.jax REMEDIES[fed_back_output shape]
import jax
import jax.numpy as jnp


@jax.jit
def step(x):
    return x.reshape(4, -1).sum(1)


x = jnp.ones(16)
for _ in range(4):
    x = step(x)
print("loss", float(x.sum()))
