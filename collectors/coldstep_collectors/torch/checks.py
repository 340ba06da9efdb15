"""What PyTorch's self-test must lead to, by the name of the promise."""

from functools import partial

from coldstep_collectors.checks import broken, compiled, loaded, recompiled

CHECKS = {
    "compile": partial(compiled, "train_step"),
    "recompile": recompiled,
    "graph_break": partial(broken, "explicit"),
    "inductor": partial(compiled, "cached"),
    "cache": partial(loaded, "cached"),
}
