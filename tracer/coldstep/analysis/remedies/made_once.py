"""Makes an object once that the user's code makes anew: before the loop that makes it, or in the first call of the
function that does.

Only one call expression moves, and only where nothing that it reads is assigned in the loop or function.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coldstep._util.expressions import expression
from coldstep.analysis.remedies.blocks import Block, Loop, Written, assigned, bindings, read, root
from coldstep.analysis.remedies.edits import expression_in
from coldstep.vocabulary import FRAMEWORKS

_PARTS = (
    ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.List, ast.Dict,
    ast.Load, ast.unaryop, ast.operator, ast.Lambda, ast.arguments, ast.arg, ast.Subscript, ast.Slice, ast.Compare,
    ast.cmpop,
)  # fmt: skip
"""What the expression may be made of."""
_ARRAYS = {"jnp", "np", "numpy", "tf", *FRAMEWORKS}
"""Whose calls make arrays, as a rule, and none of the objects that are known by identity."""
# Python: "np.random.default_rng"
# Python: "next"
_VARIES = expression(r"(?i)rand|rng|seed|time|now\b|next|pop|read|uuid|count|iter|sample")
# coldstep: "optimizer.tx"
_NAMES = expression(r"[A-Za-z_]\w*")


def made_once(block: Block, line: int, argument: str, given: str, part_of: str | None = None) -> Written | None:
    """The lines that make what `given`, an expression of a line of the block, stands for, so that it is made once.
    `argument`: its path, by the name of the argument. Of a part, `part_of` is that part's class: then only what makes
    the part moves, the call of that name or, of a path such as `optimizer.tx`, the only one."""
    statements = [*block.within(line)]
    if (made := _making(statements, line, given)) is None:
        return None
    statement, value = made
    around = _around(statements, statement)
    part = _Part(part_of, any_call=not argument.isidentifier()) if part_of is not None else None
    if part_of is not None and argument.isidentifier():
        argument = part_of.lower()
    for number, loop in enumerate(around):
        always = all(isinstance(each, Loop | ast.With) for each in around[number:])
        if isinstance(loop, Loop) and always and (call := _moving(value, [loop], part)) is not None:
            return _before(block, loop, statement, call, argument)
    if around and isinstance(around[0], ast.FunctionDef) and not any(isinstance(each, Loop) for each in around):
        call = _moving(value, [around[0].args, *around[0].body], part)
        return _in_first_call(block, around[0], statement, call, argument) if call is not None else None
    return None


def _making(statements: Sequence[ast.stmt], line: int, given: str) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that makes it, and the expression there: the one assignment to that name, or the line itself."""
    wanted, innermost = expression_in(given), statements[-1]
    if isinstance(wanted, ast.Call):
        nodes = [each for each in ast.walk(innermost) if isinstance(each, ast.expr) and ast.unparse(each) == given]
        return (innermost, nodes[0]) if len(nodes) == 1 else None
    if not isinstance(wanted, ast.Name):
        return None
    name = wanted.id
    if sum(name in bindings(each) for each in ast.walk(statements[0])) != 1:
        return None
    for each in ast.walk(statements[0]):
        match each:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name and each.lineno < line:
                return each, value
    return None


def _around(statements: Sequence[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """The statements around the one that makes it, outermost first; none where they do not always run it."""
    at = next((at for at, each in enumerate(statements) if statement in _body(each)), None)
    return [*statements[: at + 1]] if at is not None else []


def _body(node: ast.stmt) -> list[ast.stmt]:
    """The statements in one that run each time that it does."""
    return node.body if isinstance(node, Loop | ast.With | ast.FunctionDef) else []


@dataclass(frozen=True, slots=True)
class _Part:
    """What of an object is wanted, where all of it is not."""

    kind: str
    """Its class."""
    any_call: bool
    """Whether the only call that may move makes it, whatever its name."""

    def made_by(self, calls: Sequence[ast.Call]) -> Sequence[ast.Call]:
        """Those that make it."""
        named = [each for each in calls if ast.unparse(each.func).rpartition(".")[2] == self.kind]
        return named or (calls if self.any_call else [])


def _moving(value: ast.expr, where: Sequence[ast.AST], part: _Part | None) -> ast.Call | None:
    """The call that may move out of there: the whole of what is made, or the one part of it that may."""
    if not isinstance(value, ast.Call):
        return None
    if part is None:
        return value if _is_independent(value, where) else None
    given = [*value.args, *(each.value for each in value.keywords)]
    calls = [each for each in given if isinstance(each, ast.Call) and not _makes_plain_data(each)]
    calls = [each for each in part.made_by(calls) if _is_independent(each, where)]
    return calls[0] if len(calls) == 1 else None


def _makes_plain_data(call: ast.Call) -> bool:
    callee = root(call.func)
    return callee in _ARRAYS or hasattr(builtins, callee)


def _is_independent(call: ast.Call, where: Sequence[ast.AST]) -> bool:
    nodes = [*ast.walk(call)]
    if not all(isinstance(each, _PARTS) for each in nodes):
        return False
    called = [each.func for each in nodes if isinstance(each, ast.Call)]
    if any(not root(each) or _VARIES.search(ast.unparse(each)) for each in called):
        return False
    bound = {each.arg for each in nodes if isinstance(each, ast.arg)}
    names = read(call) - bound
    handed = names - {root(each) for each in called}
    if bound and handed:  # a function that reads a value: whoever changes that need not stand here
        return False
    changed = set().union(*(assigned([each]) for each in where))
    return not names & changed and not handed & {*_passed_on(where, call)}


def _passed_on(where: Sequence[ast.AST], but: ast.Call) -> Iterator[str]:
    """The names that may stand for something else after a call there: whose methods are called, and that are handed
    over."""
    within = {*ast.walk(but)}
    for each in (each for node in where for each in ast.walk(node)):
        if not isinstance(each, ast.Call) or each in within or hasattr(builtins, root(each.func)):
            continue
        if isinstance(each.func, ast.Attribute):
            yield root(each.func)
        yield from (root(given) for given in (*each.args, *(keyword.value for keyword in each.keywords)))


def _before(block: Block, loop: ast.stmt, statement: ast.stmt, call: ast.Call, argument: str) -> Written | None:
    name = f"one_{'_'.join(_NAMES.findall(argument))}"
    known = {each.id for each in ast.walk(block.tree) if isinstance(each, ast.Name)}
    last = statement.end_lineno or statement.lineno
    if block.lines[loop.lineno - block.first].encode()[: loop.col_offset].strip():  # it is not first in its line
        return None
    lines = block.replaced(call, name, loop.lineno, last)
    if lines is None or name in known or not name.isidentifier() or keyword.iskeyword(name):
        return None
    above = f"{' ' * loop.col_offset}{name} = {block.text(call)}"
    return block.written(loop.lineno, last, [above, *lines], "")


def _in_first_call(
    block: Block, function: ast.FunctionDef, statement: ast.stmt, call: ast.Call, argument: str
) -> Written | None:
    """In the first call of a function of a module: what a later call makes is thrown away."""
    inside = assigned([function.args, *function.body])
    if block.indent or function.decorator_list or function.name in inside:
        return None
    last = statement.end_lineno or statement.lineno
    kept = f"vars({function.name}).setdefault({argument!r}, {block.text(call)})"
    lines = block.replaced(call, kept, statement.lineno, last)
    return block.written(statement.lineno, last, lines, function.name) if lines is not None else None
