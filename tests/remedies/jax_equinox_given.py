import equinox as eqx
import jax.numpy as jnp


class Options(eqx.Module):
    rate: float


@eqx.filter_jit
def step(x, options):
    return x - options.rate * jnp.cos(x)


x = jnp.ones(3)
for rate in (0.5, 0.25, 0.125, 0.0625):
    y = step(x, Options(rate=rate))
    print("loss", float(y.sum()))
