"""What a forecast takes beyond the abstract traces in it, beside the first step that it foretells; JSON of one program.

`python benchmarks/ahead/forecast_costs.py PROGRAM later|first|step`, each in a process of its own. A process's first
forecast imports what forecasts need, and some of what the framework would import in its first step; so it stands beside
the first step of a process: of one that forecast nothing, and of itself, after it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import coldstep

RUNS = 5
CALLS = 20
_ROWS = 8


@dataclass
class Program:
    """A step whose calls are forecast."""

    stack: str
    function: Callable[[], Any]
    """The step, compiled anew."""
    calls: list[Any]
    variants: int
    """How many of the calls compile."""
    feed: dict[str, str] = field(default_factory=dict)


# --- the programs -----------------------------------------------------------------------------------------------------


def perceptron_in_jax() -> Program:
    """24 layers of 256, their gradients, plain descent."""
    import jax
    import jax.numpy as jnp

    params = [jnp.ones((256, 256)) for _ in range(24)]

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            y = x
            for w in params:
                y = jnp.tanh(y @ w)
            return (y**2).sum()

        return [p - 0.1 * g for p, g in zip(params, jax.grad(loss)(params), strict=True)]

    return Program("jax", lambda: jax.jit(step), [(params, jnp.ones((_ROWS, 256)))] * CALLS, 1, {"": "params"})


def gpt_in_jax(*, weak: bool = False) -> Program:
    """A transformer of 4 layers, its gradients, Adam. Where the mean loss begins as Python's 0.0, a weak type, the
    second step compiles again."""
    import jax
    import jax.numpy as jnp

    width, heads, words = 128, 4, 256

    def normed(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def block(x: Any, p: Any) -> Any:
        def split(y: Any) -> Any:
            return y.reshape(*y.shape[:2], heads, -1).swapaxes(1, 2)

        q, k, v = map(split, jnp.split(normed(x) @ p["qkv"], 3, axis=-1))
        scores = jnp.where(jnp.tril(jnp.ones((x.shape[1],) * 2, bool)), q @ k.swapaxes(-1, -2), -jnp.inf)
        mixed = (jax.nn.softmax(scores / (width // heads) ** 0.5) @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + mixed @ p["out"]
        return x + jax.nn.gelu(normed(x) @ p["up"]) @ p["down"]

    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens]
        for p in params["blocks"]:
            x = block(x, p)
        likely = jax.nn.log_softmax(normed(x)[:, :-1] @ params["embed"].T)
        return -jnp.take_along_axis(likely, tokens[:, 1:, None], -1).mean()

    def step(state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(state["params"], tokens)
        n = state["n"] + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], grads)
        scale = jnp.sqrt(1 - 0.99**n) / (1 - 0.9**n)
        params = jax.tree.map(lambda p, m, v: p - 1e-3 * scale * m / (jnp.sqrt(v) + 1e-8), state["params"], m, v)
        return {"params": params, "m": m, "v": v, "n": n, "mean": 0.9 * state["mean"] + 0.1 * value}, value

    def ones(*shape: int) -> Any:
        return 0.02 * jnp.ones(shape)

    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    blocks = [{name: ones(*shape) for name, shape in shapes.items()} for _ in range(4)]
    params = {"embed": ones(words, width), "blocks": blocks}
    nothing = jax.tree.map(jnp.zeros_like, params)
    state = {"params": params, "m": nothing, "v": nothing, "n": 0, "mean": 0.0 if weak else jnp.float32(0)}
    calls = [(state, jnp.ones((_ROWS, 64), jnp.int32))] * CALLS
    return Program("jax", lambda: jax.jit(step), calls, 1 + weak, {"0": "state"})


def perceptron_in_torch(*sizes: int) -> Program:
    """12 layers of 256, for batches of so many sizes."""
    import torch

    layers = [part for _ in range(12) for part in (torch.nn.Linear(256, 256), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers)
    calls = [torch.ones(size, 256) for size in sizes for _ in range(CALLS // len(sizes))]
    return Program("torch", lambda: torch.compile(model), calls, len(sizes))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "JAX, 24 layers": perceptron_in_jax,
    "JAX, a GPT and Adam": gpt_in_jax,
    "JAX, the same, its mean loss begun as 0.0": lambda: gpt_in_jax(weak=True),
    "PyTorch, 12 layers": lambda: perceptron_in_torch(_ROWS),
    "PyTorch, the same, two batch sizes": lambda: perceptron_in_torch(_ROWS, _ROWS + 4),
}


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass
class Later:
    """Seconds of a program's forecasts in a process that has foretold it before, and of the steps foretold."""

    stack: str
    variants: int
    forecasts: list[tuple[float, float]]
    """Each, and the abstract traces in it; the framework remembers nothing of those before."""
    steps: list[float]
    """The first steps, each as the only one."""


@dataclass
class First:
    """Seconds of a process's first forecast, and of the step after it."""

    imports: float
    """What it imports of coldstep's."""
    forecast: tuple[float, float]
    """The forecast without them; and the abstract traces in it."""
    step: float
    """The step that it foretold."""


def later(program: Program) -> Later:
    """Of several forecasts, and as many first steps."""
    first(program)
    forecasts, steps = [], []
    for _ in range(RUNS):
        _forget(program)
        forecasts.append(_forecast(program, program.function()))
        _forget(program)
        steps.append(step(program, program.function()))
    return Later(program.stack, program.variants, forecasts, steps)


def first(program: Program) -> First:
    """Of a forecast, and the step that it foretold, in a process that has seen neither."""
    function = program.function()
    with _timed() as imports:
        import_module("coldstep.ahead.forecast")
        import_module(f"coldstep_collectors.{program.stack}.forecast")
    return First(imports[0], _forecast(program, function), step(program, function))


def _forecast(program: Program, function: Any) -> tuple[float, float]:
    if program.stack == "jax":
        from coldstep_collectors.jax._private.signatures import Traced

        traces = _each_timed(Traced, "__init__")
    else:
        from coldstep_collectors.torch._private.rehearsal import Rehearsal

        traces = _each_timed(Rehearsal, "judge")
    with traces as each, _timed() as took:
        told = coldstep.forecast(function, program.calls, feed=program.feed)
    assert (len(told.compiles), told.unknown) == (program.variants, []), told
    traced = sum(each) if program.stack == "jax" else sum(each[row.call] for row in told.compiles)
    return took[0], traced


def step(program: Program, function: Any) -> float:
    """Of the first call."""
    call = program.calls[0]
    with _timed() as took:
        result = function(*call) if isinstance(call, tuple) else function(call)
        if program.stack == "jax":
            import jax

            jax.block_until_ready(result)
    return took[0]


def _forget(program: Program) -> None:
    if program.stack == "jax":
        import jax

        jax.clear_caches()
    else:
        import torch

        torch.compiler.reset()


@contextlib.contextmanager
def _timed() -> Iterator[list[float]]:
    """The seconds of a block, once it has ended."""
    took: list[float] = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)


@contextlib.contextmanager
def _each_timed(owner: type, name: str) -> Iterator[list[float]]:
    """The seconds of each call of a method."""
    real, took = getattr(owner, name), list[float]()

    def method(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return real(*args)
        finally:
            took.append(time.perf_counter() - began)

    setattr(owner, name, method)
    try:
        yield took
    finally:
        setattr(owner, name, real)


def main(name: str, asked: str) -> None:
    program = PROGRAMS[name]()
    if program.stack == "torch":
        import torch._inductor.config

        torch._inductor.config.force_disable_caches = True
        torch.compile(lambda x: x + 1)(torch.ones(1))  # what PyTorch imports for its first compile is not a forecast's
    match asked:
        case "later":
            found: Any = vars(later(program))
        case "first":
            found = vars(first(program))
        case _:
            found = step(program, program.function())
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
