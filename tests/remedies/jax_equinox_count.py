import equinox as eqx
import jax
import jax.numpy as jnp


class State(eqx.Module):
    value: jax.Array
    count: int


@eqx.filter_jit
def step(state, x):
    return State(state.value + x / (1 + state.count), state.count + 1)


state = State(jnp.zeros(3), 0)
x = jnp.ones(3)
for _ in range(4):
    state = step(state, x)
    print("loss", float(state.value.sum()))
