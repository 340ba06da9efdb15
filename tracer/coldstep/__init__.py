"""coldstep: where a training step's first run goes, when it recompiles, and why it needs a second step to settle."""

from typing import TYPE_CHECKING, Any

from coldstep.session import annotate, step, steps, trace, wait

if TYPE_CHECKING:
    from coldstep.loader import load

__all__ = ["annotate", "load", "step", "steps", "trace", "wait"]


def __getattr__(name: str) -> Any:
    # reading a trace takes modules that the traced process should not pay for
    if name == "load":
        from coldstep.loader import load

        return load
    raise AttributeError(f"module 'coldstep' has no attribute {name!r}")
