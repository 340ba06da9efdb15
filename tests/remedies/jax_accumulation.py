import jax
import jax.numpy as jnp

TURNS = 24
params = {"w": jnp.linspace(0.1, 0.4, 4)}
batch = jnp.arange(TURNS * 8.0).reshape(TURNS, 2, 4) / 100


def loss_fn(params, x):
    return jnp.mean(jnp.tanh(jnp.sin(x @ params["w"]) * 2) ** 2)


@jax.jit
def step(params, batch):
    total, grads = 0.0, jax.tree.map(jnp.zeros_like, params)
    for i in range(TURNS):
        loss, grad = jax.value_and_grad(loss_fn)(params, batch[i])
        total = total + loss
        grads = jax.tree.map(lambda whole, new: whole + new, grads, grad)
    return total / TURNS, jax.tree.map(lambda value, new: value - 0.1 * new / TURNS, params, grads)


for _ in range(3):
    loss, params = step(params, batch)
    print("loss", round(float(loss), 5))
