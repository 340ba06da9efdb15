"""The loop or function around a line of the user's, as far as the trace holds its source. Nothing of it is run.

The source of a trace comes from anybody. Lines of it enter a remedy only as they are, only where all of them parse, and
only where they hold nothing that is there to run hidden code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from coldstep.model import Location

_HIDING = {"exec", "eval", "compile", "globals", "locals", "open", "input", "getattr", "setattr", "delattr"}
_MOST_LINES, _MOST_CHARS = 20, 1_200  # of what a reader is to write anew; a report shows no longer texts whole
Loop = ast.For | ast.While


@dataclass(frozen=True, slots=True)
class Written:
    """Lines of the user's, written anew."""

    location: Location
    """The first line that they replace."""
    lines: int
    """How many they replace."""
    code: str
    """Whole lines, without the indentation of the first that they replace."""


@dataclass(frozen=True, slots=True)
class Block:
    """A statement of the user's with all that is in it. Line numbers are the file's, as those of the tree are."""

    file: str
    first: int
    """The number of its first line."""
    lines: Sequence[str]
    """Its lines, without the indentation of the first."""
    tree: ast.stmt
    """The same, parsed."""
    indent: int
    """How far in its first line is."""

    def text(self, node: ast.expr) -> str:
        """An expression as it is written, in one line."""
        if node.lineno != node.end_lineno:
            return ast.unparse(node)
        return self._line(node).encode()[node.col_offset : node.end_col_offset].decode()

    def replaced(self, node: ast.expr, text: str, first: int, last: int) -> list[str] | None:
        """Some lines with an expression of one line in them replaced."""
        if node.lineno != node.end_lineno or not first <= node.lineno <= last:
            return None
        line = self._line(node).encode()
        new = (line[: node.col_offset] + text.encode() + line[node.end_col_offset :]).decode()
        return [new if number == node.lineno else self.lines[number - self.first] for number in range(first, last + 1)]

    def wrapped(self, node: ast.expr, before: str, behind: str, first: int, last: int) -> list[str]:
        """Some lines with texts around an expression in them."""
        lines = {number: self.lines[number - self.first].encode() for number in range(first, last + 1)}
        ends = (
            (node.end_lineno or node.lineno, node.end_col_offset or 0, behind),
            (node.lineno, node.col_offset, before),
        )
        for number, column, text in ends:
            lines[number] = lines[number][:column] + text.encode() + lines[number][column:]
        return [line.decode() for line in lines.values()]

    def written(self, first: int, last: int, lines: Sequence[str], function: str) -> Written | None:
        """These lines in the place of some, whose indentation they have; None where they are too many."""
        head = self.lines[first - self.first]
        indent = len(head) - len(head.lstrip())
        if last - first >= _MOST_LINES or any(line[:indent].strip() for line in lines):
            return None
        code = "\n".join(line[indent:].rstrip() for line in lines)
        written = Written(Location(self.file, first, function), last - first + 1, code)
        return written if len(code) <= _MOST_CHARS else None

    def within(self, line: int) -> Iterator[ast.stmt]:
        """The statements around a line, outermost first."""
        node: ast.stmt | None = self.tree
        while node is not None:
            yield node
            node = next((each for each in _statements(node) if each.lineno <= line <= (each.end_lineno or 0)), None)

    def _line(self, node: ast.expr) -> str:
        return self.lines[node.lineno - self.first]


def block_around(blocks: Mapping[tuple[str, int], str], place: Location) -> Block | None:
    """The largest block of the trace's that a line is in."""
    for (file, first), text in sorted(blocks.items()):
        if file == place.file and first <= place.line < first + len(text.splitlines()):
            return _parsed(file, first, text)
    return None


def block_of_line(place: Location, line: str) -> Block | None:
    """A statement of one line, whose text is given."""
    return _parsed(place.file, place.line, line) if line else None


@lru_cache(maxsize=64)
def _parsed(file: str, first: int, text: str) -> Block | None:
    lines = text.split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    if not all(line.isprintable() and not line[:indent].strip() for line in lines):
        return None
    lines = [line[indent:] for line in lines]
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(tree.body) != 1 or any(map(_hides, ast.walk(tree))):
        return None
    return Block(file, first, lines, ast.increment_lineno(tree, first - 1).body[0], indent)


def _hides(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _HIDING or (node.id.startswith("__") and node.id != "__name__")
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr != "__init__"
    )


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


# --- names ------------------------------------------------------------------------------------------------------------


def assigned(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that statements assign, or of which they assign a part: an attribute, an entry."""
    return {name for node in nodes for each in ast.walk(node) for name in bindings(each)}


def bindings(node: ast.AST) -> Iterator[str]:
    """The same of one node, without the nodes in it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            yield root(node)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.alias(name=name, asname=as_name):
            yield as_name or name.partition(".")[0]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case ast.arg(arg=name):
            yield name


def read(node: ast.AST) -> set[str]:
    """The names that an expression or statement reads."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def root(node: ast.expr) -> str:
    """The name with which a path begins, `batch` of `batch["x"].shape`; "" of one that begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
