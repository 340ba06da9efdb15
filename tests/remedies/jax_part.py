import jax
import jax.numpy as jnp


class Schedule:
    def __init__(self, rate):
        self.rate = rate


class Held:
    def __init__(self, state, schedule):
        self.state, self.schedule = state, schedule


jax.tree_util.register_pytree_node(
    Held, lambda held: ((held.state,), held.schedule), lambda schedule, kept: Held(*kept, schedule)
)


@jax.jit
def step(held, x):
    return x - held.schedule.rate * jnp.sin(x + held.state)


def main():
    x = jnp.ones(3)
    for turn in range(4):
        held = Held(jnp.full(3, 0.1 * turn), schedule=Schedule(rate=0.5))
        x = step(held, x)
        print("loss", float(x.sum()))


main()
