import jax
import jax.numpy as jnp


@jax.jit
def step(params, x):
    return {"w": params["w"] - 0.1 * x.mean()}


params = {"w": jnp.ones(4)}
device = jax.devices()[0]
for _i in range(5):
    x = jax.device_put(jnp.ones(4), device)
    params = step(params, x)
    print("loss", float(params["w"].sum()))
