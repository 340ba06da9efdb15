"""A Python loop of a JAX function, written as `jax.lax.fori_loop`, where its turns do nothing but assign names; and a
list of what its turns give, which is stacked, as `jax.vmap`.

What begins as a plain number and becomes an array in the first turn (`loss = 0.0`) has that turn stand before the loop:
of a loop's values no shape and no dtype may change.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Sequence
from typing import cast

from coldstep._util.expressions import expression
from coldstep.analysis.remedies.blocks import Block, Written, assigned, bindings, read, root

_JAX = {"jax", "jnp", "lax"}
_SIZED = {
    "zeros", "ones", "empty", "full", "arange", "linspace", "eye", "reshape", "split", "tile", "repeat", "roll",
    "broadcast_to", "moveaxis", "swapaxes", "transpose", "expand_dims", "squeeze", "pad", "one_hot",
    "concatenate", "stack",
}  # fmt: skip
"""Functions that take a size or an axis: a traced number would end the program."""
_OF_AXIS = {
    "flip", "take", "softmax", "log_softmax", "slice_in_dim", "sum", "mean", "max", "min", "cumsum", "sort", "argsort",
}  # fmt: skip
"""The same, but for their first argument."""
_LISTS = {
    "split", "array_split", "hsplit", "vsplit", "dsplit", "unstack", "meshgrid", "broadcast_arrays", "nonzero",
    "devices", "flatten",
}  # fmt: skip
"""Functions that give a list or a tuple, of which a traced number can pick nothing."""
_SEQUENCES = (ast.List, ast.Tuple, ast.ListComp, ast.Dict, ast.Set)
_EFFECTS = {"item", "tolist", "print", "callback", "block_until_ready", "concatenate", "hstack", "vstack"}
"""What does more than to compute, or gives a turn more than it was given."""
_METHODS = {"append", "extend", "insert", "pop", "update", "remove", "clear", "write", "setdefault"}
"""The same, as methods of a list, a dict or a file: a function that is called update is one like any other."""
_PLAIN_BUILTINS = {"abs", "len"}
_HOSTS = {"np", "numpy", "time", "os", "math"}
"""Modules that run once, as the function is traced: in each turn of a Python loop they may give something else."""
# Python: "subkey"
_KEYS = expression(r"(?i)key|rng")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.FloorDiv)
_EXCLUDED = (
    ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Starred, ast.List, ast.Dict, ast.Set, ast.JoinedStr,
)  # fmt: skip
_TURN, _CARRY, _LOOP, _AT = "turn", "carry", "fori_loop", "at"
_VMAP = "vmap"
_STATEFUL = {"self", "nn", "nnx", "hk"}
_STACKS = {"stack", "array", "asarray"}


def as_fori_loop(block: Block, line: int, arrays: Collection[str]) -> Written | None:
    """The lines of the loop that begins in that line, written anew; None where that may not be the same. `arrays`: the
    parameters of its function that are arrays."""
    function, loop = block.tree, loop_at(block, line)
    if not isinstance(function, ast.FunctionDef) or loop is None:
        return None
    elements, body = _iterated(function, loop, arrays), loop.body
    ends = ("0", f"len({elements})") if elements else (_range(loop.iter) if not loop.orelse else None)
    if ends is None or not isinstance(loop.target, ast.Name) or not all(map(assigns, body)):
        return None
    carried = handed_on(function, loop)
    if not carried or not set(carried) <= before(function, loop):
        return None
    numbers = _begun_as_numbers(function, loop, carried)
    if numbers is None or not numbers <= _made_arrays(loop) or assigned(body) & seen_from_within(function, loop):
        return None
    index = loop.target.id
    arrays = _arrays(function, arrays) - {index}
    names = {name for node in ast.walk(function) for name in (*bindings(node), *read(node))}
    new = {_TURN, _CARRY, _LOOP, *([_AT] if elements else [])}
    if index in read_outside(function, loop) or names & new or index in assigned(body):
        return None
    if not all(is_computed(each) and (elements or _is_traceable(each, index, arrays)) for each in body):
        return None
    return _written(block, loop, elements, ends, carried, begun=bool(numbers))


def as_vmap(block: Block, line: int, arrays: Collection[str]) -> Written | None:
    """The line of a list of what each turn gives, `[f(keys[i]) for i in range(n)]`, of which an array is made at once,
    written anew; None where that may not be the same."""
    function, statement = block.tree, [*block.within(line)][-1]
    if not isinstance(function, ast.FunctionDef) or not isinstance(statement, ast.Assign | ast.Return):
        return None
    lists = [each for each in ast.walk(statement) if isinstance(each, ast.ListComp) and each.lineno == line]
    stack = _stacks(function, statement, lists[0]) if len(lists) == 1 else None
    match lists[0].generators if stack is not None else []:
        case [ast.comprehension(target=ast.Name(id=index), iter=over, ifs=[], is_async=0)]:
            ends, turn = _range(over), ast.Expr(lists[0].elt)
            arrays = _arrays(function, arrays) - {index}
            same = is_computed(turn) and _is_traceable(turn, index, arrays) and _is_one_turns(turn.value, index)
            if ends is None or not same or (_called(stack) != "stack" and not _is_array(turn.value)):
                return None
            names = read(function)
            numbers = f"({', '.join(ends) if ends[0] != '0' else ends[1]})"
            arange, vmap = ("jnp" if "jnp" in names else "jax.numpy"), ("jax.vmap" if "jax" in names else _VMAP)
            if _VMAP in names or not names & {"jnp", "jax"}:
                return None
            mapped = f"{vmap}(lambda {index}: {block.text(lists[0].elt)})({arange}.arange{numbers})"
            node = stack if stack in [*ast.walk(statement)] else lists[0]
            lines = block.replaced(cast(ast.expr, node), mapped, line, statement.end_lineno or line)
            head = [f"{' ' * statement.col_offset}from jax import {_VMAP}"] if vmap == _VMAP else []
            return block.written(line, statement.end_lineno or line, [*head, *lines], "") if lines else None
    return None


def _iterated(function: ast.FunctionDef, loop: ast.For, arrays: Collection[str]) -> str:
    """The parameter, an array, whose elements the loop goes over; "" where it goes over something else."""
    names = (each for each in ast.walk(function) if isinstance(each, ast.Name))
    stored = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    match loop:
        case ast.For(iter=ast.Name(id=name), orelse=[]) if name in arrays and name not in stored:
            return name
    return ""


def _called(call: ast.Call | None) -> str:
    return ast.unparse(call.func).rpartition(".")[2] if call is not None else ""


def _is_array(node: ast.expr) -> bool:
    """Whether an expression gives one array, as far as can be seen: a stack of tuples is another array."""
    if isinstance(node, ast.BinOp):
        return _is_array(node.left) or _is_array(node.right)
    return isinstance(node, ast.Call) and _gives_array(node.func)


def _is_one_turns(node: ast.expr, index: str) -> bool:
    """Whether all that a turn calls depends on what it is given: no layer that it makes, and no state of an object."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            of_random = ".random." in f".{ast.unparse(each.func)}"
            given = [*each.args, *(keyword.value for keyword in each.keywords)]
            if root(each.func) in ("", *_STATEFUL) or not given or (of_random and index not in read(given[0])):
                return False
    return index in read(node)


def _stacks(function: ast.FunctionDef, statement: ast.stmt, made: ast.ListComp) -> ast.Call | None:
    """The call that makes an array of the list, and is all that is done with it."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is made:
            uses = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name]
            given = [each for each in uses if isinstance(each.ctx, ast.Load)]
            if len(uses) != 2 or len(given) != 1:
                return None
            used: ast.expr = given[0]
        case _:
            used = made
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call) and each.args == [used]]
    is_stack = calls and not calls[0].keywords and root(calls[0].func) in _JAX
    return calls[0] if is_stack and _called(calls[0]) in _STACKS else None


def _written(
    block: Block, loop: ast.For, elements: str, ends: tuple[str, str], carried: Sequence[str], *, begun: bool
) -> Written | None:
    """`elements`: the array that the loop goes over; `begun`: with the first turn before the loop."""
    if (kept := body_of(block, loop)) is None:
        return None
    outer, inner = " " * loop.col_offset, " " * loop.body[0].col_offset
    whole, one, target = ", ".join(carried), len(carried) == 1, ast.unparse(loop.target)
    given = whole if one else f"({whole})"
    if begun:
        given = f"{_TURN}({ends[0]}, {given})"
        ends = ("1" if ends[0] == "0" else f"({ends[0]}) + 1", ends[1])
    lines = [
        f"{outer}from jax.lax import {_LOOP}",
        "",
        f"{outer}def {_TURN}({_AT if elements else target}, {whole if one else _CARRY}):",
        *([] if one else [f"{inner}{whole} = {_CARRY}"]),
        *([f"{inner}{target} = {elements}[{_AT}]"] if elements else []),
        *kept,
        f"{inner}return {whole}",
        "",
        f"{outer}{whole} = {_LOOP}({', '.join(ends)}, {_TURN}, {given})",
    ]
    return block.written(loop.lineno, loop.end_lineno or loop.lineno, lines, "")


def body_of(block: Block, loop: ast.For) -> list[str] | None:
    """The lines of a loop below its head; None where either shares a line with something else."""
    first, begin, last = loop.lineno, loop.body[0].lineno, loop.end_lineno or loop.lineno
    if begin == first or block.lines[first - block.first][: loop.col_offset].strip():
        return None
    return [block.lines[number - block.first] for number in range(begin, last + 1)]


def loop_at(block: Block, line: int) -> ast.For | None:
    """The loop that begins in that line."""
    return next((each for each in ast.walk(block.tree) if isinstance(each, ast.For) and each.lineno == line), None)


def _range(over: ast.expr) -> tuple[str, str] | None:
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[end], keywords=[]):
            return "0", ast.unparse(end)
        case ast.Call(func=ast.Name(id="range"), args=[begin, end], keywords=[]):
            return ast.unparse(begin), ast.unparse(end)
    return None


def assigns(node: ast.stmt) -> bool:
    """Whether a statement does nothing but assign names."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    return all(isinstance(each, ast.Name) for each in (target.elts if isinstance(target, ast.Tuple) else [target]))


# --- what a turn hands to the next ------------------------------------------------------------------------------------


def handed_on(function: ast.FunctionDef, loop: ast.For) -> list[str]:
    """The names that a turn assigns for the next one, or for what follows the loop, in their order."""
    made, needed = dict[str, None](), set[str]()
    for statement in loop.body:
        updated = {root(statement.target)} if isinstance(statement, ast.AugAssign) else set()
        needed |= (read(statement) | updated) - {*made}
        nodes = (node for node in ast.walk(statement) if not isinstance(node, ast.arg))  # none of lambdas' parameters
        made |= dict.fromkeys(name for node in nodes for name in bindings(node))
    return [name for name in made if name in needed or name in read_outside(function, loop)]


def read_outside(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    """The names that are read after the loop; in an outer loop, before it, too."""
    outer = any(isinstance(each, ast.For | ast.While) and loop in [*ast.walk(each)][1:] for each in ast.walk(function))
    within, last = {*ast.walk(loop)}, loop.end_lineno or loop.lineno
    nodes = (each for each in ast.walk(function) if isinstance(each, ast.Name) and each not in within)
    return {each.id for each in nodes if isinstance(each.ctx, ast.Load) and (outer or each.lineno > last)}


def seen_from_within(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    """The names that functions within this one share with it, but for those that a turn defines."""
    within, names = {*ast.walk(loop)}, set[str]()
    for each in ast.walk(function):
        if each is not function and each not in within and isinstance(each, ast.FunctionDef | ast.Lambda):
            names |= read(each) - {part.arg for part in ast.walk(each.args) if isinstance(part, ast.arg)}
        elif isinstance(each, ast.Global | ast.Nonlocal):
            names |= {*each.names}
    return names


def before(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    """The names that are there whenever the loop begins: parameters, and what statements before it assign."""
    names, node = assigned([function.args]), cast(ast.stmt, function)
    while node is not loop:
        for each in getattr(node, "body", []):
            if each is loop or loop in [*ast.walk(each)]:
                node = each
                break
            names |= assigned([each]) if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign) else set()
        else:
            return set()
    return names


def _begun_as_numbers(function: ast.FunctionDef, loop: ast.For, carried: Sequence[str]) -> set[str] | None:
    """Those of them that begin as a plain number; None where one begins as a list, a text or the like."""
    within, numbers = {*ast.walk(loop)}, set[str]()
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and each not in within and {*carried} & assigned(each.targets):
            values = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
            targets = each.targets[0].elts if isinstance(each.targets[0], ast.Tuple) else each.targets
            if len(targets) != len(values):
                targets, values = [each.targets[0]], [each.value]
            for target, value in zip(targets, values, strict=True):
                if any(isinstance(part, ast.Call | ast.Name) for part in ast.walk(value)):
                    continue
                if not (isinstance(value, ast.Constant) and type(value.value) in (int, float)):
                    return None
                numbers |= {*carried} & assigned([target])
    return numbers


def _made_arrays(loop: ast.For) -> set[str]:
    """The names that a turn gives what a call returned, or what is computed of that."""
    made = set[str]()
    for statement in loop.body:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            calls = any(isinstance(each, ast.Call) for each in ast.walk(statement.value))
            if calls or read(statement.value) & made:
                made |= assigned(statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    return made


def _arrays(function: ast.FunctionDef, parameters: Collection[str]) -> set[str]:
    """The names that only hold what a function of JAX's returns, and the parameters that never hold a list."""
    made: dict[str, bool] = dict.fromkeys(parameters, True)
    for each in ast.walk(function):
        value = each.value if isinstance(each, ast.Assign) else None
        is_array = isinstance(value, ast.Call) and _gives_array(value.func)
        if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For):
            for name in assigned([each.target] if not isinstance(each, ast.Assign) else each.targets):
                computed = name in parameters and not isinstance(value, _SEQUENCES) and not _gives_list(value)
                made[name] = made.get(name, True) and (is_array or computed)
    return {name for name, is_array in made.items() if is_array}


def _gives_array(called: ast.expr) -> bool:
    return root(called) in _JAX and not _gives_list(called) and ".tree" not in ast.unparse(called)


def _gives_list(value: ast.expr | None) -> bool:
    """Whether a function, or a call of one, gives a list or a tuple."""
    name = ast.unparse(value.func if isinstance(value, ast.Call) else value) if value is not None else ""
    return name.rpartition(".")[2] in _LISTS and not name.endswith("random.split")


# --- what a turn may do -----------------------------------------------------------------------------------------------


def is_computed(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but compute, so that it may be traced once for all turns."""
    for node in ast.walk(statement):
        if isinstance(node, _EXCLUDED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return False
        if not isinstance(node, ast.Call):
            continue
        name, callee = ast.unparse(node.func).rpartition(".")[2], root(node.func)
        is_method = isinstance(node.func, ast.Attribute)
        effect = name in _EFFECTS or (is_method and name in _METHODS) or callee in _HOSTS
        if effect or (hasattr(builtins, callee) and callee not in _PLAIN_BUILTINS):
            return False
        if callee == "random" and not (node.args and _KEYS.search(ast.unparse(node.args[0]))):
            return False
    return True


def _is_traceable(statement: ast.stmt, index: str, arrays: Collection[str]) -> bool:
    """Whether the index is used only where a traced number will do."""
    above = {child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
    uses = (each for each in ast.walk(statement) if isinstance(each, ast.Name) and each.id == index)
    return all(_may_be_traced(each, above, arrays) for each in uses)


def _may_be_traced(node: ast.AST, above: dict[ast.AST, ast.AST], arrays: Collection[str]) -> bool:
    while (outer := above.get(node)) is not None:
        match outer:
            case ast.BinOp(op=operator) if not isinstance(operator, _OPERATORS):
                return False
            case ast.UnaryOp(op=ast.Not() | ast.Invert()) | ast.keyword(arg="axis" | "axes" | "num" | "size"):
                return False
            case ast.BinOp() | ast.UnaryOp() | ast.keyword():
                pass
            case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(attr="at")))):
                return True  # x.at[…].set(…)
            case ast.Call(func=called):
                name = ast.unparse(called).rpartition(".")[2]
                is_data = name not in _SIZED and (name not in _OF_AXIS or outer.args[:1] == [node])
                return root(called) in _JAX and is_data
            case ast.Subscript(value=ast.Attribute(attr="at")):
                return node is outer.slice
            case ast.Subscript(value=ast.Name(id=name)):
                return node is outer.slice and name in arrays
            case ast.Assign() | ast.AugAssign() | ast.Expr():
                return True
            case _:
                return False
        node = outer
    return False
