"""Triton kernels of the program's own: each compile of one, each load of one from Triton's cache, and what launches
them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

from coldstep.events import CHOICES
from coldstep.places import frames
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.outside.around import Around
from coldstep_collectors.outside.builds import state_of
from coldstep_collectors.outside.kernel_tuning import is_choosing

_COMPILER = "torch._inductor"  # whose kernels have phases of their own
_DRIVERS = ("triton.backends.nvidia.driver", "triton.backends.amd.driver")


def watch_kernels(compiler: Any, around: Around) -> None:
    """Hook `triton.compile`, which kernels take from `triton.compiler` when they are first called. Triton's listener
    knows whether its cache had one."""
    real = compiler.compile
    hits = threading.local()
    if (knobs := sys.modules.get("triton.knobs")) is not None:
        _listen(knobs.compilation, hits, around)

    def own(frame: FrameType, src: Any, *args: Any, **options: Any) -> Any:
        facts = {"build": str(getattr(src, "name", src)).rpartition("/")[2], "tool": "triton"}
        with around.within("kernel.jit", frame, facts) as more:
            hits.hit = False
            kernel = real(src, *args, **options)
            if more is not None:
                more["state"] = "loaded" if hits.hit else "built"
            return kernel

    compiled = _hooked(around, real, own)
    around.put(compiler, "compile", compiled)
    if getattr(sys.modules.get("triton"), "compile", None) is real:
        around.put(sys.modules["triton"], "compile", compiled)


def watch_stubs(build: Any, around: Around) -> None:
    """Hook what has a C compiler make the code through which Triton loads and launches kernels, once for each form."""
    real = build.compile_module_from_src

    def own(frame: FrameType, src: Any, name: Any, *args: Any, **options: Any) -> Any:
        began = time.time()
        with around.within("kernel.jit", frame, {"build": str(name), "tool": "gcc"}) as more:
            made = real(src, name, *args, **options)
            if more is not None:
                more["state"] = state_of(getattr(made, "__file__", None), began)
            return made

    compiled = _hooked(around, real, own)
    for module in (build, *map(sys.modules.get, _DRIVERS)):
        if module is not None and getattr(module, "compile_module_from_src", None) is real:
            around.put(module, "compile_module_from_src", compiled)


def _listen(compilation: Any, hits: threading.local, around: Around) -> None:
    before = compilation.listener

    def listener(**facts: Any) -> None:
        hits.hit = bool(facts.get("cache_hit"))
        if before is not None:
            before(**facts)

    around.put(compilation, "listener", listener)


def _hooked(around: Around, real: Any, own: Callable[..., Any]) -> Any:
    """`real`, in whose place `own` is called, with the calling frame before the arguments, for a kernel of the
    program's own: not for one of Inductor's, nor for a choice that is tried."""

    @wraps(real)
    def compiled(*args: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        if any(str(each.f_globals.get("__name__", "")).startswith(_COMPILER) for each in frames(frame)):
            return real(*args, **options)
        if is_choosing():
            with around.within(AUTOTUNE, frame, {CHOICES: True}):
                return real(*args, **options)
        return own(frame, *args, **options)

    return compiled
