"""Finds what a remedy changes: the argument of a call in the user's line, a decorator. Nothing of it is run."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from coldstep._util.expressions import expression

_CLAUSES = ("elif ", "else:", "else ", "except", "finally", "case ")
_BODY = "\n pass"
_MAX_PLAIN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One argument of one call, in a line of the user's."""

    line: str
    """The line, without its indentation."""
    expression: str
    """The argument, as Python writes it."""
    always: bool = True
    """Whether it runs each time that the line is come to, and once: in no comprehension, lambda or body in the line."""
    names: frozenset[str] | None = None
    """The names that the function around it assigns; None where there is none, or it is not known."""

    def may_assign(self, target: str) -> bool:
        """Whether a name or an entry may be given another value above the line: no attribute, of which an object may
        have no other, and no name that is another's."""
        if target.isidentifier():
            return self.names is None or target in self.names
        tree = parsed(target)
        return tree is not None and isinstance(getattr(tree.body[0], "value", None), ast.Subscript)

    @property
    def has_call(self) -> bool:
        """Whether it is made anew by a call each time."""
        tree = parsed(self.expression)
        return tree is None or any(isinstance(node, ast.Call) for node in ast.walk(tree))

    @property
    def is_object(self) -> bool:
        """Whether it gives the same object each time, and no slice or the like."""
        return _is_object(self.expression)

    @property
    def takes_lines_above(self) -> bool:
        """Whether a statement may stand right above, and then names the object that the call is given."""
        return self.always and takes_lines(self.line) and not self.line.startswith("while ") and self.is_object


@lru_cache(maxsize=1024)  # of many variants of one function the lines are the same
def parsed(text: str) -> ast.Module | None:
    """A statement of a trace's, or the head of a block, which is none by itself; None where it is neither."""
    for each in (text, f"{text}{_BODY}"):
        try:
            return ast.parse(each)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def statements(text: str) -> list[ast.stmt]:
    """Those of a text; none where it is no Python."""
    tree = parsed(text)
    return tree.body if tree is not None else []


def expression_in(text: str) -> ast.expr | None:
    """What a text of a trace is, where that is one expression."""
    match statements(text):
        case [ast.Expr(value=value)]:
            return value
    return None


def calls_in(line: str) -> list[ast.Call]:
    """All calls of a line, the outer ones first."""
    return [node for each in statements(line.strip()) for node in ast.walk(each) if isinstance(node, ast.Call)]


def takes_lines(line: str) -> bool:
    """Whether a statement may stand right above a line, or below it, with its indentation."""
    return not line.startswith(_CLAUSES)


def parameters(definition: str) -> list[str] | None:
    """The names of a function's parameters, `self` aside, from the line that defines it; None where it is not whole."""
    tree = parsed(definition.strip())
    node = tree.body[0] if tree is not None and len(tree.body) == 1 else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.args.vararg is not None:
        return None
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def find_call(line: str, name: str, names: Sequence[str], called: Sequence[str]) -> Call | None:
    """The argument `name` of the one call in a line that may be meant: of one to a function `called` so, else the
    only call that hands over as many. `names` are the function's parameters, in their order."""
    line = line.strip()
    tree = parsed(line)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _fits(node, names)] if tree else []
    by_name = [node for node in calls if ast.unparse(node.func).rpartition(".")[2] in called]
    given = [(node, value) for node in by_name or calls if (value := _given(node, name, names)) is not None]
    if tree is None or len(given) != 1:
        return None
    [(node, value)] = given
    return Call(line, ast.unparse(value), node not in _sometimes(tree))


def _sometimes(tree: ast.Module) -> set[ast.AST]:
    """All that is in a comprehension, a lambda, or the body of a block that is in the line with its head."""
    within = [each for each in ast.walk(tree) if isinstance(each, _TURNS)]
    bodies = [each for node in tree.body for each in getattr(node, "body", ())]
    return {each for node in (*within, *bodies) for each in ast.walk(node)}


_TURNS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def is_plain(text: str) -> bool:
    """Whether a text of a trace parses by itself as a name, an attribute, a subscript or a literal, and no more."""
    value = expression_in(text) if text and len(text) <= _MAX_PLAIN_CHARS and "\n" not in text else None
    return value is not None and all(isinstance(node, _PLAIN) for node in ast.walk(value))


_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)


def with_keyword(decorator: str, keyword: str) -> str:
    """A decorator of one line with one more keyword; "" where it is none, or has that keyword."""
    name = keyword.partition("=")[0]
    tree = parsed(f"{decorator}\ndef f(): pass")
    node = tree.body[0] if tree is not None else None
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
        return ""
    made = node.decorator_list[0]
    given_to = [*made.args, *(each.value for each in made.keywords)] if isinstance(made, ast.Call) else []
    if not all(is_plain(ast.unparse(each)) for each in given_to):
        return ""
    if isinstance(made, ast.Call) and _is_object(ast.unparse(made.func)):
        if any(each.arg in (name, None) for each in made.keywords):
            return ""
        given = ", ".join(map(ast.unparse, [*made.args, *made.keywords]))
        return f"@{ast.unparse(made.func)}({', '.join(filter(None, (given, keyword)))})"
    return f"@{ast.unparse(made)}({keyword})" if _is_object(ast.unparse(made)) else ""


def called(line: str) -> str:
    """What a line calls with arguments, where that is one object by its name or attribute; "" of any other line."""
    made = {ast.unparse(node.func) for node in calls_in(line) if node.args}
    objects = [name for name in made if _is_object(name) and not hasattr(builtins, name)]
    return objects[0] if len(objects) == 1 else ""


def makes(line: str) -> str:
    """`jit(grad(loss))` of a line that calls what that returns, `jit(grad(loss))(x)`; "" of any other line."""
    made = [ast.unparse(each.func) for each in calls_in(line) if isinstance(each.func, ast.Call)]
    return made[0] if len(made) == 1 and len(made[0]) <= _MAX_PLAIN_CHARS else ""


_STATE = {"step": "torch.tensor(0.0)"} | dict.fromkeys(
    ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), "torch.zeros_like(p)"
)
"""What Adam makes in its first step."""


def state_made(line: str, keys: str) -> str:
    """What gives the optimizer that a line makes its state; "" where it is none of Adam's. `keys`: "{'step', …}"."""
    target, names = optimizer_made(line), re.findall(r"'(\w+)'", keys)
    if not target or "exp_avg_sq" not in names or not {*names} <= {*_STATE, "step"}:
        return ""
    state = ", ".join(f'"{name}": {made}' for name, made in _STATE.items() if name in {*names, "step"})
    return (
        f"for p in [p for group in {target}.param_groups for p in group['params']]:\n"
        f"    {target}.state[p] = {{{state}}}\ntorch_xla.sync()"
    )


def optimizer_made(line: str) -> str:
    """The variable that a line gives a new optimizer of torch.optim; "" of any other line."""
    match statements(line.strip()):
        case [ast.Assign(targets=[ast.Name() as target], value=ast.Call(func=made))]:
            return target.id if _OPTIM.search(ast.unparse(made)) else ""
    return ""


# PyTorch 2.13: "torch.optim.AdamW"
_OPTIM = expression(r"(?:^|\.)optim\.[A-Z]\w+$|^Adam\w*$")
# coldstep: "lr:text", "body:object"
_CAPTURED = expression(r"([A-Za-z_]\w*):(text|object|id|members)")
_KNOWN = {"text": "repr({})", "object": "{}", "id": "id({})", "members": "*map(id, {})"}


def kept(line: str, function: str, owner: str, known_by: str) -> str:
    """Puts the first function so made, and known by the same, in the place of a new one; "" where the line does not
    name it, or `owner` does not make it. `known_by`: "train(lr:text,body:object)"."""
    tree = parsed(line.strip())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree is not None else set()
    makes, _, rest = known_by.removesuffix(")").partition("(")
    captured = [_CAPTURED.fullmatch(each) for each in rest.split(",")] if rest else []
    if function not in names or makes != owner or not owner.isidentifier() or not all(captured):
        return ""
    key = ", ".join([repr(function), *(_KNOWN[each[2]].format(each[1]) for each in captured if each)])
    return f"{function} = vars({owner}).setdefault(({key},), {function})"


def keyword_of(line: str, name: str) -> str:
    """What the one call of a line that has a keyword is given for it; "" where there is no such call."""
    given = [each.value for call in calls_in(line) for each in call.keywords if each.arg == name]
    return ast.unparse(given[0]) if len(given) == 1 else ""


def method_owner(line: str, methods: Sequence[str]) -> str:
    """`model` of a line that calls one of its methods, `model.fit(…)`; "" where that is no plain object."""
    made = [each.func for each in calls_in(line)]
    owners = {ast.unparse(each.value) for each in made if isinstance(each, ast.Attribute) and each.attr in methods}
    return owner if len(owners) == 1 and _is_object(owner := owners.pop()) else ""


def plain_assignment(line: str) -> str:
    """A line that does nothing but give one object a plain value, `body.trainable = False`; "" of any other."""
    match statements(line.strip()):
        case [ast.Assign(targets=[target], value=value) as assigned]:
            return ast.unparse(assigned) if all(is_plain(ast.unparse(each)) for each in (target, value)) else ""
    return ""


def is_call(line: str, *names: str) -> bool:
    """Whether a line does nothing but call one of these, `debug.print` as `jax.debug.print`."""
    match statements(line.strip()):
        case [ast.Expr(value=ast.Call(func=made))]:
            return any(f".{ast.unparse(made)}".endswith(f".{name}") for name in names)
    return False


def with_argument(line: str, expression: str, method: str) -> str:
    """`out = step(x.detach())` of a line `out = step(x)`; "" of one that is more than such a call."""
    if (call := _only_call(line)) is None:
        return ""
    given = [each for each in (*call.args, *(key.value for key in call.keywords)) if ast.unparse(each) == expression]
    return _replaced(line, given[0], f"{expression}.{method}()") if len(given) == 1 else ""


def with_tensor(line: str, number: str) -> str:
    """`loss = step(x, torch.as_tensor(rate)).sum()` of a line `loss = step(x, rate).sum()`; "" where not just one call
    in it is given that."""
    given = [each for call in calls_in(line) for each in (*call.args, *(key.value for key in call.keywords))]
    of_number = [each for each in given if ast.unparse(each) == number]
    return _replaced(line, of_number[0], f"torch.as_tensor({number})") if len(of_number) == 1 else ""


def with_callee(line: str, attribute: str) -> str:
    """`model._orig_mod(x)` of a line `model(x)`; "" of one that is more than such a call."""
    call = _only_call(line)
    return _replaced(line, call.func, f"{ast.unparse(call.func)}.{attribute}") if call is not None else ""


def put_off(line: str) -> str:
    """`standard_warnings.warn` or `standard.print` of a line that is a call of it which PyTorch can put off; "" of any
    other: what the call makes, a size or the like, it cannot."""
    match statements(line.strip()):
        case [ast.Expr(value=ast.Call(func=made, args=args) as call)]:
            texts = [*args, *(each.value for each in call.keywords)]
            name = {"print": "standard.print", "warnings.warn": "standard_warnings.warn"}.get(ast.unparse(made), "")
            return name if all(isinstance(each, ast.Constant | ast.Name) for each in texts) else ""
    return ""


def assigned_call(line: str, name: str, text: str) -> str:
    """`target = random.uniform(0.0, 1.0)` of a line `target = random.random()`; "" of one that is more than that."""
    match statements(line.strip()):
        case [ast.Assign(targets=[ast.Name()], value=ast.Call(args=[], keywords=[]) as call)]:
            return _replaced(line, call, text) if ast.unparse(call.func) == name else ""
    return ""


def on_no_device(line: str) -> str:
    """A line that is a call of plain arguments below jax.default_device(None); "" of any other."""
    if _only_call(line) is None:
        return ""
    return f"from jax import default_device as on_device\nwith on_device(None):\n    {line.strip()}"


def _only_call(line: str) -> ast.Call | None:
    """The call that is all of a line but names that take its result, where its arguments are plain, too."""
    match statements(line.strip()):
        case [ast.Expr(value=ast.Call() as call)] | [ast.Assign(targets=[ast.Name()], value=ast.Call() as call)]:
            given = [*call.args, *(key.value for key in call.keywords)]
            named = all(key.arg for key in call.keywords)
            return call if named and all(is_plain(ast.unparse(each)) for each in (call.func, *given)) else None
    return None


def _replaced(line: str, node: ast.expr, text: str) -> str:
    """The line with a part of it replaced, and nothing of it kept but its one statement."""
    line = line.strip()
    assert node.end_col_offset is not None
    as_bytes = line.encode()
    made = parsed((as_bytes[: node.col_offset] + text.encode() + as_bytes[node.end_col_offset :]).decode())
    return ast.unparse(made) if made is not None and node.lineno == node.end_lineno == 1 else ""


def _fits(call: ast.Call, names: Sequence[str]) -> bool:
    if isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id):
        return False  # repr(step(x)): what compiles is not that
    starred = any(isinstance(each, ast.Starred) for each in call.args) or any(k.arg is None for k in call.keywords)
    by_keyword = {keyword.arg for keyword in call.keywords}
    return not starred and len(call.args) + len(call.keywords) <= len(names) and by_keyword <= {*names}


def _given(call: ast.Call, name: str, names: Sequence[str]) -> ast.expr | None:
    given = dict[str | None, ast.expr](zip(names, call.args, strict=False))
    return (given | {each.arg: each.value for each in call.keywords}).get(name)


def _is_object(expression: str) -> bool:
    """Whether an expression gives the same object each time: a name, an attribute, an entry by its key."""
    value = expression_in(expression)
    return value is not None and all(map(_stays, _nodes(value)))


def _nodes(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    if isinstance(node, ast.Attribute | ast.Subscript):
        yield from _nodes(node.value)


def _stays(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    return isinstance(node, ast.Name | ast.Attribute)
