"""A line that calls torch.compile, where nobody calls its result: written so that the calls run compiled code."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from coldstep.analysis.remedies.edits import is_plain, statements


@dataclass(frozen=True, slots=True)
class Compiled:
    """Such a line, of plain parts alone."""

    given: str
    """What it gives to torch.compile, by a name or attributes."""
    keywords: tuple[str, ...]
    """The settings beside it."""
    is_dropped: bool
    """Whether it drops the result."""
    beside: str = ""
    """The name that the result has, where that is another one than the model's or function's."""

    def in_place(self) -> str:
        """`model.compile(mode="default")`, which a method of the model's calls, too, where it calls the model."""
        return self._kept(f"{self.given}.compile({', '.join(self.keywords)})")

    def assigned(self, method: str = "") -> str:
        """`model.forward = torch.compile(model.forward)` with that method; without one, `f = torch.compile(f)`."""
        target = f"{self.given}.{method}" if method else self.given
        return self._kept(f"{target} = torch.compile({', '.join((target, *self.keywords))})")

    def _kept(self, statement: str) -> str:
        """The statement; then the model by the name that the compiled one had, where that is another."""
        return f"{statement}\n{self.beside} = {self.given}" if self.beside else statement


def compiled(line: str) -> Compiled | None:
    """What a line compiles, where it is no more than that; None of any other line."""
    target, call = _call(line)
    if call is None:
        return None
    if not all(each.arg and is_plain(ast.unparse(each.value)) for each in call.keywords):
        return None
    given = ast.unparse(call.args[0])
    beside = target if target not in (None, given) else ""
    return Compiled(given, tuple(map(ast.unparse, call.keywords)), target is None, beside or "")


def kept_beside(line: str) -> tuple[str, str]:
    """What a line compiles and keeps by another name, and the line with that in both places: `self.fast = self.f =
    torch.compile(self.f)`; two empty texts of any other line."""
    target, call = _call(line)
    if call is None or target in (None, given := ast.unparse(call.args[0])):
        return "", ""
    return given, f"{target} = {given} = {ast.unparse(call)}"


def _call(line: str) -> tuple[str | None, ast.Call | None]:
    """Where a line keeps what it compiles, and its call of torch.compile; None twice of any other line."""
    match statements(line.strip()):
        case [ast.Assign(targets=[target], value=ast.Call(args=[given]) as call)] if _is_path(target):
            name: str | None = ast.unparse(target)
        case [ast.Expr(value=ast.Call(args=[given]) as call)]:
            name = None
        case _:
            return None, None
    return (name, call) if ast.unparse(call.func) == "torch.compile" and _is_path(given) else (None, None)


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
