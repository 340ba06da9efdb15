"""The packages stand on each other, and never in a circle."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import coldstep

ROOT = Path(__file__).parents[3]
PACKAGES = (
    ROOT / "tracer/coldstep",
    ROOT / "collectors/coldstep_collectors",
    ROOT / "viewers/coldstep_viewers",
)


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a module imports, wherever in it; what only a type checker reads aside."""
    found = set()
    for node in _statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & known.keys() or {node.module}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {word.value for word in node.args if isinstance(word, ast.Constant)}
    return found & known.keys()


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _statements(node)


@cache
def all_imported() -> dict[str, set[str]]:
    """By module, those that it imports."""
    known = modules()
    return {name: imported(path, known) for name, path in known.items()}


def test_no_module_imports_what_imports_it() -> None:
    assert len(all_imported()) > 100
    try:
        TopologicalSorter(all_imported()).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_the_core_imports_no_collector_and_no_viewer_and_these_not_each_other() -> None:
    crossing = {
        (name, other)
        for name, others in all_imported().items()
        for other in others
        if name.partition(".")[0] != other.partition(".")[0] != "coldstep" and name != "coldstep.__main__"
    }
    assert crossing == set()


ARROWS = {
    "coldstep": {
        "vocabulary": "",
        "_util": "vocabulary",
        "pftrace": "vocabulary _util",
        "rows": "vocabulary _util pftrace",
        "analysis": "vocabulary _util pftrace rows",
        "recording": "vocabulary _util pftrace rows",
        "job": "vocabulary _util pftrace recording",
        "loading": "vocabulary _util pftrace rows analysis recording job",
        "ahead": "_util rows loading",
        "converting": "vocabulary _util pftrace rows recording loading",
        "notices": "_util rows recording loading",
        "logs": "vocabulary _util pftrace recording loading converting",
    },
    "coldstep_collectors": {
        "ahead": "",
        "jax": "",
        "outside": "",
        "process": "jax",
        "xla": "jax",
        "torch": "ahead",
        "torch_xla": "ahead torch",
        "steps": "jax torch",
        "tensorflow": "steps",
    },
    "coldstep_viewers": {
        "catalogue": "",
        "ci": "",
        "export": "",
        "pages": "",
        "report": "pages",
        "fleet": "export pages",
        "commands": "catalogue ci export pages report fleet",
    },
}
"""By package and room, from the bottom up, the rooms that it may import from: each stands above it."""
MOST_FILES = 20


def arrows(floor: str) -> set[tuple[str, str]]:
    """Which room or file of a folder imports from which."""
    depth = floor.count(".") + 1
    crossing = set()
    for name, others in all_imported().items():
        for other in others:
            one, two = name.split("."), other.split(".")
            inside = ".".join(one[:depth]) == ".".join(two[:depth]) == floor and min(len(one), len(two)) > depth
            if inside and one[depth] != two[depth]:
                crossing.add((one[depth], two[depth]))
    return crossing


@pytest.mark.parametrize("package", ARROWS)
def test_rooms_import_from_those_that_are_listed_and_these_stand_below(package: str) -> None:
    rooms = [*ARROWS[package]]
    folders = {path.parent.name for path in (package_of(package)).glob("*/__init__.py")}
    assert folders == set(rooms)
    drawn = {(one, two) for one, two in arrows(package) if {one, two} <= folders}
    assert drawn == {(room, other) for room, others in ARROWS[package].items() for other in others.split()}
    assert [pair for pair in drawn if rooms.index(pair[0]) < rooms.index(pair[1])] == []


def package_of(name: str) -> Path:
    return next(path for path in PACKAGES if path.name == name)


def test_no_floor_has_a_circle() -> None:
    for floor in {name.rpartition(".")[0] for name in modules() if "." in name}:
        graph: dict[str, set[str]] = {}
        for one, two in arrows(floor):
            graph.setdefault(one, set()).add(two)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"{floor}: {' → '.join(error.args[1])}")


def test_no_folder_is_a_warehouse() -> None:
    folders = [path.parent for package in PACKAGES for path in package.rglob("__init__.py")]
    many = {folder.name: number for folder in folders if (number := len([*folder.glob("*.py")])) > MOST_FILES}
    assert many == {}


def test_no_class_is_longer_than_400_lines_and_no_function_than_60() -> None:
    most = {ast.ClassDef: 400, ast.FunctionDef: 60, ast.AsyncFunctionDef: 60}
    long = {
        f"{path.name}: {node.name}": lines
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > most[type(node)]
    }
    assert long == {}


def test_what_a_signal_handler_raises_passes_through_the_code_that_the_program_runs() -> None:
    elsewhere = ("coldstep.loading.", "coldstep.recording.buffer", "coldstep.notices.on_stderr", "coldstep_viewers")
    catches = [
        f"{name}: {line.strip()}"
        for name, path in modules().items()
        if not name.startswith(elsewhere)  # the drain's thread, and processes of coldstep's own
        for line in path.read_text().splitlines()
        if "except Exception" in line or "suppress(Exception" in line
    ]
    assert catches == []  # `except our_errors()` and `contained()` let it pass


def test_every_public_name_is_there() -> None:
    assert [name for name in coldstep.__all__ if not hasattr(coldstep, name)] == []


def test_every_package_is_shipped() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    found = {name for name, path in modules().items() if path.name == "__init__.py"}
    found |= {"coldstep_shim", "coldstep_shim.on_path"}  # which every Python of a job runs, also without coldstep
    assert set(config["options"]["packages"].split()) == found


PUBLIC = ("clock", "collector", "context", "events", "expect", "logs/__init__", "model", "notices/coming",
          "notices/recompiled", "recording/recorder", "run_row", "session", "testing", "vocabulary/__init__",
          "analysis/budgets", "analysis/across/run_diff")  # fmt: skip


def fields_without_words(tree: ast.Module) -> Iterator[str]:
    """The public fields of public classes, those that `__init__` sets among them, that no text explains."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        said = ast.get_docstring(node) or ""
        made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        for body in (node.body, *(each.body for each in made)):
            for at, field in zip(body, [*body[1:], None], strict=True):
                name = _field(at)
                if name and not name.startswith("_") and not _is_text(field) and f"`{name}`" not in said:
                    yield f"{node.name}.{name}"


def _field(node: ast.stmt) -> str:
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(node, ast.AnnAssign) and isinstance(target, ast.Name) else ""


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.parametrize("module", PUBLIC)
def test_what_others_read_of_ours_is_explained(module: str) -> None:
    tree = ast.parse((ROOT / f"tracer/coldstep/{module}.py").read_text())
    assert list(fields_without_words(tree)) == []


def test_what_the_benchmark_replaces_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    overhead = importlib.import_module("overhead")
    assert all(hasattr(owner, method) for owner, method, _ in overhead.finding_out())
