import functools

import jax
import jax.numpy as jnp


class Schedule:
    def __init__(self, rate):
        self.rate = rate


@functools.partial(jax.jit, static_argnums=0)
def step(schedule, x):
    return x - schedule.rate * jnp.sin(x)


x = jnp.ones(3)
for _ in range(4):
    schedule = Schedule(0.5)
    x = step(schedule, x)
    print("loss", float(x.sum()))
