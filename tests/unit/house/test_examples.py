"""Above each regular expression that reads others' words stands what it reads, and who prints that: each matches."""

from __future__ import annotations

import ast
import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNSEEN = {"coldstep_collectors.xla.profiler._LINK"}
"""What no version has been seen to print."""
EXAMPLE = re.compile(r'(?:[A-Z]\w+|coldstep|torch_xla|py-spy)(?: \d[\d.]*(?:, \d[\d.]*)*)?: "(.+)"$')

MADE_BY = ("re.compile", "expression")


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """What stands below it and in no function: each process that collects the tests looks for it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from outside_functions(child)


def expressions(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Each expression of a module outside its functions: its name, or the line; its source; the examples above it."""
    source = file.read_text()
    if not any(f"{name}(" in source for name in MADE_BY):
        return
    tree, lines = ast.parse(source), source.splitlines()
    names = {id(node.value): ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
    for node in outside_functions(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in MADE_BY:
            continue
        above = []
        for line in map(str.strip, reversed(lines[: node.lineno - 1])):
            if not line.startswith("# "):
                break
            above.append(line.removeprefix("# "))
        text = "\n".join(reversed(above)).replace('"\n', '"\0').replace("\n", " ")
        found = [match[1] for part in text.split("\0") if (match := EXAMPLE.search(part))]
        name = names.get(id(node), f"line {node.lineno}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # an example may hold a backslash of its own
            said = [each.encode().decode("unicode_escape") for each in found]
        yield name, ast.unparse(node), said


FOUND = [
    (".".join(file.relative_to(ROOT / top).with_suffix("").parts), *row)
    for top in ("tracer", "collectors", "viewers")
    for file in sorted((ROOT / top).rglob("*.py"))
    for row in expressions(file)
]


@pytest.mark.parametrize(
    ("module", "source", "examples"),
    [pytest.param(module, source, said, id=f"{module}.{name}") for module, name, source, said in FOUND if said],
)
def test_an_expression_matches_its_examples(module: str, source: str, examples: list[str]) -> None:
    pattern = eval(source, vars(importlib.import_module(module.removesuffix(".__init__"))))
    for example in examples:
        assert pattern.search(example.encode() if isinstance(pattern.pattern, bytes) else example), example


def test_every_expression_shows_what_it_reads() -> None:
    assert {f"{module}.{name}" for module, name, _, examples in FOUND if not examples} == UNSEEN
