"""Makes every call of a named function a step (`coldstep run --step module:function`). Standard library only.

A function or method of an imported module is wrapped as the module's import ends, one of the script itself behind the
last statement that binds its name: what a compiler is given before that is the function as the user wrote it. So is
what it is given later: then the calls of what it returns are the steps.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any

from coldstep.marks import step
from coldstep.vocabulary import STACKS


@dataclass(slots=True)
class _Asked:
    """A function asked for: what it was wrapped in, once it was, or why it cannot be."""

    path: str
    marked: Any = None
    function: Any = None
    """As the user wrote it."""
    put: Callable[[Any], object] | None = None
    """Puts something in its place."""
    refused: str = ""


COMPILERS = {stack.packages[0]: stack.compiler for stack in STACKS if stack.compiler}
"""What compiles a function that it is given, by the module that has it."""
_asked: dict[str, dict[str, _Asked]] = {}
"""By module and name; a method's name has its class before it."""


def want(module: str, function: str) -> None:
    """Ask that `function` of `module`, or a method ("Class.method"), become a step."""
    _asked.setdefault(module, {})[function] = _Asked(function)


def wanted(module: str) -> list[str]:
    """The names at the top of `module` behind which `mark` must be called."""
    return list(dict.fromkeys(path.partition(".")[0] for path in _asked.get(module, ())))


def unrecorded(names: set[str]) -> Iterator[str]:
    """A line for every function asked for that is not among the `names` of the steps recorded, saying why."""
    for module, functions in _asked.items():
        for name, asked in functions.items():
            if asked.refused:
                why = asked.refused
            elif name in names:
                continue
            elif asked.marked is not None:
                why = "it was not called, or only inside compiled code"
            elif module in sys.modules:
                why = f"{module} has no such function"
            else:
                why = f"{module} was not imported (a function of the script itself is __main__:{name})"
            yield f"no step was recorded for --step {module}:{name}: {why}"


def mark(namespace: dict[str, Any]) -> None:
    """Wrap the wanted functions of the module whose globals these are."""
    for path, asked in _asked.get(namespace["__name__"], {}).items():
        *classes, name = path.split(".")
        value, put = namespace.get(name), partial(namespace.__setitem__, name)
        if classes:
            owner = namespace.get(classes[0])
            for inner in classes[1:]:
                owner = getattr(owner, inner, None)
            if not isinstance(owner, type):
                continue
            value = next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)
            put = partial(setattr, owner, name)
        kind = type(value) if isinstance(value, (staticmethod, classmethod)) else None
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not callable(function) or isinstance(function, type) or function is asked.marked:
            continue
        asked.refused = _refusal(function, name)
        if not asked.refused:
            asked.marked, asked.function, asked.put = _marked(function, path), function, put
            try:
                put(kind(asked.marked) if kind else asked.marked)
            except TypeError as error:  # a class written in C
                asked.refused = str(error)


def watch_compiler(module: Any) -> None:
    """Have a framework's compiler given what the user wrote, and the calls of what it returns be the steps."""
    name = COMPILERS[module.__name__]
    compiler = getattr(module, name, None)
    if not isinstance(compiler, FunctionType):
        return

    @wraps(compiler)
    def compiling(*args: Any, **kwargs: Any) -> Any:
        asked, given = _as_written(args[0]) if args else (None, None)
        if asked is None:
            return compiler(*args, **kwargs)
        compiled = compiler(given, *args[1:], **kwargs)
        own = vars(compiled) if hasattr(compiled, "__dict__") else {}
        if isinstance(own.get("forward"), FunctionType):  # of a module that PyTorch has wrapped: its class stays
            own["forward"] = _marked(own["forward"], asked.path)
            return compiled
        return _marked(compiled, asked.path)

    setattr(module, name, compiling)


def _as_written(given: Any) -> tuple[_Asked | None, Any]:
    """Of a function, method or module that is marked: what was asked for, and the same without our wrapper."""
    for asked in (each for functions in _asked.values() for each in functions.values() if each.marked is not None):
        owner = getattr(given, "__self__", None)
        both = asked.marked, asked.function
        if any(given is each for each in both):
            return asked, asked.function
        if isinstance(given, MethodType) and given.__func__ in both:
            return asked, MethodType(asked.function, owner)
        for module in (given, owner):
            if asked.put is not None and getattr(type(module), "forward", None) in both:
                asked.put(asked.function)
                return asked, given
    return None, given


def _refusal(function: Callable[..., Any], name: str) -> str:
    """Why calls of `function` cannot be steps: those that only make an object return before any work is done."""
    kinds = {
        "a coroutine function": inspect.iscoroutinefunction,
        "a generator function": inspect.isgeneratorfunction,
        "an asynchronous generator function": inspect.isasyncgenfunction,
    }
    kind = next((words for words, applies in kinds.items() if applies(function)), None)
    return f"{name} is {kind}, its calls are not its work" if kind else ""


def compile_marked(source: bytes | str, file: str, names: list[str]) -> Any:
    """The code of a script with `mark(globals())` behind the last binding of each of `names`; no line moves."""
    tree = ast.parse(source, file)
    for name in names:
        _insert(tree.body, name)
    return compile(tree, file, "exec", dont_inherit=True)


def _marked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    if not isinstance(function, FunctionType):
        return _Callable(function, name)

    @wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with step(name):
            return function(*args, **kwargs)

    return marked


class _Callable:
    """A callable that is no plain function (a jitted one has methods of its own), each call of which is a step; in all
    else it is what it stands in for."""

    __slots__ = ("__weakref__", "_coldstep")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        object.__setattr__(self, "_coldstep", (function, name))

    __class__: Any = property(lambda self: type(self._coldstep[0]))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, name = self._coldstep
        with step(name):
            return function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        function, name = self._coldstep
        bind = getattr(type(function), "__get__", None)
        return self if instance is None or bind is None else _Callable(bind(function, instance, owner), name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coldstep[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._coldstep[0], name, value)


def _insert(body: list[ast.stmt], name: str) -> None:
    """Put the call behind the last statement of `body` that binds `name`, and behind the last one inside that."""
    last = max((index for index, statement in enumerate(body) if _binds(statement, name)), default=None)
    if last is None:
        return
    statement = body[last]
    call = ast.parse("__import__('coldstep_viewers.marking', fromlist=['mark']).mark(globals())").body[0]
    for node in ast.walk(call):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = statement.end_lineno or statement.lineno
            node.col_offset = node.end_col_offset = 0
    body.insert(last + 1, call)
    for inner in _bodies(statement):
        _insert(inner, name)


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether running `statement` at the top of a module may bind `name`."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return statement.name == name
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name.partition(".")[0]) in (name, "*") for alias in statement.names)
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(isinstance(node, ast.Name) and node.id == name for target in targets for node in ast.walk(target))
    return any(_binds(inner, name) for body in _bodies(statement) for inner in body)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside a compound statement that run in the module's own scope."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return
    for field in ("body", "orelse", "finalbody"):
        if block := getattr(statement, field, None):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
