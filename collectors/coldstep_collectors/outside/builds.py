"""Extensions that PyTorch builds from source as a program runs."""

from __future__ import annotations

import os
import time
from typing import Any

from coldstep.events import Args, Begin
from coldstep_collectors.outside._private.names import BUILDS
from coldstep_collectors.outside.around import Around, Call, Watch

_MODULE = "torch.utils.cpp_extension"
_PUBLIC = ("load", "load_inline")
_SLACK_S = 0.02  # by which a file's time may lag behind the clock's


def watch_builds(module: Any, around: Around) -> None:
    """Hook what both public functions call, which a program may have taken out of the module before; else these."""
    form = BUILDS.form()
    for name in [form.name] if form is not None else _PUBLIC:
        around.watch(Watch(_MODULE, name, "build.native", _extension, _built), module)


def _extension(call: Call) -> Args:
    return {"build": str(call.given(0, "name")), "tool": "ninja", "unix_s": time.time()}


def _built(call: Call, begin: Begin, made: Any) -> Args:
    library = made if isinstance(made, str) else getattr(made, "__file__", None)
    return {"state": state_of(library, float((begin.args or {})["unix_s"]))}


def state_of(library: str | None, since: float) -> str:
    """Whether it was built just now: the library is younger than the call."""
    try:
        is_new = library is None or os.stat(library).st_mtime >= since - _SLACK_S
    except OSError:
        is_new = True
    return "built" if is_new else "loaded"
