"""Lines of code of each floor, of this tree or of a commit: no blank ones, comments, docstrings or imports.

    python benchmarks/code_lines.py [COMMIT…]

A line counts where a token of the program stands in it, so that a string of four lines counts as four.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = ("tracer", "collectors", "viewers")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """The lines of code in a module's text."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> bool:
    """A text that is a statement: of a module, a class or a function, or below a field that it explains."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def counted(commit: str | None) -> dict[str, int]:
    """By floor, its lines of code."""
    return {floor: sum(map(code_lines, _modules(floor, commit))) for floor in FLOORS}


def _modules(floor: str, commit: str | None) -> Iterator[str]:
    """The text of each module."""
    if commit is None:
        yield from (path.read_text() for path in sorted((ROOT / floor).rglob("*.py")))
        return
    for name in _git("ls-tree", "-r", "--name-only", commit, "--", floor).splitlines():
        if name.endswith(".py"):
            yield _git("show", f"{commit}:{name}")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print a row for each commit that is asked for, then one for the tree."""
    print("", *FLOORS, "all", sep="\t")
    for commit in (*sys.argv[1:], None):
        found = counted(commit)
        print(commit or "tree", *(f"{number:,}" for number in found.values()), f"{sum(found.values()):,}", sep="\t")


if __name__ == "__main__":
    main()
