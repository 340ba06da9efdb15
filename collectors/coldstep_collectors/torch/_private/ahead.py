"""What PyTorch compiles ahead of its calls (`torch.compile(…).aot_compile`), loads that way, and then calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from coldstep_collectors.patch import Patch
from coldstep_collectors.torch._private import names
from coldstep_collectors.torch._private.frames import CompilingFrame
from coldstep_collectors.torch._private.phases import AHEAD_LOAD

MODULE = "torch._dynamo.aot_compile"
_OF_ANY_MODULE = ("_call_impl", "_wrapped_call_impl")
"""Methods through which every module is called: they do not show which."""
CODE = "code"
"""An argument of the end of an `AHEAD_LOAD`: the code of the function that was loaded."""


def compiling() -> CompilingFrame | None:
    """The compile ahead on this thread, as if called with the example inputs."""
    frame = names.AHEAD.on_stack(sys._getframe(1))
    match names.AHEAD.local(frame):
        case [given, [args, kwargs], backend] if frame is not None:
            if getattr(given, "__name__", "") in _OF_ANY_MODULE:
                given = given.__self__
            method = getattr(given, "forward", given)
            function = getattr(method, "__func__", method)
            values, known = {"args": args, "kwargs": kwargs}, getattr(function, "__globals__", {})
            if isinstance(code := getattr(function, "__code__", None), CodeType):
                return CompilingFrame(code, values, frame.f_back, True, None, known, given, backend)
    return None


def watch_loads(event: Callable[[str, str, dict[str, Any] | None], None]) -> Patch | None:
    """Have `event` called as for a span of PyTorch's around each load of a function compiled ahead; None where that
    cannot be."""
    if (owner := names.AHEAD_LOADS.find()) is None:
        return None
    load = vars(owner)["deserialize"].__func__

    @wraps(load)
    def deserialize(cls: Any, *args: Any, **kwargs: Any) -> Any:
        event("B", AHEAD_LOAD, None)
        code = None
        try:
            loaded = load(cls, *args, **kwargs)
            code = _code_of(loaded)
        finally:
            event("E", AHEAD_LOAD, {CODE: code})
        return loaded

    return Patch(owner, "deserialize", classmethod(deserialize))


def around_calls(enter: Callable[[Any, FrameType], Callable[[], None]]) -> Patch | None:
    """Have `enter(what, frame)` called before each call of code compiled ahead, with the code of the function, or
    the class of the module, and the calling frame, and what that returns, after it; None where that cannot be."""
    if (owner := names.AHEAD_LOADS.find()) is None:
        return None
    call = vars(owner)["__call__"]

    @wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        code = _code_of(self)
        is_any = code is not None and code.co_name in _OF_ANY_MODULE and args
        ended = enter(type(args[0]) if is_any else code, sys._getframe(1))
        try:
            return call(self, *args, **kwargs)
        finally:
            ended()

    return Patch(owner, "__call__", called)


def _code_of(compiled: Any) -> CodeType | None:
    code = getattr(getattr(compiled, "_artifacts", None), "original_code", None)
    return code if isinstance(code, CodeType) else None
