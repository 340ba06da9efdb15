"""What changes is an argument, or is written by the function itself."""
# expect: nothing

import jax
import jax.numpy as jnp


class Model:
    def __init__(self):
        self.calls, self.weight = 0, jnp.ones(2)

    def step(self, weight, x):
        self.calls += 1
        return weight * x


model = Model()
step = jax.jit(model.step)
for _ in range(3):
    model.weight = step(model.weight, jnp.ones(2))
