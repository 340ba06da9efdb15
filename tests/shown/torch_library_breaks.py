"""An installed library breaks the graph of whoever compiles a call of it, in every way that has words of its own."""

# shows: breaks _ON_PURPOSE
# shows: breaks _BY_REASON[Tensor\.backward\(\)] in a library
# shows: breaks _BY_REASON[[Ii]nplace view on a graph input] in a library
# shows: breaks _BY_REASON[aten\.repeat_interleave\.Tensor] in a library
# shows: breaks _BY_REASON[`print`|builtin `_?warnings\.warn|reorder] in a library
# shows: breaks _BY_REASON[__build_class__|class definition|LOAD_BUILD_CLASS] in a library
# shows: breaks _BY_REASON[requires_grad_\(\)] in a library
# shows: breaks _BY_REASON[setattr\(\) on Tensor\.requires_grad] in a library
# shows: breaks _BY_REASON[of class `ContextVar`|contextvars] in a library
# shows: breaks _BY_REASON[`PyC\w+Type`] in a library
# shows: breaks _BY_REASON[no meta kernel|running with fake tensors|UnsupportedFakeTensorException|non-PT2-compliant op] in a library  # noqa: E501
# shows: breaks _BY_REASON[builtin `|C/C\+\+|not implemented in python] in a library
import sys
from pathlib import Path

import torch

LIBRARY = """
import contextvars
import ctypes
import zlib

import torch

weight = torch.ones(2, requires_grad=True)
scale = contextvars.ContextVar("scale", default=2.0)

operators = torch.library.Library("breaker", "DEF")
operators.define("double(Tensor x) -> Tensor")
operators.impl("double", lambda x: x * 2, "CPU")


def on_purpose(x):
    torch._dynamo.graph_break()
    return x.sum()


def backward(x):
    (weight * x.sum()).sum().backward()
    return x.sum()


def view(x):
    x.t_()
    return x.sum()


def repeats(x):
    return x[0].repeat_interleave(torch.tensor([1, 2, 3, 4])).sum()


def prints(x):
    print("shape", x.shape[0])
    return x.sum()


def defines(x):
    class Box:
        value = 2

    return x.sum() * Box.value


def wants_gradients(x):
    x.requires_grad_()
    return x.sum()


def sets_gradients(x):
    x.requires_grad = True
    return x.sum()


def variable(x):
    return x.sum() * scale.get()


def c_types(x):
    ctypes.c_void_p.from_param(3)
    return x.sum()


def operator(x):
    return torch.ops.breaker.double(x + 1).sum()


def checksum(x):
    return x.sum() * zlib.crc32(b"weights")
"""
packages = Path("site-packages").absolute()
packages.mkdir(exist_ok=True)
(packages / "breaker.py").write_text(LIBRARY)
sys.path.insert(0, str(packages))
breaker = __import__("breaker")

STEPS = (  # a line each: breaks of one kind at one line of the user's are one
    lambda x: breaker.on_purpose(x),
    lambda x: breaker.backward(x),
    lambda x: breaker.view(x),
    lambda x: breaker.repeats(x),
    lambda x: breaker.prints(x),
    lambda x: breaker.defines(x),
    lambda x: breaker.wants_gradients(x),
    lambda x: breaker.sets_gradients(x),
    lambda x: breaker.variable(x),
    lambda x: breaker.c_types(x),
    lambda x: breaker.operator(x),
    lambda x: breaker.checksum(x),
)
for step in STEPS:
    print("loss", torch.compile(step, backend="aot_eager")(torch.ones(2, 4)).item())
