"""The last batch has one more key."""
# expect: pytree batch "{'x'}" -> "{'mask', 'x'}"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def loss(batch):
    return sum(part.sum() for part in batch.values())


batches = [{"x": np.ones(3)}] * 4 + [{"x": np.ones(3), "mask": np.ones(3)}]

for batch in batches:
    with coldstep.step():
        coldstep.wait(loss(batch))
