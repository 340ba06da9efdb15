"""The same lowering is compiled with another option."""
# expect: config compiler_options - -> "{'xla_embed_ir_in_executable': True}"

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


lowered = step.lower(np.ones(3, np.float32))
for options in (None, {"xla_embed_ir_in_executable": True}):
    with coldstep.step():
        lowered.compile(compiler_options=options)
