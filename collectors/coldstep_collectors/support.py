"""A row for each stack: what reads it, and what answers for it. Imports no framework."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coldstep.named_tuple import NamedTuple


class Lazy(NamedTuple):
    """A collector that is loaded when one of some packages has been imported, or at once where it waits for none."""

    name: str
    """As in `Collector.name`."""
    kind: str
    """Its module below this package, and its class: "jax.collector:Jax"."""
    packages: tuple[str, ...] = ()
    """Those that it waits for."""
    records_devices: bool = False
    """See `coldstep.collector.Collector`."""
    samples_stacks: bool = False
    """See `coldstep.collector.Collector`."""


class Support(NamedTuple):
    """A stack, and where in this package its parts are."""

    stack: str
    """As in `coldstep.vocabulary.STACKS`."""
    title: str
    """The framework, for people."""
    package: str
    """The framework's package; the folder here that is called so holds `collector`, `checks`, `self_test`, `forecast`
    and `_private.names`, and `fit` where it has it."""
    library: bytes
    """In the path of a file that is mapped into each process that has imported it; b"" where another's row has it."""
    collectors: tuple[Lazy, ...]
    """Those that read private names of it."""
    fits: bool = True
    """Whether `would_fit()` can ask it."""
    classes: tuple[str, ...] = ()
    """Packages whose objects, compiled functions among them, are this stack's and no other's."""

    def module(self, name: str) -> Any:
        """A module of its folder."""
        return import_module(f"coldstep_collectors.{self.package}.{name}")


# a framework stands before those that it imports
SUPPORT = (
    Support(
        "dynamo",
        "PyTorch",
        "torch",
        b"/libtorch",
        (
            Lazy("dynamo", "torch.collector:Dynamo", ("torch",)),
            Lazy("inductor", "torch.inductor:Inductor", ("torch",)),
            Lazy("kineto", "torch.profiler:Kineto", ("torch",), records_devices=True),
        ),
    ),
    Support(
        "torch_xla",
        "torch_xla",
        "torch_xla",
        b"",
        (Lazy("torch_xla", "torch_xla.collector:TorchXla", ("torch_xla",)),),
    ),
    Support(
        "tensorflow",
        "TensorFlow",
        "tensorflow",
        b"/libtensorflow",
        (Lazy("tensorflow", "tensorflow.collector:TensorFlow", ("tensorflow",)),),
        fits=False,
        classes=("tensorflow",),
    ),
    Support(
        "jax",
        "JAX",
        "jax",
        b"/jaxlib/",
        (
            Lazy("jax", "jax.collector:Jax", ("jax",)),
            Lazy("xspace", "xla.profiler:XSpace", ("jax", "torch_xla"), records_devices=True),
        ),
        classes=("jax", "jaxlib"),
    ),
)
_HAS_COSTS = ("torch", "jax", "keras", "safetensors", "huggingface_hub", "numpy", "triton")
_OF_NO_STACK = (
    Lazy("outside", "outside.collector:Outside", _HAS_COSTS),
    Lazy("stacks", "process.py_spy:PySpy", samples_stacks=True),
)

LAZY = {row.name: row for row in (*(row for support in SUPPORT for row in support.collectors), *_OF_NO_STACK)}
"""By name, the collectors that most traces do not need."""

BY_STACK = {row.stack: row for row in SUPPORT}
