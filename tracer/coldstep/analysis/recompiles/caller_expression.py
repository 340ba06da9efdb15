"""Finds an argument as its caller wrote it: a library's function names it in its own way, `input` or `args[0]`."""

from __future__ import annotations

import ast

from coldstep._util.expressions import expression
from coldstep.analysis.patterns import dims
from coldstep.model import Compile, Through, Trace
from coldstep.places import is_installed

# coldstep: "args[0]"
# coldstep: "input"
_ROOT = expression(r"args\[(\d+)\]|[A-Za-z_]\w*")


def as_called(trace: Trace, compile_: Compile, argument: str) -> str:
    """The path of an argument by the caller's expression, where a library's function was called and the line has it."""
    root = _ROOT.match(argument)
    caller = compile_.caller
    of_library = compile_.location is None or is_installed(compile_.location.file)
    roots = list(dict.fromkeys(match[0] for row in compile_.inputs or () if (match := _ROOT.match(row.argument))))
    # no line but one of the function itself could say args[0]
    nameless = bool(roots) and all(each.endswith("]") for each in roots)
    if root is None or caller is None or not (of_library or nameless):
        return argument
    if (through := trace.details[compile_.id].through) is not None:
        code = trace.code.get((caller.file, caller.line), "")
        return _cut_from(through, compile_, argument, code) or argument
    if root[0] not in roots:
        return argument
    position = int(root[1]) if root[1] else roots.index(root[0])
    as_written = _expression(trace.code.get((caller.file, caller.line), ""), root[0], position, len(roots))
    return argument if as_written is None else f"{as_written}{argument[root.end() :]}"


def _cut_from(through: Through, compile_: Compile, argument: str, code: str) -> str | None:
    """The one array, as the caller wrote it, that an argument can be a batch of: all its dimensions but the first."""
    type_ = next((row.type for row in compile_.inputs or () if row.argument == argument), "")
    given = [at for at, row in enumerate(through.arguments) if dims(row.type) and _rest(row.type) == _rest(type_)]
    if len(given) != 1 or not dims(type_):
        return None
    name, most = through.arguments[given[0]].argument, len(through.arguments)
    return _expression(code, name, given[0], most, through.function.rpartition(".")[2]) or name


def _rest(type_: str) -> list[str]:
    return dims(type_)[1:]


def _expression(code: str, name: str, position: int, most: int, called: str | None = None) -> str | None:
    """What a line hands over as the argument of that name or position, to its one call that may be meant; of a function
    that is `called` so."""
    for text in (code, f"{code}\n pass"):  # the head of a block is no statement by itself
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if called is not None:
            calls = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == called]
        handed_over = [each for call in calls if (each := _handed_over(call, name, position, most)) is not None]
        return ast.unparse(handed_over[0]) if len(handed_over) == 1 else None
    return None


def _handed_over(call: ast.Call, name: str, position: int, most: int) -> ast.expr | None:
    if len(call.args) + len(call.keywords) > most or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    value = next(iter(by_name or call.args[position : position + 1]), None)
    # a call makes another tensor each time, which is not the one to be marked
    if value is None or any(isinstance(node, ast.Call) for node in ast.walk(value)):
        return None
    return value
