"""What JAX has started in this process: a backend, a job of several processes. Nothing here starts either."""

from __future__ import annotations

import sys


def process_index() -> int | None:
    """This process's number in the job, where jax.distributed was started."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    started = getattr(state, "client", None) is not None
    index = getattr(state, "process_id", None) if started else None
    return index if isinstance(index, int) else None


def backend_started() -> bool:
    """Whether JAX has started a backend already: asking it for its devices would."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    check = getattr(bridge, "backends_are_initialized", None)
    return bool(check is not None and check())
