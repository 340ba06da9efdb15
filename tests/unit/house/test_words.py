"""What coldstep prints is plain English: actor, verb, object; and names in the code say what a thing is.

The advice of `analysis/advice.py`, `patterns.py` and `breaks.py` is left out: another change rewrites it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("tracer/coldstep", "collectors/coldstep_collectors", "viewers/coldstep_viewers")
ADVICE = {"advice.py", "patterns.py", "breaks.py"}
IDIOM = re.compile(
    r"\b(?:told|tells?|said|says?)\b|\b[Ww]hat (?:is|was|are|were)\b|\b(?:is|are|was|were) not to be\b"
    r"|\bof (?:JAX|XLA|PyTorch|Dynamo|Inductor|TensorFlow|Keras|Python|torch_xla|coldstep)'s?(?=[ ,.;:)]*$|[,.;:)])"
)
"""What a translation sounds like: "is told", "what is compiled", "a function of JAX's", "is not to be seen"."""
MOST_IDIOMS = 10
"""There were 792; the rest quote a framework, or an older trace."""
NAMES = ("said", "told", "found", "mine")
MOST_NAMED = 64
"""A ratchet: whoever renames one lowers it, and nobody raises it."""

NEWCOMERS = [
    ROOT / "README.md",
    *(path for kind in ("*.md", "how-to/*.md", "explanation/*.md") for path in (ROOT / "docs").glob(kind)),
]
"""The pages for those who use coldstep; reference and evidence have words of their own."""
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# ```console … ```, `coldstep run`
MOST_IN_PAGES = 36
"""A ratchet, too."""


def modules(root: Path = ROOT) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def printed(path: Path) -> Iterator[str]:
    """The texts of a module that people read: docstrings of public names, and others of more than one word that are no
    expression."""
    tree = ast.parse(path.read_text())
    aside = set[int]()
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else ()
        for statement in body:
            if isinstance(statement, ast.Expr) and (docstring := _text(statement.value)) is not None:
                aside.add(id(statement.value))
                if not getattr(node, "name", "").startswith("_"):
                    yield docstring
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "expression"):
            aside |= {id(part) for part in ast.walk(node)}
    for node in ast.walk(tree):
        text = _text(node)
        if text is not None and id(node) not in aside and " " in text:
            yield text


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def pages(root: Path = ROOT) -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path for path in sorted((root / package).rglob("*.html")))
        yield from (path for path in sorted((root / package).rglob("*.js")) if "vendor" not in path.parts)


def idioms(root: Path = ROOT) -> Counter[str]:
    """By file, how many idioms it prints."""
    counted = Counter[str]()
    for path in modules(root):
        if path.name not in ADVICE:
            counted[path.relative_to(root).as_posix()] = sum(len(IDIOM.findall(text)) for text in printed(path))
    for path in pages(root):
        counted[path.relative_to(root).as_posix()] = len(IDIOM.findall(path.read_text()))
    return +counted


def named(root: Path = ROOT) -> Counter[str]:
    """How often a variable, parameter or function has one of `NAMES`."""
    counted = Counter[str]()
    for path in modules(root):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
            name = node.arg if isinstance(node, ast.arg) else name
            name = node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else name
            if name.strip("_") in NAMES:
                counted[path.relative_to(root).as_posix()] += 1
    return counted


def test_what_is_printed_is_plain() -> None:
    counted = idioms()
    assert counted.total() <= MOST_IDIOMS, counted.most_common(20)


def test_what_newcomers_read_is_plain() -> None:
    found = {path.name: len(IDIOM.findall(_CODE.sub("", path.read_text()))) for path in NEWCOMERS}
    assert sum(found.values()) <= MOST_IN_PAGES, Counter(found).most_common(20)
    assert found["README.md"] == found["getting-started.md"] == found["index.md"] == 0


def test_names_say_what_a_thing_is() -> None:
    counted = named()
    assert counted.total() <= MOST_NAMED, counted.most_common(20)
