"""What the modules of single stacks have for all.

`FINDINGS` are further ones of its own; `INSTEAD`, by stack: what to write where an error names what cannot be traced;
`UNROLLED`, by stack: what to do about a Python loop of which a program holds every turn; `is_trainers_loop`: whether
a trainer of the framework's made the function.
"""

from collections.abc import Callable, Iterator, Mapping

from coldstep.analysis.remedies.row import Row
from coldstep.analysis.rules import dynamo, jax, tensorflow
from coldstep.analysis.rules.jax import captured_constants
from coldstep.analysis.rules.tensorflow import is_trainers_loop, second_traces
from coldstep.analysis.rules.tensorflow_keras import models_made_anew
from coldstep.model import Finding, Trace

FINDINGS: tuple[Callable[[Trace], Iterator[Finding]], ...] = (captured_constants, second_traces, models_made_anew)
INSTEAD: Mapping[str, Callable[[str], str]] = {"jax": jax.instead, "tensorflow": tensorflow.instead}
UNROLLED: Mapping[str, Row] = {"jax": jax.REMEDIES["unrolled"], "dynamo": dynamo.REMEDIES["unrolled"]}

__all__ = ["FINDINGS", "INSTEAD", "UNROLLED", "is_trainers_loop"]
