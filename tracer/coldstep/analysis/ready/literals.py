"""Code that makes a value of a given abstract value, in each stack's own words: for a call that nobody has made yet.

A trace may come from anybody. The values made up here are shown, and never run: only numbers, texts, containers and
types that read as such go into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.analysis.array_texts import CannotMakeUp, array_in, dtype, literal, shape
from coldstep.analysis.rules.registry import RULES, rules_of
from coldstep.signature import Signature
from coldstep.vocabulary import STACKS

# coldstep: "list of 3"
_SEQUENCE = expression(r"(list|tuple) of (\d+)")
# coldstep: "list of 317 int"
_LONG = expression(r"(list|tuple) of (\d+) (int|float)")
# coldstep: "{'w', 'b'}"
_DICT = expression(r"\{(.*)\}", re.DOTALL)
_MOST_LEAVES = 64  # of one argument that are written out


@slotted
class Argument:
    """One argument of a call: what stands at its path and below, by path."""

    name: str
    """Its path."""
    leaves: dict[str, str]
    """Abstract values and Python values, as text."""
    trees: dict[str, str]
    """The types of containers."""
    statics: dict[str, str]
    """What the program is compiled for each value of."""


def arguments(signature: Signature) -> dict[str, Argument]:
    """The arguments of a call by name, in the order in which the signature has them."""
    passed = [name.removesuffix("=") for name in forms.names_in(signature.context.get(forms.CALL.key(), ""))]
    trees, statics = forms.TREE.of(signature.context), forms.STATIC.of(signature.context)
    names = dict.fromkeys([*passed, *map(forms.root, (*signature.inputs, *trees, *statics))])
    by_root = {name: Argument(name, {}, {}, {}) for name in names}
    for part, texts in (("leaves", signature.inputs), ("trees", trees), ("statics", statics)):
        for path, text in texts.items():
            getattr(by_root[forms.root(path)], part)[path] = text
    return by_root


def value(stack: str, argument: Argument) -> str:
    """An expression for a value that the program would be compiled for as it was for this one.

    Raises CannotMakeUp.
    """
    if len(argument.leaves) > _MOST_LEAVES:
        raise CannotMakeUp(f"{argument.name} has {len(argument.leaves)} parts")
    leaf = _of_given if stack == GIVEN else rules_of(stack).value
    if leaf is None:
        raise CannotMakeUp(f"a value of {stack}'s")
    return _built(leaf, argument, argument.name)


def _built(leaf: Callable[[str, str], str], argument: Argument, path: str) -> str:
    if path in argument.trees:
        return _container(argument.trees[path], path, lambda below: _built(leaf, argument, below), argument)
    if path in argument.leaves:
        return leaf(path, argument.leaves[path])
    if path in argument.statics:
        return literal(path, argument.statics[path])
    raise CannotMakeUp(f"what {path} was is not known")


def _container(text: str, path: str, part: Callable[[str], str], argument: Argument) -> str:
    if text in ("[]", "()", "{}"):
        return text
    if match := _SEQUENCE.fullmatch(text):
        size = int(match[2])
        if size > _MOST_LEAVES:
            raise CannotMakeUp(f"{path} has {size} parts")
        parts = [part(f"{path}[{at}]") for at in range(size)]
        inner = ", ".join(parts)
        return f"[{inner}]" if match[1] == "list" else f"({inner},)" if size == 1 else f"({inner})"
    if _DICT.fullmatch(text) and (keys := _keys(argument, path)):
        return "{" + ", ".join(f"{key}: {part(f'{path}[{key}]')}" for key in keys) + "}"
    raise CannotMakeUp(f"{path} is a {text.partition('(')[0].partition(' of ')[0].partition('{')[0] or 'container'}")


def _keys(argument: Argument, path: str) -> dict[str, None]:
    """The keys of a dict, as literals, in the order in which its parts stand."""
    names = (*argument.leaves, *argument.trees, *argument.statics)
    keys = (_first_key(name[len(path) + 1 :]) for name in names if name.startswith(f"{path}["))
    return dict.fromkeys(key for key in keys if key is not None)


def _first_key(text: str) -> str | None:
    """The literal that a text begins with, up to the bracket that closes it."""
    for at, letter in enumerate(text):
        if letter == "]":
            try:
                ast.literal_eval(text[:at])
            except (ValueError, SyntaxError):
                continue
            return text[:at]
    return None


# --- what a function of the user's was given --------------------------------------------------------------------


def _of_given(path: str, text: str) -> str:
    """A value of whatever library: its type says of which."""
    if match := _LONG.fullmatch(text):
        part = "0" if match[3] == "int" else "0.0"
        return f"[{part}] * {match[2]}" if match[1] == "list" else f"({part},) * {match[2]}"
    if (array := array_in(path, text)) is None:
        return literal(path, text)
    whose = array.layout
    plain = text.replace(f" {whose}", "", 1)
    if whose == "numpy" and (name := dtype(array.dtype)) is not None and not name.startswith("bf"):
        return f"np.zeros({shape(array)}, np.{'bool_' if name == 'bool' else name})"
    made = next((RULES[stack.name].value for stack in STACKS if stack.packages[0] == whose), None)
    if made is None:
        raise CannotMakeUp(f"{path} is {text}")
    return made(path, plain)


GIVEN = "given"
"""In the place of a stack: values of whatever library, each with its name behind its type."""
# coldstep: "f(jnp.zeros((3,), jnp.float32))"
_NAMES = expression(r"(?<![\w.])(\w+)\.")


def imports(code: str) -> list[str]:
    """What some code takes."""
    known = {"np": "import numpy as np"} | {name: line for row in RULES.values() for name, line in row.imports.items()}
    return sorted(known[name] for name in {*_NAMES.findall(code)} & known.keys())


def can_be_made(stack: str) -> bool:
    """Whether there are words for a stack's values."""
    return stack == GIVEN or rules_of(stack).value is not None
