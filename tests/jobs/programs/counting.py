"""How often the frameworks of a process say that they compiled, in a file of its own."""

import json
import os


def jax_counted():
    """JAX, and a function that writes how often its own monitoring saw it compile."""
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    return jax, lambda: counted(len(compiled))


def torch_counted(before=0):
    """Write how many graphs Dynamo counts beyond those before."""
    counted(torch_graphs() - before)


def torch_graphs():
    """How many graphs Dynamo counts in this process, its parent's included."""
    import torch

    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def counted(number):
    """Write the number, in place of what this process wrote before."""
    with open(f"counted-{os.getpid()}.json", "w") as file:
        json.dump(number, file)
