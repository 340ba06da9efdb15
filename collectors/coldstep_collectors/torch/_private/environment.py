"""Which options of PyTorch's configurations the environment has set: no two processes need have the same defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import ModuleType

from coldstep._util.expressions import expression

# PyTorch 2.13: "cpp_wrapper: bool = os.environ.get("TORCHINDUCTOR_CPP_WRAPPER", "0") == "1""
# PyTorch 2.13: "class triton:"
# PyTorch 2.13: "    autotune_pointwise = True"
# PyTorch 2.13: "def prologue_fusion_enabled() -> bool:"
_STATEMENT = expression(r"(?P<within> {4})?(?P<kind>class |def )?(?P<name>\w+)\s*[:=(]")


def set_options(module: ModuleType) -> set[str]:
    """The options that the module's source makes of variables that are set."""
    try:
        with open(module.__file__ or "", encoding="utf-8") as file:
            source = file.read()
    except OSError:
        return set()
    return options_of(source, os.environ)


def options_of(source: str, variables: Iterable[str]) -> set[str]:
    """The same, of a source and the names of variables."""
    given = [f'"{name}"' for name in variables if f'"{name}"' in source]
    if not given:
        return set()
    lines = list(zip(source.splitlines(), _options(source), strict=True))
    options = {option for line, option in lines if any(name in line for name in given)}
    makers = [f"{option}(" for option in options]
    return options | {option for line, option in lines if any(maker in line for maker in makers)}


def _options(source: str) -> Iterable[str]:
    """Of each line, the option that it belongs to, or the function."""
    owner, option = "", ""
    for line in source.splitlines():
        match = _STATEMENT.match(line)
        if match is not None and not match["within"]:
            option, owner = match["name"], f"{match['name']}." if match["kind"] == "class " else ""
        elif match is not None and owner:
            option = owner + match["name"]
        yield option
