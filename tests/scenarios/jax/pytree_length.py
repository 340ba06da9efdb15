"""A list of states grows at every step."""
# expect: pytree states "list of 1" -> "list of 2"
# expect: pytree states "list of 2" -> "list of 3"

import jax
import numpy as np

import coldstep


@jax.jit
def mean(states):
    return sum(state["h"].sum() for state in states) / len(states)


states = []
for _ in range(3):
    states.append({"h": np.ones(3, np.float32)})
    with coldstep.step():
        coldstep.wait(mean(states))
