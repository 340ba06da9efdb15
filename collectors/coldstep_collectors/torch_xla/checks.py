"""What torch_xla's self-test must lead to, by the name of the promise."""

from functools import partial

from coldstep_collectors.checks import broken, compiled, recompiled

CHECKS = {"compile": partial(compiled, None), "recompile": recompiled, "host_read": partial(broken, "host_read")}
