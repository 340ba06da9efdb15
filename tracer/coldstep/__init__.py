"""coldstep: where a training step's first run goes, when it recompiles, and why it needs a second step to settle."""

from coldstep.loader import load
from coldstep.session import annotate, step, steps, trace, wait

__all__ = ["annotate", "load", "step", "steps", "trace", "wait"]
