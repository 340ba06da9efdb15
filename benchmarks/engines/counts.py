"""What the programs here share: each prints what its trainer itself counts, for `make engines` to compare."""

from __future__ import annotations

import json
import logging
import platform
import sys
from importlib.metadata import version

MARK = "ENGINE "
"""Begins the line of output that holds the counts."""
_STACKS = ("jax", "tensorflow", "torch", "torch_xla")


class JaxCompiles(logging.Handler):
    """The functions that JAX compiles, by its own log (`jax_log_compiles`)."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the name that a line of the log gives."""
        if (text := record.getMessage()).startswith("Finished XLA compilation of"):
            self.functions.append(text.split()[4])

    def of(self, function: str) -> int:
        """How often a function of that name was compiled."""
        return sum(function in name for name in self.functions)


def jax_compiles() -> JaxCompiles:
    """JAX's log of what it compiles, from now on."""
    import jax

    handler = JaxCompiles()
    jax.config.update("jax_log_compiles", True)
    logging.getLogger("jax").addHandler(handler)
    return handler


def dynamo_graphs() -> int:
    """How many graphs Dynamo has compiled by its own counters; a frame that it takes over without one is no compile."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def show(losses: list[float], steps: int, compiles: int, *distributions: str) -> None:
    """Print the counts, the releases of `distributions`, and which frameworks the program has imported."""
    counts = {
        "losses": losses,
        "steps": steps,
        "compiles": compiles,
        "versions": [*(f"{name} {version(name)}" for name in distributions), f"Python {platform.python_version()}"],
        "imported": [name for name in _STACKS if name in sys.modules],
    }
    print(MARK + json.dumps(counts) + "\n", end="", flush=True)  # at once: several ranks write to one file
