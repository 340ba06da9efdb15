"""Code that makes a tensor that a trace describes, as PyTorch or torch_xla has it."""

from __future__ import annotations

from coldstep._util.expressions import expression
from coldstep.analysis.array_texts import DEVICE, CannotMakeUp, array_in, dtype, literal, shape

# coldstep: "stride(1,8)"
_STRIDE = expression(r"stride\(([\d,]*)\)")
# PyTorch 2.13: "torch.bfloat16"
_TORCH_WORD = expression(r"torch\.(?:float|bfloat|int|uint|complex|bool)\w*")


def value(path: str, text: str) -> str:
    """An expression for a value of that text. Raises CannotMakeUp."""
    if (array := array_in(path, text)) is None:
        return text if _TORCH_WORD.fullmatch(text) else literal(path, text)
    name, stride = dtype(array.dtype), _STRIDE.fullmatch(array.layout)
    if name is None or (array.layout and stride is None):
        raise CannotMakeUp(f"{path} is {text}")
    options = [f"dtype=torch.{name}"]
    lazy = array.place.startswith("@xla")
    if lazy and "requires_grad" not in array.flags and stride is None:
        return f'torch.zeros({shape(array)}, {options[0]}).to("{array.place[1:]}")'
    if lazy or (array.place and not DEVICE.fullmatch(array.place)):
        raise CannotMakeUp(f"{path} is {text}")
    if array.place:
        options.append(f'device="{array.place[1:]}"')
    if "requires_grad" in array.flags:
        options.append("requires_grad=True")
    settings = ", ".join(options)
    if stride is not None:
        strides = f"({stride[1].replace(',', ', ')}{'' if ',' in stride[1] else ','})"
        return f"torch.empty_strided({shape(array)}, {strides}, {settings})"
    return f"torch.zeros({shape(array)}, {settings})"


def lazy_value(path: str, text: str) -> str:
    """The same for torch_xla. Raises CannotMakeUp."""
    array = array_in(path, text)
    if array is None or array.layout or array.place or (name := dtype(array.dtype)) is None:
        raise CannotMakeUp(f"{path} is {text}")
    return f'torch.zeros({shape(array)}, dtype=torch.{name}).to("xla")'  # what is made there is part of the graph
