"""What the hooks on caches cost: their own processor time, counted, beside a compile's.

    .venv/bin/python benchmarks/caches/cache_cost.py [jax | torch]
    .venv-xla/bin/python benchmarks/caches/cache_cost.py torch_xla

The hooks are timed one by one on their thread, so that other work on the machine does not count. What a compile takes
is the process's whole time: XLA and the C++ compiler's waits are on other threads.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

LAYERS = (1, 8, 48)


def counted(owner: Any, *names: str) -> None:
    """Add the time of these functions, the outermost calls only, to `spent`."""
    for name in names:
        real = getattr(owner, name)

        def timed(*args: Any, _real: Callable[..., Any] = real, **kwargs: Any) -> Any:
            if spent["open"]:
                return _real(*args, **kwargs)
            spent["open"], begun = 1, time.thread_time_ns()
            try:
                return _real(*args, **kwargs)
            finally:
                spent["ns"] += time.thread_time_ns() - begun
                spent["open"] = 0

        setattr(owner, name, timed)


spent = {"ns": 0, "open": 0}


def of_jax(layers: int) -> Callable[[], object]:
    """The first call of a network's gradient."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[Any], x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight) + jax.nn.softmax(x)
        return x.sum()

    weights = [jnp.ones((16, 16)) * number for number in range(layers)]
    step = jax.jit(jax.grad(loss))
    x = jnp.ones((4, 16))
    return lambda: jax.block_until_ready(step(weights, x))


def of_torch(layers: int) -> Callable[[], object]:
    """The first call of a network, and its backward."""
    import torch

    parts = [part for _ in range(layers) for part in (torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.LayerNorm(16))]
    step = torch.compile(torch.nn.Sequential(*parts))
    x = torch.ones(4, 16)
    return lambda: step(x).sum().backward()


def of_torch_xla(layers: int) -> Callable[[], object]:
    """The first step of a network, and its backward."""
    import torch
    import torch_xla

    device = torch_xla.device()
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.LayerNorm(16))]
    model, x = torch.nn.Sequential(*parts).to(device), torch.ones(4, 16).to(device)
    torch_xla.sync(wait=True)

    def step() -> None:
        model(x).sum().backward()
        torch_xla.sync(wait=True)

    return step


OF = {"jax": of_jax, "torch": of_torch, "torch_xla": of_torch_xla}


def main() -> None:
    """Measure the stacks that are named, or JAX and PyTorch."""
    import coldstep
    from coldstep_collectors.jax._private.caches import Lookups
    from coldstep_collectors.torch._private import programs
    from coldstep_collectors.torch._private.cache_keys import Components, Writes
    from coldstep_collectors.torch_xla import describe
    from coldstep_collectors.torch_xla.caches import LazyCaches

    counted(LazyCaches, "answers")
    counted(describe, "program")
    counted(Lookups, "begin", "take", "_heard", "_made", "_asked", "_raised", "_wrote", "_putting")
    counted(Components, "of_lines", "of_details")
    counted(Writes, "_made_key", "_wrote_source", "_wrote", "_saved")
    counted(programs, "program")
    folder = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/torch"
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/jax"
    print(f"{'':8}{'layers':>8}{'compile, CPU':>16}{'hooks':>12}{'share':>9}")
    for name in sys.argv[1:] or ("jax", "torch"):
        for layers in LAYERS:
            call = OF[name](layers)
            with coldstep.trace(f"{folder}/run.pftrace"), coldstep.step():
                spent["ns"], begun = 0, time.process_time_ns() + _children_ns()
                call()
                took = time.process_time_ns() + _children_ns() - begun
            ms = spent["ns"] / 1e6
            print(f"{name:10}{layers:6}{took / 1e9:14.2f} s{ms:9.2f} ms{spent['ns'] / took:9.2%}", flush=True)


def _children_ns() -> int:
    times = os.times()
    return round((times.children_user + times.children_system) * 1e9)


if __name__ == "__main__":
    main()
