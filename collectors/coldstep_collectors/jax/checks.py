"""What JAX's self-test must lead to, by the name of the promise."""

from functools import partial

from coldstep_collectors.checks import compiled, loaded, recompiled

CHECKS = {
    "compile": partial(compiled, "train_step"),
    "recompile": recompiled,
    "cache": partial(loaded, "train_step"),
}
