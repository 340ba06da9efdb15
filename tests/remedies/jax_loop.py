import jax
import jax.numpy as jnp


@jax.jit
def settle(x, weights):
    velocity = jnp.zeros_like(x)
    for i in range(30):
        force = jnp.tanh(x @ weights) - 0.1 * x
        velocity = 0.9 * velocity + force / (i + 1)
        x = x + 0.1 * velocity
    return x.sum()


weights = jnp.linspace(-1.0, 1.0, 16).reshape(4, 4)
for scale in [0.1, 0.2]:
    print("loss", round(float(settle(scale * jnp.ones((2, 4)), weights)), 4))
