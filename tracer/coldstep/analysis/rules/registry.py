"""What the modules of single stacks have for all: a row for each stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from coldstep.analysis.remedies.blocks import Block, Written
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.static_numbers import without_static
from coldstep.analysis.remedies.tensor_numbers import type_beside
from coldstep.analysis.rules import (
    dynamo,
    jax,
    jax_switch,
    jax_values,
    keras,
    tensorflow,
    tensorflow_eager,
    tensorflow_keras,
    tensorflow_vectorized,
    torch_values,
    torch_xla,
)
from coldstep.analysis.rules.tensorflow_slices import with_dynamic_slice
from coldstep.model import Compile, Finding, Location, Recompile, Remedy, Trace, Unrolled
from coldstep.named_tuple import NamedTuple

if TYPE_CHECKING:
    from coldstep.analysis.advice import Seen


class Rules(NamedTuple):
    """What one stack's modules have for all; what it lacks is empty."""

    remedies: Mapping[str, Row]
    """By cause, or by pattern and cause: what to change about a recompile."""
    chosen: Callable[[Trace, Recompile, Seen, str | None], str | None] | None = None
    """Chooses among them, by their keys, where it knows better than the one that would hold for any stack."""
    names: Callable[[Recompile, Seen], dict[str, str]] = lambda *_: {}
    """What only its rows are filled in with."""
    rewrites: Mapping[str, Callable[[Block, str], Written | None]] = {}
    """By cause: what writes a function anew, so that it takes any value of an argument."""
    loop: Callable[[Block, Unrolled, Compile], Written | None] | None = None
    """Writes a loop that a program holds each turn of as one that it holds once."""
    type_beside: Callable[[Block, str, Mapping[str, str]], str] | None = None
    """The type of the arrays that a function computes with beside a number."""
    opens: tuple[str, ...] = ()
    """What in a remedy's code and variables has the next compile take a size or a number as an input."""
    drop: str = "drop_last=True"
    """What has its loaders of data leave out a smaller last batch."""
    findings: tuple[Callable[[Trace], Iterator[Finding]], ...] = ()
    """Further findings of its own."""
    uncompiled: tuple[Callable[[Trace, Finding], list[Remedy]], ...] = ()
    """What to do about a finding of that kind, if it is of its collector's."""
    by_error: Mapping[str, str] = {}
    """What to write instead of what cannot be traced, by a part of the error that names it."""
    mends: tuple[Callable[[Trace, Compile, Location | None, str], list[Remedy]], ...] = ()
    """The same as code, where the line is seen: of the compile that failed, with that text."""
    value: Callable[[str, str], str] | None = None
    """An expression for a value of its own, by path and text. Raises CannotMakeUp."""
    imports: Mapping[str, str] = {}
    """By name, the line that imports what such an expression takes."""
    is_trainers_loop: Callable[[Compile], bool] = lambda _: False
    """Whether a trainer of the framework's made the function."""


RULES: Mapping[str, Rules] = {
    "jax": Rules(
        jax.REMEDIES,
        opens=("to_array(",),
        rewrites={"static_argument": without_static},
        loop=jax.held_once,
        findings=(jax.captured_constants,),
        uncompiled=(jax_switch.jitted_again,),
        by_error=jax.BY_ERROR,
        mends=(keras.eagerly, jax.rewritten),
        value=jax_values.value,
        imports={"jax": "import jax", "jnp": "import jax.numpy as jnp"},
    ),
    "dynamo": Rules(
        dynamo.REMEDIES,
        opens=("TORCH_COMPILE_", "mark_dynamic(", "force_parameter_static_shapes", "torch.as_tensor("),
        names=dynamo.names,
        type_beside=type_beside,
        value=torch_values.value,
        imports={"torch": "import torch"},
    ),
    "torch_xla": Rules(torch_xla.REMEDIES, value=torch_values.lazy_value),
    "tensorflow": Rules(
        tensorflow.REMEDIES,
        chosen=tensorflow.chosen,
        names=tensorflow.names,
        rewrites={"baked_constant": with_dynamic_slice},
        type_beside=type_beside,
        drop="drop_remainder=True",
        findings=(tensorflow.second_traces, tensorflow_keras.models_made_anew, tensorflow_vectorized.made_in_each_call),
        uncompiled=(tensorflow_keras.called_itself, tensorflow_eager.made_graphs),
        by_error=tensorflow.BY_ERROR,
        mends=(tensorflow.made_before,),
        value=tensorflow.value,
        imports={"tf": "import tensorflow as tf"},
        is_trainers_loop=tensorflow.is_trainers_loop,
    ),
}


def rules_of(stack: str) -> Rules:
    """A stack's row; an empty one of a stack that another's collector declares."""
    return RULES.get(stack, _NONE)


_NONE = Rules({})
