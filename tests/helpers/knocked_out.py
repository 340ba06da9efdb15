"""Runs a stack's program once for each of its private names, in a fork that lacks the name: what each trace says.

`python tests/helpers/knocked_out.py jax FOLDER` prints a line of JSON for each; with `few` after it the paths alone are
taken away, not each name that is read at one. The process has imported the framework and run nothing; a name is
renamed in coldstep's lists before it attaches, as if a version had renamed it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import coldstep
from coldstep_collectors.jax._private import names as jax_names
from coldstep_collectors.names import Form, Hook
from coldstep_collectors.tensorflow._private import names as tensorflow_names
from coldstep_collectors.torch._private import names as torch_names
from coldstep_collectors.torch_xla._private import names as torch_xla_names

ELSEWHERE = "_of_another_version"
AT_A_TIME = 2
IMPORTS = {
    "jax": ("jax",),
    "torch": ("torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.cudagraph_trees"),
    "torch_xla": ("torch_xla", "torch._dynamo", "torch_xla.core.dynamo_bridge"),
    "tensorflow": ("tensorflow",),
}
_READS = ("coldstep.loading", "coldstep.analysis.derive", "coldstep.converting.write_findings")
"""What a child needs to end its trace and to read it: no part of it asks for a framework."""
NAMES = {"jax": jax_names, "torch": torch_names, "torch_xla": torch_xla_names, "tensorflow": tensorflow_names}
PROGRAMS = Path(__file__).parents[1] / "knocked_out"
INDUCTORS = re.compile(r"torch\._(?:inductor|functorch)|torch\.autograd|torch\._C\._autograd|CompileContext|suppress")
"""The names that Inductor's program needs."""
RARELY = (jax_names.MEASURE, jax_names.TRACES)
"""These are asked for only where something else is not there, or came before."""

KnockOut = tuple[str, Callable[[], list[str]]]
"""What is taken away, and how: the call returns the notes that must then be there."""


def of_hooks(module: Any) -> Iterator[KnockOut]:
    """Each path, and each name that is read or said at one, of the forms that are here."""
    hooks = [hook for hook in vars(module).values() if isinstance(hook, Hook)]
    here = [form for hook in hooks if (form := hook.form()) is not None]
    for path in dict.fromkeys(form.path for form in here):
        yield path, lambda path=path: renamed(hooks, path, None)  # type: ignore[misc]
    for path, name in dict.fromkeys((form.path, name) for form in here for name in (*form.has, *form.says)):
        yield f"{path} {name}", lambda path=path, name=name: renamed(hooks, path, name)  # type: ignore[misc]


def renamed(hooks: list[Hook], path: str, name: str | None) -> list[str]:
    """Rename what stands at a path, or a name there, in all hooks; returns what is unseen for it."""
    touched = [hook for hook in hooks if any(form.path == path for form in hook.forms)]
    before = [hook for hook in touched if hook.form() is not None]
    for hook in touched:
        forms = (_without(form, name) if form.path == path else form for form in hook.forms)
        Hook.__init__(hook, hook.unseen, *forms, of=hook.of)  # which keeps what is read at each
    lost = [hook for hook in before if hook not in RARELY and hook.is_missed]
    return [hook.unseen for hook in lost if hook.unseen is not None]


def _without(form: Form, name: str | None) -> Form:
    if name is None:
        return form._replace(path=form.path + ELSEWHERE)
    has, says = (tuple(ELSEWHERE if each == name else each for each in names) for names in (form.has, form.says))
    return form._replace(has=has, says=says)


def of_readings() -> Iterator[KnockOut]:
    """Each function of JAX's that is read off the stack, and each local variable; options; what is on the stack."""
    for table in ("PJIT", "PXLA"):
        readings = getattr(jax_names, table)
        module = sys.modules[{"PJIT": "jax._src.pjit", "PXLA": "jax._src.interpreters.pxla"}[table]]
        forms = [jax_names._first(module, reading) for reading in readings]
        places = [(form.function, name) for form in forms if form for name in ("", *form.names)]
        for function, name in dict.fromkeys(places):
            yield f"{function} {name}".strip(), lambda t=table, f=function, n=name: unread(t, f, n)  # type: ignore[misc]
    for table in ("OPTIONS", "MAKES"):
        for key in getattr(jax_names, table):
            yield f"{table} {key}", lambda t=table, k=key: dropped(t, k)  # type: ignore[misc]
    for table in ("ARGUMENT", "RUNS"):
        for key in getattr(jax_names, table):
            yield f"{table} {key}", lambda t=table, k=key: replaced(t, k)  # type: ignore[misc]


def unread(table: str, function: str, name: str) -> list[str]:
    def without(form: Any) -> Any:
        if form.function != function:
            return form
        if not name:
            return jax_names.Locals(form.function + ELSEWHERE, form.names)
        return jax_names.Locals(form.function, tuple(ELSEWHERE if each == name else each for each in form.names))

    readings = getattr(jax_names, table)
    changed = tuple(jax_names.Reading(row.fact, tuple(without(form) for form in row.forms)) for row in readings)
    setattr(jax_names, table, changed)
    return []


def dropped(table: str, key: str) -> list[str]:
    found = getattr(jax_names, table)
    if table == "OPTIONS":
        found[key] = (ELSEWHERE,)
    else:
        del found[key]
    return []


def replaced(table: str, key: str) -> list[str]:
    found = getattr(jax_names, table)
    setattr(jax_names, table, tuple(ELSEWHERE if each == key else each for each in found))
    return []


KNOCK_OUTS: dict[str, Callable[[], Iterator[KnockOut]]] = {
    "jax": lambda: iter([*of_hooks(jax_names), *of_readings()]),
    "torch": lambda: of_hooks(torch_names),
    "torch_xla": lambda: of_hooks(torch_xla_names),
    "tensorflow": lambda: of_hooks(tensorflow_names),
}


def untrue(module: Any, version: str) -> list[str]:
    """The forms that are said to be in this version, and are not."""
    hooks = [hook for hook in vars(module).values() if isinstance(hook, Hook)]
    here = _numbers(version)
    return [
        f"{form.path} {form.versions}"
        for hook in hooks
        for form in hook.forms
        for first, _, last in [form.versions.partition("-")]
        if _numbers(first) <= here and (not last or here[:2] <= _numbers(last)) and not form.is_here
    ]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


def run(program: Path, folder: Path, device: str | None) -> dict[str, Any]:
    """What a program prints, and what its trace says; no trace for no `device`."""
    out, path = io.StringIO(), str(folder / "run.pftrace")
    tracing = coldstep.trace(path, device=device) if device else contextlib.nullcontext()
    with contextlib.redirect_stdout(out), tracing:
        runpy.run_path(str(program), run_name="__main__")
    if not device:
        return {"output": out.getvalue()}
    trace = coldstep.load(path)
    os.unlink(path)
    return {
        "output": out.getvalue(),
        "recompiles": [
            [trace.intervals[row.interval].step, row.cause, row.argument, row.before, row.after]
            for row in trace.recompiles
        ],
        "breaks": [[row.kind, row.location.line if row.location else None] for row in trace.graph_breaks],
        "compiles": sorted([row.function, row.outcome, row.origin or ""] for row in trace.compiles),
        "settling": [[row.name, row.verdict, row.settled_at_step] for row in trace.settling],
        "missing": [words for row in trace.collectors for words in row.missing],
        "failed": [row.name for row in trace.collectors if row.state == "failed"],
        "notes": trace.run.notes,
    }


def in_fork(work: Callable[[], dict[str, Any]], result: Path) -> int:
    """Do `work` in a child, which leaves what it found; returns the child's number."""
    child = os.fork()
    if child:
        return child
    try:
        said = work()
    except BaseException:
        said = {"error": traceback.format_exc()}
    result.write_text(json.dumps(said))
    os._exit(0)


def main(stack: str, folder: Path, few: bool) -> None:
    """Print a line for each: each program without a trace and with all names first."""
    for name in (*IMPORTS[stack], *_READS):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else each child's collections copy the pages of all that is imported
    names: Any = NAMES[stack]
    programs = {"torch": ("torch", "inductor")}.get(stack, (stack,))
    for name in programs:
        (folder / f"{name}.py").write_bytes((PROGRAMS / f"{name}.py").read_bytes())

    def work(name: str, number: int, device: str | None, take_away: Callable[[], list[str]]) -> dict[str, Any]:
        place = folder / str(number)
        place.mkdir()
        expected = take_away()
        return run(folder / f"{name}.py", place, device) | {"expected": expected}

    jobs = [(name, "", None, list) for name in programs] + [(name, "all names", "off", list) for name in programs]
    first = len(jobs)
    for label, take_away in KNOCK_OUTS[stack]():
        if not few or " " not in label:
            name = programs[-1] if INDUCTORS.search(label) else programs[0]
            jobs.append((name, label, "all" if "autograd" in label else "off", take_away))
    running = set()
    for number, (name, _, device, take_away) in enumerate(jobs):
        if len(running) == (AT_A_TIME if number > first else 1):  # the first fill the caches on disk
            running.discard(os.wait()[0])
        running.add(in_fork(lambda: work(name, number, device, take_away), folder / f"{number}.json"))  # noqa: B023
    while running:
        running.discard(os.wait()[0])
    version = str(sys.modules[stack].__version__)
    unseen = [hook.unseen for hook in vars(names).values() if isinstance(hook, Hook) and hook.unseen is not None]
    print(json.dumps({"version": version.partition("+")[0], "untrue": untrue(names, version), "unseen": unseen}))
    for number, (name, label, *_) in enumerate(jobs):
        found = json.loads((folder / f"{number}.json").read_text())
        print(json.dumps({"program": name, "label": label} | found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), few=sys.argv[3:] == ["few"])
