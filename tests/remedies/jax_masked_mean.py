import jax
import jax.numpy as jnp


def loss(errors):
    valid = ~jnp.isnan(errors)
    return jnp.mean(errors[valid] ** 2)


fast = jax.jit(loss)
for value in [1.0, 2.0]:
    errors = jnp.array([value, jnp.nan, 3.0])
    try:
        print("loss", float(fast(errors)))
    except jax.errors.NonConcreteBooleanIndexError:
        print("loss", float(loss(errors)))
