"""What the modules of single stacks have for all.

`findings` are further ones of its own; `is_trainers_loop`: whether a trainer of the framework's made the function.
"""

from collections.abc import Callable, Iterator

from coldstep.analysis.rules.jax import captured_constants
from coldstep.analysis.rules.tensorflow import is_trainers_loop, second_traces
from coldstep.model import Finding, Trace

FINDINGS: tuple[Callable[[Trace], Iterator[Finding]], ...] = (captured_constants, second_traces)

__all__ = ["FINDINGS", "is_trainers_loop"]
