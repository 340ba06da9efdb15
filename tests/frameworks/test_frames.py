"""A frame's local variables are read the same on every Python: `f_locals` is no dict since 3.13."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pythons import ROOT, VERSIONS, on

RETURNED = {
    "a_functions_variables": {"x": 1, "y": 2},
    "a_signals_handler": True,
    "a_hook": [7],
    "a_compilation_of_jaxs": ["train", "hlo", ["cpu:0"], ["[0]"], 1, 8],
    "a_slow_call_of_jaxs": [["train", [1], {"scale": 2}, [0.5]], True],
    "a_transforms_call_of_jaxs": [["train", "jax.vmap", 2]],
    "a_look_up_of_tensorflows": ["type", ["type", "context"]],
    "a_librarys_method": "Layer.call",
    "keras_loop": [32, 5],
    "torch_xlas_compile": "train",
    "an_event_of_torchs": [True, [["graph", {"id": 1}]]],
    "what_torch_compile_was_given": [True, True],
    "a_call_of_what_torch_compile_returned": True,
    "a_graph_break_in_a_loop": True,
    "an_optimizers_step": ["begins", "ends"],
}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_place_that_reads_a_frames_variables_runs_on_every_python(version: str, tmp_path: Path) -> None:
    returned, ran = on(version, (ROOT / "tests/helpers/frame_readers.py").read_text(), tmp_path)
    assert returned == RETURNED
    assert {*_places()} - {*ran} == set()


@cache
def _places() -> tuple[str, ...]:
    """Our functions that read them, each as "file:qualified name"."""
    files = (file for top in ("tracer", "collectors") for file in (ROOT / top).rglob("*.py"))
    return tuple(f"{file.name}:{name}" for file in files for name in _readers(ast.parse(file.read_text()), ""))


def _readers(node: ast.AST, within: str, function: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and child.attr == "f_locals":
            yield function
        if isinstance(child, ast.ClassDef):
            yield from _readers(child, f"{within}{child.name}.", function)
        elif isinstance(child, ast.FunctionDef):
            yield from _readers(child, f"{within}{child.name}.<locals>.", within + child.name)
        else:
            yield from _readers(child, within, function)
