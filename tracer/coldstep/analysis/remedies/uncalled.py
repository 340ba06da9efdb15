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
    """Whether it drops the result; else the result has the name of the model or function."""

    def in_place(self) -> str:
        """`model.compile(mode="default")`, which a method of the model's calls, too, where it calls the model."""
        return f"{self.given}.compile({', '.join(self.keywords)})"

    def assigned(self, method: str = "") -> str:
        """`model.forward = torch.compile(model.forward)` with that method; without one, `f = torch.compile(f)`."""
        target = f"{self.given}.{method}" if method else self.given
        return f"{target} = torch.compile({', '.join((target, *self.keywords))})"


def compiled(line: str) -> Compiled | None:
    """What a line compiles, where it is no more than that; None of any other line."""
    match statements(line.strip()):
        case [ast.Assign(targets=[target], value=ast.Call(args=[given]) as call)]:
            if ast.unparse(target) != ast.unparse(given):
                return None
            is_dropped = False
        case [ast.Expr(value=ast.Call(args=[given]) as call)]:
            is_dropped = True
        case _:
            return None
    plain = all(each.arg and is_plain(ast.unparse(each.value)) for each in call.keywords)
    if ast.unparse(call.func) != "torch.compile" or not plain or not _is_path(given):
        return None
    return Compiled(ast.unparse(given), tuple(map(ast.unparse, call.keywords)), is_dropped)


def kept_beside(line: str) -> tuple[str, str]:
    """What a line compiles and keeps by another name, and the line with that in both places: `self.fast = self.f =
    torch.compile(self.f)`; two empty texts of any other line."""
    match statements(line.strip()):
        case [ast.Assign(targets=[target], value=ast.Call(args=[given]) as call)]:
            both = ast.unparse(target), ast.unparse(given)
            if (
                ast.unparse(call.func) == "torch.compile"
                and both[0] != both[1]
                and _is_path(target)
                and _is_path(given)
            ):
                return both[1], f"{both[0]} = {both[1]} = {ast.unparse(call)}"
    return "", ""


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
