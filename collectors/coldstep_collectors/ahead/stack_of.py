"""Which compiler a function is for: whose object it is, else whose arrays it takes or holds. Imports no framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from coldstep_collectors.ahead.step_parts import reached
from coldstep_collectors.support import SUPPORT
from coldstep_collectors.values import attribute


def stack_of(function: Callable[..., Any], *given: Any) -> str | None:
    """The stack of a function and of its arguments; None where neither shows it."""
    packages = _packages(function)
    if (stack := _by_class(packages)) is not None or attribute(function, "_jit_info") is not None:
        return stack or "jax"
    is_compiled = attribute(function, "get_compiler_config") is not None
    values = list(reached([function, attribute(function, "__wrapped__"), *given]))
    if not is_compiled and any(map(_is_lazy, values)):
        return "torch_xla"
    if is_compiled or "torch" in packages or any(map(_is_torchs, values)):
        return "dynamo"
    if (stack := _by_class(set[str]().union(*map(_packages, values)))) is not None:
        return stack
    if "jax" in sys.modules and any(map(_is_array, values)):
        return "jax"  # which takes NumPy's arrays as they are
    return None


def _by_class(packages: set[str]) -> str | None:
    return next((support.stack for support in SUPPORT if packages & {*support.classes}), None)


def _packages(value: Any) -> set[str]:
    """Those that its classes are from."""
    return {each.__module__.partition(".")[0] for each in type(value).__mro__}


def _is_torchs(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer))


def _is_lazy(value: Any) -> bool:
    """Whether a tensor, or the first parameter of a module, is one of torch_xla's."""
    if _is_torchs(value) and callable(getattr(type(value), "parameters", None)):
        value = next(iter(value.parameters()), None)
    return str(attribute(attribute(value, "device"), "type")) == "xla"


def _is_array(value: Any) -> bool:
    return attribute(value, "shape") is not None and attribute(value, "dtype") is not None
