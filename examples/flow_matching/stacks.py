"""The stacks by their names: each imports what it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from examples.flow_matching.molecules import Trainer


def stack(name: str) -> Callable[..., Trainer]:
    """What makes a trainer: of jax, or of a backend of torch.compile; JAX on one thread, as PyTorch is here."""
    if name == "jax":
        os.environ |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "NPROC": "1"}  # the threads of XLA's pool
        from examples.flow_matching import in_jax

        return partial(in_jax.trainer, name)
    from examples.flow_matching import in_torch

    return partial(in_torch.trainer, name)
