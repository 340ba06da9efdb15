"""A jitted method reads attributes, arrays among them, that change; its program does not see it."""
# expect: nothing
# finding: stale_capture

import jax
import jax.numpy as jnp


class Environment:
    def __init__(self):
        self.start, self.written = jnp.zeros(2), 0

    def reset(self, noise):
        self.written += 1
        return self.start + noise


environment = Environment()
reset = jax.jit(environment.reset)
for n in range(3):
    environment.start = jnp.full(2, float(n))
    reset(jnp.ones(2)).block_until_ready()
