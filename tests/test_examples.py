"""Above each regular expression that reads others' words stands what it reads, and who prints that: each matches."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
READERS = [
    *(f"coldstep.{name}" for name in ("context", "logs", "torch_trace_payloads", "signature")),
    *(
        f"coldstep.analysis.{name}"
        for name in ("caller_expression", "compare", "dynamo_guards", "ir", "jax_cache_misses")
    ),
    *(
        f"coldstep.analysis.{name}"
        for name in ("memory", "patterns", "stablehlo_sources", "program_alignment", "variants")
    ),
    *(f"coldstep_collectors.{name}" for name in ("graph_breaks", "jax", "jax_programs", "lazy_graphs", "process")),
    "coldstep_collectors._private.torch_xla",
    *(f"coldstep_collectors._private.torch.{name}" for name in ("breaks", "frames", "limits", "phases", "scope")),
    *(f"coldstep_collectors.logs.{name}" for name in ("frames", "jax_logs", "torch_logs", "torch_trace")),
]
"""Of these modules each expression has an example."""
EXAMPLE = re.compile(r'(?:[A-Z]\w+|coldstep|torch_xla|py-spy)(?: \d[\d.]*(?:, \d[\d.]*)*)?: "(.+)"$')


def expressions(file: Path) -> Iterator[tuple[str, list[str]]]:
    """The name of each expression of a module, with the examples in the comment above it."""
    lines = file.read_text().splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("re.compile(", "expression(")):
            above = []
            for line in reversed(lines[: node.lineno - 1]):
                if not line.startswith("# "):
                    break
                above.append(line.removeprefix("# "))
            text = "\n".join(reversed(above)).replace('"\n', '"\0').replace("\n", " ")
            found = [match[1] for part in text.split("\0") if (match := EXAMPLE.search(part))]
            yield ast.unparse(node.targets[0]), [each.encode().decode("unicode_escape") for each in found]


FOUND = [
    (".".join(file.relative_to(ROOT / top).with_suffix("").parts), name, examples)
    for top in ("tracer", "collectors", "viewers")
    for file in sorted((ROOT / top).rglob("*.py"))
    for name, examples in expressions(file)
]


@pytest.mark.parametrize(
    ("module", "name", "examples"), [pytest.param(*row, id=".".join(row[:2])) for row in FOUND if row[2]]
)
def test_an_expression_matches_its_examples(module: str, name: str, examples: list[str]) -> None:
    pattern = getattr(importlib.import_module(module), name)
    for example in examples:
        assert pattern.search(example.encode() if isinstance(pattern.pattern, bytes) else example), example


def test_what_reads_a_frameworks_words_shows_them() -> None:
    assert [f"{module}.{name}" for module, name, examples in FOUND if module in READERS and not examples] == []
