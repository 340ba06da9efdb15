"""Process groups that are formed, devices that are started, and CUDA graphs that a program records itself."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import wraps
from itertools import takewhile
from types import FrameType
from typing import Any

from coldstep.events import Args
from coldstep.places import frames
from coldstep_collectors.outside._private.names import STARTS_CUDA
from coldstep_collectors.outside.around import Around, Call, Watch

_COMPILER = ("torch._inductor", "torch.cuda.")
"""The modules that record CUDA graphs for PyTorch's compiler, whose phase is its own, and the wrapper between."""


def _group(call: Call) -> Args:
    backend = call.given(0, "backend")
    return {"what": str(backend)} if isinstance(backend, str) else {}


def _wrapper(_: Call) -> Args:
    return {"what": "DistributedDataParallel"}


_C10D, _DISTRIBUTED = "torch.distributed.distributed_c10d", ("torch.distributed",)
ROWS = (
    Watch(_C10D, "init_process_group", "comm.init", _group, beside=_DISTRIBUTED),
    Watch(_C10D, "new_group", "comm.init", beside=_DISTRIBUTED),
    Watch("torch.distributed.device_mesh", "init_device_mesh", "comm.init", beside=_DISTRIBUTED),
    # which compares and hands round the weights: over NCCL the group's communicator is made there
    Watch("torch.nn.parallel.distributed", "DistributedDataParallel.__init__", "comm.init", _wrapper),
    Watch("jax.distributed", "initialize", "comm.init"),
)


def watch_barriers(distributed: Any, around: Around) -> None:
    """Have the first barrier of each process group count. The other collectives are left as they are: Dynamo knows
    those by identity, and a hook would break its graphs."""
    real, seen = distributed.barrier, set[int]()  # no group is kept alive

    @wraps(real)
    def first(*args: Any, **kwargs: Any) -> Any:
        group = args[0] if args else kwargs.get("group")
        if id(group) in seen:
            return real(*args, **kwargs)
        seen.add(id(group))
        with around.within("comm.init", sys._getframe(1), {"what": "first barrier"}):
            return real(*args, **kwargs)

    around.put(distributed, "barrier", first)


def watch_start(cuda: Any, around: Around) -> None:
    """Have the start of CUDA count, whatever needs the device first; from then on nothing is hooked."""
    name = form.name if (form := STARTS_CUDA.form()) is not None else "init"
    if cuda.is_initialized():
        return
    real = getattr(cuda, name)

    @wraps(real)
    def started() -> Any:
        if cuda.is_initialized():
            return real()
        try:
            with around.within("device.init", sys._getframe(1)):
                return real()
        finally:
            if cuda.is_initialized() and getattr(cuda, name) is started:
                setattr(cuda, name, real)

    around.put(cuda, name, started)


def watch_captures(graphs: Any, around: Around) -> None:
    """Have the time within `torch.cuda.graph(…)` count as the recording that it is, but where the compiler records."""
    enter, leave = graphs.graph.__enter__, graphs.graph.__exit__
    open_: dict[Any, AbstractContextManager[Any]] = {}

    @wraps(enter)
    def entered(self: Any) -> Any:
        frame = sys._getframe(1)
        if not _is_compilers(frame):
            open_[self] = phase = around.within("capture", frame)
            phase.__enter__()
        return enter(self)

    @wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        try:
            return leave(self, *error)
        finally:
            if (phase := open_.pop(self, None)) is not None:
                phase.__exit__(None, None, None)

    around.put(graphs.graph, "__enter__", entered)
    around.put(graphs.graph, "__exit__", left)


def _is_compilers(frame: FrameType) -> bool:
    modules = (str(each.f_globals.get("__name__", "")) for each in frames(frame))
    within = takewhile(lambda name: name.startswith(_COMPILER), modules)
    return any(name.startswith(_COMPILER[0]) for name in within)
