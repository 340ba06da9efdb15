"""What a forecast says against what then happens: every program that provokes a cause, and data not made for it.

`python benchmarks/ahead/forecasts.py --output docs/evidence/forecast.md` writes the page. The data: functions of
Python's own library as tokens, the sizes of PNG files that are installed here, and the syntax trees of modules as
graphs.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import forecast_costs  # noqa: E402
import scenarios  # noqa: E402
from scenarios import foretelling  # noqa: E402

import coldstep  # noqa: E402
from coldstep.ahead.forecast import Forecast, each_call  # noqa: E402
from coldstep.ahead.plans import Plan  # noqa: E402

_CALLS = 60
_ROUNDS = 9
_WIDTH, _LAYERS = 384, 12
_LIBRARY = Path(sysconfig.get_path("stdlib"))
_PACKAGES = Path(sysconfig.get_path("purelib"))


@dataclass
class Count:
    """Calls, by how their forecast held."""

    calls: int = 0
    right: int = 0
    unknown: int = 0
    wrong: int = 0
    other_causes: int = 0

    def add(self, held: foretelling.Held) -> None:
        self.calls += held.calls
        self.wrong += len(held.wrong)
        self.unknown += len(held.unknown)
        self.right += held.calls - len(held.wrong) - len(held.unknown)
        self.other_causes += len(held.other_causes)

    def row(self, name: str) -> str:
        share = f"{100 * self.right / self.calls:.1f} %"
        return (
            f"| {name} | {self.calls} | {self.right} ({share}) | {self.unknown} | {self.wrong} | {self.other_causes} |"
        )


def counted(stack: str) -> tuple[Count, list[str]]:
    """A stack's programs, by how their forecasts held; and why some calls are unknown."""
    __import__({"torch": "torch._dynamo"}.get(stack, stack))
    count, reasons = Count(), []
    for path in foretelling.loops() if stack == "torch_xla" else foretelling.programs(stack):
        for row in foretelling.held_in(stack, path):
            count.add(row)
            reasons += [f"{stack}/{path.stem}: {why}" for why in set(row.unknown.values())]
    return count, reasons


def counted_alone(stack: str) -> tuple[Count, list[str]]:
    """The same, by a process of its own, in the stack's environment."""
    python = scenarios.interpreter(stack)
    assert python is not None, scenarios.missing(stack)
    told, reasons = apart([python, __file__, "--count", stack], PJRT_DEVICE="CPU")
    return Count(**told), reasons


def apart(command: list[str], **environment: str) -> Any:
    """The JSON in the last line that a command prints. Python keeps bytecode, as it does of what pip installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=kept | environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# --- data that was not made for it ----------------------------------------------------------------------------------


def lengths() -> list[tuple[int, ...]]:
    """Tokens of functions in Python's library, in batches of four, padded to the longest of each batch."""
    source = (_LIBRARY / "argparse.py").read_text()
    found = [
        len(list(tokenize.generate_tokens(io.StringIO(ast.get_source_segment(source, node)).readline)))
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.FunctionDef) and node.col_offset == 0) or isinstance(node, ast.ClassDef)
    ]
    return [(4, max(found[at : at + 4])) for at in range(0, len(found) - 3)][:_CALLS]


def images() -> list[tuple[int, ...]]:
    """Heights and widths of PNG files, an eighth of them, as they come."""
    found = []
    for path in sorted(_PACKAGES.rglob("*.png")) + sorted((ROOT / "docs").glob("*.png")):
        head = path.read_bytes()[:24]
        if head[:8] == b"\x89PNG\r\n\x1a\n":
            width, height = struct.unpack(">II", head[16:24])
            found.append((max(1, height // 8), max(1, width // 8), 3))
    return found[:_CALLS]


def graphs() -> list[tuple[int, ...]]:
    """Nodes and depths of the syntax trees of modules: a graph's nodes by a few features."""
    files = sorted(_LIBRARY.glob("*.py"))[: 3 * _CALLS : 3]
    return [(sum(1 for _ in ast.walk(ast.parse(path.read_text()))) // 16 + 1, 4) for path in files][:_CALLS]


DATA: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "token counts of argparse's functions, four to a batch": lengths,
    "heights and widths of installed PNG files": images,
    "nodes of modules' syntax trees": graphs,
}


@dataclass
class OfData:
    """A stream of sizes: how its forecast held, and what its plans led to."""

    stack: str
    name: str
    held: foretelling.Held
    forecast: Forecast
    foretelling_s: float
    first_s: float


def held(stack: str, name: str, shapes: list[tuple[int, ...]]) -> OfData:
    """Forecast a stream of shapes, then run it."""
    make, function = _made(stack)
    calls = [make(shape) for shape in shapes]
    began = time.perf_counter()
    forecast = coldstep.forecast(function(), calls)
    took = time.perf_counter() - began
    happened, first_s = ran(function(), calls)
    said = [(row.call, row.cause, row.argument, row.before, row.after) for row in forecast.compiles]
    unknown = {row.call: row.why for row in forecast.unknown}
    return OfData(stack, name, foretelling.Held(happened, said, unknown, len(calls)), forecast, took, first_s)


def ran(function: Callable[..., Any], calls: list[Any]) -> tuple[list[foretelling.Row], float]:
    """What compiles as these calls are made, and the first one's seconds."""
    foretelling.forget()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pftrace")
        with coldstep.trace(path, device="off", live=False):
            for call in each_call(calls):
                with coldstep.step("call"):
                    coldstep.wait(function(*call.args, **call.kwargs))
        trace = coldstep.load(path)
    foretelling.forget()
    first = next(row for row in trace.intervals if row.kind == "step")
    return foretelling.happened(trace, "call"), first.wall_ns / 1e9


def _made(stack: str) -> tuple[Callable[[tuple[int, ...]], Any], Callable[[], Any]]:
    """What makes an input of a shape, and a function to be compiled."""
    if stack == "jax":
        import jax
        import jax.numpy as jnp

        def score(x: Any) -> Any:
            return jnp.tanh(x @ jnp.ones((x.shape[-1], 8))).sum() if x.ndim == 2 else jnp.tanh(x).mean()

        return jnp.ones, lambda: jax.jit(score)
    import torch

    def score_(x: Any) -> Any:
        return torch.tanh(x).softmax(-1).sum()

    return torch.ones, lambda: torch.compile(score_, backend="eager")


# --- plans that are followed ------------------------------------------------------------------------------------------


def followed(stack: str, shapes: list[tuple[int, ...]]) -> Iterator[tuple[str, Plan, int]]:
    """Some plans of a stream, each with how often the function compiled as it was followed."""
    make, function = _made(stack)
    curve = coldstep.forecast(function(), [make(shape) for shape in shapes]).curves[0]
    foretelling.forget()
    for plan in curve.plans[1:]:
        if plan.compiles is None or len(plan.buckets) > 4:
            continue
        pad = padding_of(plan)
        calls = [pad(make(shape)) for shape in shapes]
        yield plan.kind, plan, len(ran(function(), calls)[0])


def padding_of(plan: Plan) -> Callable[[Any], Any]:
    """A plan's own code, as a function of what it pads."""
    definition, _, last = plan.code.rpartition("\n")
    written: dict[str, Any] = {"torch": sys.modules.get("torch")}
    exec(definition, written)
    call = compile(last, "plan", "exec")

    def pad(x: Any) -> Any:
        written["x"] = x
        exec(call, written)
        return written["x"]

    return pad


@dataclass
class Padding:
    """A plan of a function whose work grows with the size: the work, as it was foretold and as the steady calls took
    it, where the work without padding is 1."""

    plan: str
    share: float
    """Of the work, the part that is padding, as foretold."""
    foretold: float
    measured: list[float]
    """In each round."""


def padding(stack: str) -> list[Padding]:
    """Some plans, followed by their own code. Every batch is called once as it is and once as each plan has it, one
    after the other, so that what else the machine does falls on all of them; a processor's time is taken."""
    make, function = _growing(stack)
    chance = random.Random(7)
    inputs = [make(16 * chance.randint(8, 64)) for _ in range(24)]
    curve = coldstep.forecast(function(), inputs).curves[0]
    foretelling.forget()
    plans = [plan for plan in curve.plans if plan.buckets and plan.code and len(plan.buckets) <= 4]
    ways: list[Callable[[Any], Any]] = [lambda x: x, *map(padding_of, plans), lambda x: x]
    compiled = function()
    took: list[list[float]] = []
    for _ in range(_ROUNDS + 1):  # the first compiles
        took.append([0.0] * len(ways))
        for x in inputs:
            for at in chance.sample(range(len(ways)), len(ways)):  # what is called twice in a row is quicker then
                began = time.process_time()
                float(compiled(ways[at](x)))
                took[-1][at] += time.process_time() - began
    shares = zip(*([each / alone for each in others] for alone, *others in took[1:]), strict=True)
    names = [*(f"{plan.kind}, {len(plan.buckets)}" for plan in plans), "as it is, again"]
    padded = [*(plan.padding_share for plan in plans), 0.0]
    return [
        Padding(name, share, 1 / (1 - share), list(measured))
        for name, share, measured in zip(names, padded, shares, strict=True)
    ]


def _growing(stack: str) -> tuple[Callable[[int], Any], Callable[[], Any]]:
    """What makes a batch of a length, and a function to be compiled that works as much as the batch is long."""
    if stack == "jax":
        import jax
        import jax.numpy as jnp

        weights = jnp.ones((_WIDTH, _WIDTH)) / _WIDTH

        def score(x: Any) -> Any:
            for _ in range(_LAYERS):
                x = jnp.tanh(x @ weights)
            return x.sum()

        return lambda length: jnp.ones((length, _WIDTH)), lambda: jax.jit(score)
    import torch

    torch.set_num_threads(1)
    weights_ = torch.ones(_WIDTH, _WIDTH) / _WIDTH

    def score_(x: Any) -> Any:
        for _ in range(_LAYERS):
            x = torch.tanh(x @ weights_)
        return x.sum()

    return lambda length: torch.ones(length, _WIDTH), lambda: torch.compile(score_, backend="eager")


def padding_apart(stack: str) -> list[Padding]:
    """The same, by a process of its own that computes on one thread."""
    one = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1"}
    return [Padding(**row) for row in apart([sys.executable, __file__, "--padding", stack], **one)]


@dataclass
class Costs:
    """What forecasts of a program take."""

    later: forecast_costs.Later
    first: list[forecast_costs.First]
    """Of several processes."""
    steps: list[float]
    """Of as many processes that foretold nothing: their first steps, in seconds."""


def costs() -> Iterator[tuple[str, Costs]]:
    """What forecasts take, of each program in processes of their own."""
    for name in forecast_costs.PROGRAMS:
        command = [sys.executable, forecast_costs.__file__, name]
        apart([*command, "first"])  # Python keeps what it has compiled of coldstep itself
        row = Costs(forecast_costs.Later(**apart([*command, "later"])), [], [])
        for _ in range(forecast_costs.RUNS):
            row.first.append(forecast_costs.First(**apart([*command, "first"])))
            row.steps.append(apart([*command, "step"]))
        yield name, row


def page() -> Iterator[str]:
    """The page, line by line."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "torch", "tensorflow-cpu"))
    yield "# Forecasts against what happened"
    yield ""
    yield f"`benchmarks/ahead/forecasts.py`, {time.strftime('%Y-%m-%d')}, at {commit.strip()}; {packages}, Python"
    yield f"{platform.python_version()}; torch_xla in an environment of its own. {os.cpu_count()} cores; the load was"
    yield f"{os.getloadavg()[0]:.1f} as it began."
    yield ""
    yield "## Every program whose cause a call's arguments show"
    yield ""
    yield "Each program of `tests/scenarios` in which something compiles again for a cause that stands in the arguments"
    yield "runs once with its calls taken down; then they are judged, by functions compiled anew. *Right*: a call that"
    yield "compiles was foretold, one that does not was not. *Other words*: compiles that were foretold rightly, but"
    yield "whose cause, argument, before or after is another than the run's report says. torch_xla's steps are bodies"
    yield "of loops, made a function each; of those, also where an optimizer's state or nothing is the cause."
    yield ""
    yield "| stack | calls | right | unknown | wrong | other words |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    reasons: list[str] = []
    whole = Count()
    for stack in ("jax", "torch", "tensorflow", "torch_xla"):
        count, why = counted_alone(stack)
        reasons += why
        for name, number in asdict(count).items():
            setattr(whole, name, getattr(whole, name) + number)
        yield count.row(stack)
    yield whole.row("all")
    yield ""
    yield "Unknown were:"
    yield ""
    yield from (f"- {reason[:200]}" for reason in reasons)
    yield ""
    yield "## Data that was not made for it"
    yield ""
    yield "| data | stack | calls | sizes | compiled | right | unknown | wrong | forecast took | first call took |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, make in DATA.items():
        shapes = make()
        for stack in ("jax", "torch"):
            row = held(stack, name, shapes)
            right = row.held.calls - len(row.held.wrong) - len(row.held.unknown)
            yield (
                f"| {name} | {stack} | {row.held.calls} | {len(set(shapes))} | {len(row.held.happened)} | {right} | "
                f"{len(row.held.unknown)} | {len(row.held.wrong)} | {row.foretelling_s:.2f} s | {row.first_s:.2f} s |"
            )
    yield ""
    yield "## Plans that were followed"
    yield ""
    yield "Thirty batches of six lengths, padded by each plan's own code; how often the function then compiled."
    yield ""
    yield "| stack | plan | sizes | padding | compiles foretold | compiled |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    chance = random.Random(7)
    shapes = [(2, chance.choice((9, 17, 18, 33, 40, 64))) for _ in range(30)]
    for stack in ("jax", "torch"):
        for kind, plan, compiled in followed(stack, shapes):
            sizes = ", ".join(map(str, plan.buckets)) or "open"
            yield f"| {stack} | {kind} | {sizes} | {100 * plan.padding_share:.0f} % | {plan.compiles} | {compiled} |"
    yield ""
    yield "What padding costs in steady calls of a function whose work grows with the size: 24 batches, 128 to 1024"
    yield f"long and {_WIDTH} wide, {_LAYERS} layers, on one thread. Each batch is called as it is and as each plan's"
    yield f"code pads it, in any order, {_ROUNDS} times; a processor's time, where the calls as they are take 1: the"
    yield "median, and the middle half. *As it is, again* is the same calls once more: what differs there is the"
    yield "machine's. A plan takes the work to grow with the size alone; what a call takes whatever its size, and the"
    yield "padding itself, are not in what it foretells."
    yield ""
    yield "| stack | plan, sizes | padding, foretold | work, foretold | steady calls, measured | middle half | off by |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for stack in ("jax", "torch"):
        for row in padding_apart(stack):
            low, middle, high = statistics.quantiles(row.measured, n=4)
            yield (
                f"| {stack} | {row.plan} | {100 * row.share:.0f} % | {row.foretold:.2f} | {middle:.2f} | "
                f"{low:.2f} to {high:.2f} | {100 * (middle / row.foretold - 1):+.0f} % |"
            )
    yield ""
    yield "## What a forecast takes"
    yield ""
    yield f"Of {forecast_costs.CALLS} calls, by `benchmarks/ahead/forecast_costs.py`, each program in a process of its"
    yield f"own; {forecast_costs.RUNS} forecasts from empty caches, the median and the worst, beside as many first"
    yield "steps. Within a forecast is an abstract trace: JAX's one of the function, which JAX keeps for the call;"
    yield "Dynamo's and AOTAutograd's of a copy, one for each variant, which PyTorch makes again. *Beyond* is the rest."
    yield ""
    yield "| program | variants | forecast | traces in it | beyond | worst | first step | beyond, of that | worst |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    first = []
    for name, row in costs():
        step = statistics.median(row.later.steps)
        beyond = [took - traced for took, traced in row.later.forecasts]
        forecast, traced = (statistics.median(each) for each in zip(*row.later.forecasts, strict=True))
        yield (
            f"| {name} | {row.later.variants} | {forecast:.2f} s | {traced:.2f} s | "
            f"{1e3 * statistics.median(beyond):.1f} ms | {1e3 * max(beyond):.1f} ms | {step:.2f} s | "
            f"{100 * statistics.median(beyond) / step:.1f} % | {100 * max(beyond) / step:.1f} % |"
        )
        first.append(_first(name, row))
    yield ""
    yield f"The same of a process's first forecast, of {forecast_costs.RUNS} processes, the median. *Imports* is what"
    yield "it imports of coldstep's, from bytecode, once in a process. *Step* is the first of a process that foretold"
    yield "nothing, *after it* that of a process that did: what of the forecast the framework would have done anyway,"
    yield "it is spared."
    yield ""
    yield "| program | imports | forecast | traces in it | beyond | step | beyond, of that | with imports | after it |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    yield from first


def _first(name: str, row: Costs) -> str:
    step, after = statistics.median(row.steps), statistics.median(each.step for each in row.first)
    imports = statistics.median(each.imports for each in row.first)
    forecast, traced = (statistics.median(each) for each in zip(*(each.forecast for each in row.first), strict=True))
    beyond = statistics.median(each.forecast[0] - each.forecast[1] for each in row.first)
    return (
        f"| {name} | {1e3 * imports:.1f} ms | {forecast:.2f} s | {traced:.2f} s | {1e3 * beyond:.1f} ms | "
        f"{step:.2f} s | {100 * beyond / step:.1f} % | {100 * (imports + beyond) / step:.1f} % | {after:.2f} s |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--count", metavar="STACK", help="print how the forecasts of a stack held, as JSON, and end")
    parser.add_argument("--padding", metavar="STACK", help="print what a stack's padding costs, as JSON, and end")
    asked = parser.parse_args()
    if asked.count:
        count, reasons = counted(asked.count)
        print(json.dumps([asdict(count), reasons]))
        sys.exit()
    if asked.padding:
        print(json.dumps([asdict(row) for row in padding(asked.padding)]))
        sys.exit()
    text = []
    for line in page():
        print(line, flush=True)
        text.append(line)
    if asked.output is not None:
        asked.output.write_text("\n".join(text) + "\n")
