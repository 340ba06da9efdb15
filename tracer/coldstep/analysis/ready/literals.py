"""Code that makes a value of a given abstract value, in each stack's own words: for a call that nobody has made yet.

A trace may come from anybody. The values made up here are shown, and never run: only numbers, texts, containers and
types that read as such go into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.signature import ArrayType, Signature, array_of

_LETTERS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
# coldstep: "i64"
_SHORT = expression(r"([fiuc])(\d+)(_\w+)?")
# coldstep: "key<fry>"
_KEY = expression(r"key<(\w+)>")
# coldstep: "list of 3"
_SEQUENCE = expression(r"(list|tuple) of (\d+)")
# coldstep: "list of 317 int"
_LONG = expression(r"(list|tuple) of (\d+) (int|float)")
# coldstep: "{'w', 'b'}"
_DICT = expression(r"\{(.*)\}", re.DOTALL)
# coldstep: "@P('x',None)/mesh(x=2,y=4:auto) committed"
_PARTITION = expression(r"@P\((.*)\)/mesh\(([\w=:,]+)\)")
# coldstep: "@cpu:1"
_DEVICE = expression(r"@([a-z]+)(?::(\d+))?")
# coldstep: "stride(1,8)"
_STRIDE = expression(r"stride\(([\d,]*)\)")
# PyTorch 2.13: "torch.bfloat16"
_TORCH_WORD = expression(r"torch\.(?:float|bfloat|int|uint|complex|bool)\w*")
_KEY_NAMES = {"fry": "", "rbg": ', impl="rbg"', "urbg": ', impl="unsafe_rbg"'}
_WEAK = {"f": "0.0", "i": "0", "c": "0j"}
_AXES = {"": "Explicit", "auto": "Auto", "manual": "Manual"}
_MOST_LEAVES = 64  # of one argument that are written out


class CannotMakeUp(ValueError):
    """A value that only the program itself can make; the message names it."""


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
    by_root: dict[str, Argument] = {}
    passed = [name.removesuffix("=") for name in forms.names_in(signature.context.get(forms.CALL.key(), ""))]
    trees, statics = forms.TREE.of(signature.context), forms.STATIC.of(signature.context)
    for name in dict.fromkeys([*passed, *map(forms.root, (*signature.inputs, *trees, *statics))]):
        by_root[name] = Argument(name, {}, {}, {})
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
    return _built(_LEAVES[stack], argument, argument.name)


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
    if _DICT.fullmatch(text) and (keys := list(_keys(argument, path))):
        return "{" + ", ".join(f"{key}: {part(f'{path}[{key}]')}" for key in keys) + "}"
    raise CannotMakeUp(f"{path} is a {text.partition('(')[0].partition(' of ')[0].partition('{')[0] or 'container'}")


def _keys(argument: Argument, path: str) -> Iterator[str]:
    """The keys of a dict, as literals, in the order in which its parts stand."""
    seen = set()
    for name in (*argument.leaves, *argument.trees, *argument.statics):
        if not name.startswith(f"{path}["):
            continue
        key = _first_key(name[len(path) + 1 :])
        if key is not None and key not in seen:
            seen.add(key)
            yield key


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


def literal(path: str, text: str) -> str:
    """A Python value by its text, where that is one. Raises CannotMakeUp."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise CannotMakeUp(f"{path} is {text}") from None
    return text


def _array(path: str, text: str) -> ArrayType | None:
    """An array's type taken apart; None for a Python value. Raises CannotMakeUp where its sizes are not all known."""
    array = array_of(text)
    if array is not None and not all(size.isdigit() for size in _sizes(array)):
        raise CannotMakeUp(f"{path} is {text}, of which not every size is known")
    return array


def _sizes(array: ArrayType) -> list[str]:
    return array.dims.split(",") if array.dims else []


def _shape(array: ArrayType) -> str:
    sizes = _sizes(array)
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def dtype(name: str) -> str | None:
    """The long name of a type of elements: "i64" is int64."""
    if name == "bool" or name.startswith("bfloat"):
        return name
    if name.startswith("bf"):
        return f"bfloat{name[2:]}"
    match = _SHORT.fullmatch(name)
    return f"{_LETTERS[match[1]]}{match[2]}{match[3] or ''}" if match else None


# --- JAX --------------------------------------------------------------------------------------------------------


def _of_jax(path: str, text: str) -> str:
    array = _array(path, text)
    if array is None:
        return literal(path, text)
    made = _jax_zeros(path, text, array)
    if array.layout:
        raise CannotMakeUp(f"{path} is {text}")
    if match := _PARTITION.fullmatch(array.place):
        return f"jax.device_put({made}, {_sharding(path, match[1], match[2])})"
    if "committed" in array.flags:
        return f"jax.device_put({made}, {_jax_device(path, array.place)})"
    if array.place:
        raise CannotMakeUp(f"{path} lies on {array.place[1:]} without being pinned there")
    return made


def _jax_zeros(path: str, text: str, array: ArrayType) -> str:
    if match := _KEY.fullmatch(array.dtype):
        if match[1] not in _KEY_NAMES:
            raise CannotMakeUp(f"{path} is {text}")
        key = f"jax.random.key(0{_KEY_NAMES[match[1]]})"
        return f"jax.random.split({key}, {_shape(array)})" if array.dims else key
    if "weak" in array.flags:
        number = _WEAK.get(array.dtype[0])
        if number is None:
            raise CannotMakeUp(f"{path} is {text}")
        return f"jnp.broadcast_to({number}, {_shape(array)})" if array.dims else number
    if (name := dtype(array.dtype)) is None:
        raise CannotMakeUp(f"{path} is {text}")
    return f"jnp.zeros({_shape(array)}, jnp.{'bool_' if name == 'bool' else name})"


def _jax_device(path: str, place: str) -> str:
    if not place:
        return "jax.devices()[0]"
    match = _DEVICE.fullmatch(place)
    if match is None:
        raise CannotMakeUp(f"{path} lies on {place[1:]}")
    return f'jax.devices("{match[1]}")[{match[2] or 0}]'


def _sharding(path: str, spec: str, mesh: str) -> str:
    try:
        parts = ast.literal_eval(f"({spec},)") if spec else ()
    except (ValueError, SyntaxError):
        raise CannotMakeUp(f"{path} lies as P({spec})") from None
    axes = [axis.partition("=") for axis in mesh.split(",")]
    sizes = [size.partition(":")[0] for _, _, size in axes]
    kinds = [_AXES.get(size.partition(":")[2]) for _, _, size in axes]
    if None in kinds or not all(size.isdigit() for size in sizes):
        raise CannotMakeUp(f"{path} lies on a mesh({mesh})")
    names = ", ".join(repr(name) for name, _, _ in axes)
    types = ", ".join(f"jax.sharding.AxisType.{kind}" for kind in kinds)
    made = f"jax.make_mesh(({', '.join(sizes)},), ({names},), axis_types=({types},))"
    placed = ", ".join(map(repr, parts))
    return f"jax.sharding.NamedSharding({made}, jax.sharding.PartitionSpec({placed}))"


# --- PyTorch ----------------------------------------------------------------------------------------------------


def _of_torch(path: str, text: str) -> str:
    array = _array(path, text)
    if array is None:
        return text if _TORCH_WORD.fullmatch(text) else literal(path, text)
    name, stride = dtype(array.dtype), _STRIDE.fullmatch(array.layout)
    if name is None or (array.layout and stride is None):
        raise CannotMakeUp(f"{path} is {text}")
    options = [f"dtype=torch.{name}"]
    lazy = array.place.startswith("@xla")
    if lazy and "requires_grad" not in array.flags and stride is None:
        return f'torch.zeros({_shape(array)}, {options[0]}).to("{array.place[1:]}")'
    if lazy or (array.place and not _DEVICE.fullmatch(array.place)):
        raise CannotMakeUp(f"{path} is {text}")
    if array.place:
        options.append(f'device="{array.place[1:]}"')
    if "requires_grad" in array.flags:
        options.append("requires_grad=True")
    settings = ", ".join(options)
    if stride is not None:
        strides = f"({stride[1].replace(',', ', ')}{'' if ',' in stride[1] else ','})"
        return f"torch.empty_strided({_shape(array)}, {strides}, {settings})"
    return f"torch.zeros({_shape(array)}, {settings})"


def _of_torch_xla(path: str, text: str) -> str:
    array = _array(path, text)
    if array is None or array.layout or array.place or (name := dtype(array.dtype)) is None:
        raise CannotMakeUp(f"{path} is {text}")
    return f'torch.zeros({_shape(array)}, dtype=torch.{name}).to("xla")'  # what is made there is part of the graph


# --- what a function of the user's was given --------------------------------------------------------------------


def _of_given(path: str, text: str) -> str:
    """A value of whatever library: its type says of which."""
    if match := _LONG.fullmatch(text):
        part = "0" if match[3] == "int" else "0.0"
        return f"[{part}] * {match[2]}" if match[1] == "list" else f"({part},) * {match[2]}"
    array = _array(path, text)
    if array is None:
        return literal(path, text)
    whose = array.layout
    plain = text.replace(f" {whose}", "", 1)
    if whose == "numpy" and (name := dtype(array.dtype)) is not None and not name.startswith("bf"):
        return f"np.zeros({_shape(array)}, np.{'bool_' if name == 'bool' else name})"
    made = {"jax": _of_jax, "torch": _of_torch, "tensorflow": _of_tensorflow}.get(whose)
    if made is None:
        raise CannotMakeUp(f"{path} is {text}")
    return made(path, plain)


# --- TensorFlow -------------------------------------------------------------------------------------------------


def _of_tensorflow(path: str, text: str) -> str:
    array = _array(path, text)
    if array is None:
        return literal(path, text)
    name = "string" if array.dtype == "string" else dtype(array.dtype)
    if name is None or array.flags - {"variable"} or array.layout or array.place:
        raise CannotMakeUp(f"{path} is {text}")
    made = f"tf.zeros({_shape(array)}, tf.{name})"
    return f"tf.Variable({made})" if "variable" in array.flags else made


GIVEN = "given"
"""In the place of a stack: values of whatever library, each with its name behind its type."""
_LEAVES: Mapping[str, Callable[[str, str], str]] = {
    "jax": _of_jax,
    "dynamo": _of_torch,
    "torch_xla": _of_torch_xla,
    "tensorflow": _of_tensorflow,
    GIVEN: _of_given,
}
"""By stack, what makes a leaf."""

_IMPORTS = {
    "jax.": "import jax",
    "jnp.": "import jax.numpy as jnp",
    "np.": "import numpy as np",
    "torch.": "import torch",
    "tf.": "import tensorflow as tf",
}
# coldstep: "f(jnp.zeros((3,), jnp.float32))"
_NAMES = expression(r"(?<![\w.])(?:jax|jnp|np|torch|tf)\.")


def imports(code: str) -> list[str]:
    """What some code takes."""
    used = set(_NAMES.findall(code))
    return [line for name, line in _IMPORTS.items() if name in used]


def can_be_made(stack: str) -> bool:
    """Whether there are words for a stack's values."""
    return stack in _LEAVES
