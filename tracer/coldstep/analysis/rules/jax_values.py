"""Code that makes an array that a trace describes, as JAX has it."""

from __future__ import annotations

import ast

from coldstep._util.expressions import expression
from coldstep.analysis.array_texts import DEVICE, CannotMakeUp, array_in, dtype, literal, shape
from coldstep.signature import ArrayType

# coldstep: "key<fry>"
_KEY = expression(r"key<(\w+)>")
# coldstep: "@P('x',None)/mesh(x=2,y=4:auto) committed"
_PARTITION = expression(r"@P\((.*)\)/mesh\(([\w=:,]+)\)")
_KEY_NAMES = {"fry": "", "rbg": ', impl="rbg"', "urbg": ', impl="unsafe_rbg"'}
_WEAK = {"f": "0.0", "i": "0", "c": "0j"}
_AXES = {"": "Explicit", "auto": "Auto", "manual": "Manual"}


def value(path: str, text: str) -> str:
    """An expression for a value of that text. Raises CannotMakeUp."""
    if (array := array_in(path, text)) is None:
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
        return f"jax.random.split({key}, {shape(array)})" if array.dims else key
    if "weak" in array.flags:
        if (number := _WEAK.get(array.dtype[0])) is None:
            raise CannotMakeUp(f"{path} is {text}")
        return f"jnp.broadcast_to({number}, {shape(array)})" if array.dims else number
    if (name := dtype(array.dtype)) is None:
        raise CannotMakeUp(f"{path} is {text}")
    return f"jnp.zeros({shape(array)}, jnp.{'bool_' if name == 'bool' else name})"


def _jax_device(path: str, place: str) -> str:
    if not place:
        return "jax.devices()[0]"
    if (match := DEVICE.fullmatch(place)) is None:
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
