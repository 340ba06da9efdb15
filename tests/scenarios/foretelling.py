"""Holds forecasts against what then happened: a program's calls of compiled functions, taken down as it runs.

`python -m scenarios.foretelling` does so for every program whose causes are to be seen in the arguments, all of a stack
in one process, and prints a row for each; `--output FILE` writes the table of docs/evidence/forecast.md.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MethodType
from typing import Any, cast

import coldstep
import scenarios
from coldstep.ahead.forecast import Forecast
from coldstep.marks import step
from coldstep.model import Trace
from coldstep.tracing import quiet_trace

IN_ARGUMENTS = {
    *("shape", "dtype", "weak_type", "layout", "sharding", "committed", "requires_grad", "type", "aliasing"),
    *("static_argument", "python_scalar", "pytree", "keyword", "container"),
}
"""The causes that a call's arguments show."""

Row = tuple[int, str, str | None, str | None, str | None]
"""A call that compiled: its number, cause, argument, before, after."""


@dataclass
class Recorded:
    """A compiled function that takes down its calls, each in a step of its own."""

    real: Any
    again: Callable[[], Any]
    """The same function, compiled anew."""
    name: str
    calls: list[Any] = field(default_factory=list)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _is_traced(args, kwargs):
            return self.real(*args, **kwargs)
        self.calls.append(coldstep.call(*_kept(args), **_kept(kwargs)))
        with step(self.name):
            return self.real(*args, **kwargs)

    def __get__(self, owner: Any, _: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def _kept(tree: Any) -> Any:
    """Plain containers as they are now."""
    if type(tree) is dict:
        return {key: _kept(value) for key, value in tree.items()}
    return type(tree)(map(_kept, tree)) if type(tree) in (list, tuple) else tree


def _is_traced(*trees: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


@dataclass
class Held:
    """The calls of one function: what was foretold, and what happened."""

    happened: list[Row]
    foretold: list[Row]
    unknown: dict[int, str]
    calls: int

    @property
    def wrong(self) -> list[int]:
        """The calls of which something else was foretold than happened."""
        compiled, said = {row[0] for row in self.happened}, {row[0] for row in self.foretold}
        return [n for n in range(self.calls) if n not in self.unknown and (n in compiled) != (n in said)]

    @property
    def other_causes(self) -> list[tuple[Row, Row]]:
        """The calls that compile for another cause than was foretold."""
        known = {row[0]: row for row in self.happened}
        return [(row, known[row[0]]) for row in self.foretold if row[0] in known and row != known[row[0]]]


def run(program: Path) -> list[Held]:
    """Run a program; then have its calls judged, by functions compiled anew."""
    recorded: list[Recorded] = []
    with tempfile.TemporaryDirectory() as folder, _settings():
        path = os.path.join(folder, "happened.pftrace")
        with quiet_trace(path), _recording(recorded):
            runpy.run_path(str(program))
        trace = coldstep.load(path)
        forget()
        # where nothing compiled, that was done before, or elsewhere
        return [_held(each, trace) for each in recorded if happened(trace, each.name)]


def run_loop(program: Path) -> Held:
    """The same of a program whose step is the body of a loop, as torch_xla's are: put into a function of what the loop
    gives it. For a process of its own: torch_xla forgets nothing."""
    code = compile(_with_a_function(ast.parse(program.read_text())), str(program), "exec")
    calls: list[Any] = []
    names: dict[str, Any] = {_CALL: lambda *args: calls.append(coldstep.call(*args))}
    exec(code, names)
    foretold = coldstep.forecast(names[_BODY], calls)
    again: dict[str, Any] = {}
    again[_CALL] = lambda *args: again[_BODY](*args)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "happened.pftrace")
        with quiet_trace(path):
            exec(code, again)
        return _compared(happened(coldstep.load(path), "step"), foretold)


_BODY, _CALL = "body_of_the_loop", "call_it"


def _with_a_function(tree: ast.Module) -> ast.Module:
    """The program with a function for what its loop does in a step: what only prepares a batch stays where it is."""
    loop = next(node for node in tree.body if isinstance(node, ast.For) and isinstance(node.body[-1], ast.With))
    marked = cast(ast.With, loop.body[-1])
    first = next(at for at, node in enumerate(marked.body) if not isinstance(node, ast.Assign))
    prepared, body = marked.body[:first], marked.body[first:]
    stored = [node.id for part in (loop.target, *loop.body[:-1], *prepared) for node in ast.walk(part)
              if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]  # fmt: skip
    read = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
    names = ", ".join(name for name in dict.fromkeys(stored) if name in read)
    [function] = ast.parse(f"def {_BODY}({names}): pass").body
    cast(ast.FunctionDef, function).body = body
    marked.body = [*prepared, *ast.parse(f"{_CALL}({names})").body]
    tree.body.insert(tree.body.index(loop), function)
    return ast.fix_missing_locations(tree)


def _settings() -> contextlib.AbstractContextManager[Any]:
    """Around a program: what it sets of Dynamo's limit is set back."""
    config = getattr(sys.modules.get("torch._dynamo"), "config", None)
    return contextlib.nullcontext() if config is None else config.patch(recompile_limit=config.recompile_limit)


def _held(recorded: Recorded, trace: Trace) -> Held:
    return _compared(happened(trace, recorded.name), coldstep.forecast(recorded.again(), recorded.calls))


def _compared(happened: list[Row], foretold: Forecast) -> Held:
    said = [(row.call, row.cause, row.argument, row.before, row.after) for row in foretold.compiles]
    return Held(happened, said, {row.call: row.why for row in foretold.unknown}, foretold.calls)


def happened(trace: Trace, name: str) -> list[Row]:
    """What compiled in the steps of that name, each for the first cause in it."""
    why = {row.compile: row for row in trace.recompiles}
    found: dict[int, Row] = {}
    for row in trace.compiles:
        interval = trace.intervals[row.segments[0].interval]
        if interval.name != name or interval.step is None or row.origin != "user" or row.parent in interval.compiles:
            continue
        if row.outcome in ("compiled", "cache_hit", "skipped"):
            again = why.get(row.id)
            said = (again.cause, again.argument, again.before, again.after) if again else ("first", None, None, None)
            found.setdefault(interval.step, (interval.step, *said))
    return list(found.values())


@contextlib.contextmanager
def _recording(recorded: list[Recorded]) -> Iterator[None]:
    """Have jax.jit, torch.compile and tf.function return functions that take down their calls; marks do nothing."""

    def taking(compiler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiler)
        def compile_(*given: Any, **options: Any) -> Any:
            if not given:
                return functools.partial(compile_, **options)
            if "input_signature" in options and "." in given[0].__qualname__:  # a model's, which is saved as it is
                return compiler(*given, **options)
            again = functools.partial(compiler, *given, **options)
            recorded.append(Recorded(again(), again, f"function {len(recorded)}"))
            return recorded[-1]

        return compile_

    places = [("jax", "jit"), ("torch", "compile"), ("tensorflow", "function")]
    replaced: list[tuple[Any, str, Any]] = [
        (coldstep, "step", lambda *_: contextlib.nullcontext()),
        (coldstep, "steps", lambda batches, *_: iter(batches)),
    ]
    for package, name in places:
        if (module := sys.modules.get(package)) is not None:
            replaced.append((module, name, taking(getattr(module, name))))
    real = [getattr(owner, name) for owner, name, _ in replaced]
    try:
        for owner, name, new in replaced:
            setattr(owner, name, new)
        yield
    finally:
        for (owner, name, _), was in zip(replaced, real, strict=True):
            setattr(owner, name, was)


def forget() -> None:
    """Have the frameworks forget all that they compiled."""
    if (jax := sys.modules.get("jax")) is not None:
        jax.clear_caches()
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


def programs(stack: str) -> list[Path]:
    """The programs of a stack in which something compiles again, for causes that a call's arguments show."""
    return [path for path in scenarios.programs(stack) if _is_seen(scenarios.read(path))]


def loops() -> list[Path]:
    """The programs of torch_xla whose step is the body of a loop, and in which something compiles again for such a
    cause or for an optimizer's state, or nothing does; none that cuts a graph amid a step."""
    return [path for path in scenarios.programs("torch_xla") if _is_loop(path)]


def _is_loop(path: Path) -> bool:
    source, found = path.read_text(), scenarios.read(path)
    if "\nfor " not in source or "Loader" in source or "torch.compile" in source or "break" in found.says:
        return False
    return _is_seen(found) or {cause for cause, *_ in found.recompiles} <= {"optimizer_state"}


def held_in(stack: str, path: Path) -> list[Held]:
    """What was foretold of a program of that stack, and what happened."""
    if stack in ("jax", "torch"):
        return run(path)
    with multiprocessing.get_context("fork").Pool(1) as alone:  # nothing that one left is there for the next
        return [alone.apply(run_loop, (path,))] if stack == "torch_xla" else alone.apply(run, (path,))


def _is_seen(scenario: scenarios.Scenario) -> bool:
    said = scenario.recompiles
    return bool(said) and all(
        cause in IN_ARGUMENTS and not str(argument).startswith(("self.", "optimizer.")) for cause, argument, *_ in said
    )


def main(stacks: Sequence[str]) -> None:
    """Run every program of these stacks, and say of each what was foretold."""
    right = unknown = wrong = others = 0
    for stack in stacks:
        __import__({"torch": "torch._dynamo"}.get(stack, stack))
        for path in loops() if stack == "torch_xla" else programs(stack):
            name = f"{stack}/{path.stem}"
            try:
                found = held_in(stack, path)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            for held in found:
                wrong += len(held.wrong)
                unknown += len(held.unknown)
                right += held.calls - len(held.wrong) - len(held.unknown)
                others += len(held.other_causes)
                words = f"{held.calls} calls, {len(held.happened)} compiled, {len(held.unknown)} unknown"
                if held.wrong:
                    words += f"; WRONG {held.wrong}: foretold {held.foretold}, happened {held.happened}"
                if held.other_causes:
                    words += f"; other cause {held.other_causes}"
                if held.unknown:
                    words += f"; {sorted(set(held.unknown.values()))}"
                print(f"{name}: {words}", flush=True)
    print(f"{right} right, {unknown} unknown, {wrong} wrong; {others} for another cause")


if __name__ == "__main__":
    os.environ |= {"XLA_FLAGS": scenarios.ENVIRONMENT["XLA_FLAGS"]}
    main(sys.argv[1:] or ["jax", "torch"])
