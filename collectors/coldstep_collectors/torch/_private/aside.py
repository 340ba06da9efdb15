"""Keeps Dynamo away from coldstep's own code, which runs under a compiled function where that calls `backward()`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar, cast

from coldstep.collector import Sink
from coldstep_collectors.torch._private import names

MODULE = "torch._dynamo.trace_rules"
_PACKAGES = ("coldstep", "coldstep_collectors", "coldstep_viewers")
Hook = TypeVar("Hook", bound=Callable[..., Any])


def skip_our_files(rules: ModuleType) -> None:
    """Have Dynamo compile no frame of ours; what the program's compiled code calls of ours, the marks, is traced within
    it as before."""
    if names.SKIPPED_FILES.form() is None:
        return
    for package in _PACKAGES:
        if (file := getattr(sys.modules.get(package), "__file__", None)) is not None:
            folder = os.path.join(os.path.dirname(file), "")
            if folder not in rules.get_mod_inlinelist():
                rules.get_mod_inlinelist().add(folder)
                rules.add(package)


def aside(hook: Hook) -> Hook:
    """`hook`, from which Dynamo looks at nothing: what it calls of Python's own is not compiled either."""

    switch: Any = None  # there once Dynamo is imported

    @wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal switch
        if switch is None and (switch := names.SWITCH.find()) is None:
            return hook(*args, **kwargs)
        before = switch(None)
        try:
            return hook(*args, **kwargs)
        finally:
            switch(before)

    return cast(Hook, called)


def guarded(sink: Sink, collector: str, hook: Hook) -> Hook:
    """`hook` behind the circuit breaker, and aside."""
    return aside(sink.guarded(collector, hook))
