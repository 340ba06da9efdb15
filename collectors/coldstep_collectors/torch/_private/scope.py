"""Where a guard looks: the values behind the expressions in its words (`coldstep.analysis.rules.dynamo` reads what
the words mean)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import partial
from types import CellType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep_collectors.torch._private.frames import CompilingFrame


@slotted
class Place:
    """A value that a guard looks at, live: for use inside the hook only."""

    value: Any
    argument: str
    """Its path as the user wrote it."""
    kind: str
    """argument | attribute | global | closure | call | optimizer | optimizer_state | gradient"""


# PyTorch 2.9, 2.13: "tensor 'x' size mismatch at index 0. expected 4, actual 5"
_NAME = expression(r"[A-Za-z_]\w*")
# PyTorch 2.9, 2.13: "L['self'].training"
_ATTRIBUTE = expression(r"[A-Za-z_]\w*+(?!\()")  # and no method that is called
# PyTorch 2.9, 2.13: "___stack0"
_STACK_SLOT = expression(r"___stack(\d+)")
# PyTorch 2.9, 2.13: "__import_torch_dot_nn_dot_modules_dot_module"
_IMPORTED = expression(r"__import_(.+)")
# PyTorch 2.9, 2.13: "0/0: not ___dict_contains('scale', self.__dict__)"
_ABSENT = expression(r"\S+ not ___dict_contains\('(\w+)', (.+)\.__dict__\)")
# PyTorch 2.9, 2.13: "0/0: not hasattr(self, 'scale')"
_UNSET = expression(r"\S+ not hasattr\((.+), '(\w+)'\)")
# PyTorch 2.8, 2.9: "0/0: ___check_type_id(self._modules['layer'], 93856209854048)"
# PyTorch 2.6: "0/0: ___check_obj_id(L['self'].training, 9466848)"
_BY_ADDRESS = expression(r"\d+: ___check_(?P<what>type|obj)_id\((?P<path>.+?), (?P<id>\d+)\)(?!, type=)")
_OF_OPTIMIZERS = {"param_groups": "optimizer", "state": "optimizer_state"}
_HELD_BY_MODULES = ("_modules", "_parameters", "_buffers")
_HELD_BY_FUNCTIONS = ("__closure__", "__code__", "__defaults__", "__kwdefaults__")
_HELD = (FunctionType, _HELD_BY_FUNCTIONS), ((slice, range), ("start", "stop", "step"))
"""What objects of Python's own hold, which is theirs."""


def looked_at(reason: str) -> Iterator[str]:
    """The expressions in a guard's words that may lead to a value, the longest ones."""
    words = reason.partition("\nUser stack trace:")[0].partition("  # ")[0]
    at = 0
    while match := _NAME.search(words, at):
        end = match.end()
        while end < len(words):
            if words[end] == "." and (attribute := _ATTRIBUTE.match(words, end + 1)):
                end = attribute.end()
            elif words[end] == "[" and (closed := _closing(words, end)):
                end = closed
            else:
                break
        path = words[match.start() : end]
        for own in _HELD_BY_FUNCTIONS:  # the function itself is what differs
            path = path.removesuffix(f".{own}")
        yield path
        at = end
    if absent := _ABSENT.match(words):
        yield f"{absent[2]}.{absent[1]}"
    elif unset := _UNSET.match(words):
        yield f"{unset[1]}.{unset[2]}"


def by_address(reason: str, types: Mapping[int, str]) -> tuple[str, dict[str, str]] | None:
    """The expression that a guard names by an address alone (before PyTorch 2.13), and the object there: its `type`,
    or what it `was`, where that is a constant of Python's own; None of any other. The address is of the class, or of
    the value: for these `types` gives the class."""
    if (match := _BY_ADDRESS.search(reason)) is None:
        return None
    if match["what"] == "obj":
        was = next((repr(each) for each in (None, True, False) if id(each) == int(match["id"])), None)
        if was is not None:
            return match["path"], {"was": was}
        of = types.get(int(match["id"]))
        return (match["path"], {"type": of}) if of is not None else None
    left: list[type] = [object]
    seen = set(left)
    while left:
        kind = left.pop()
        if id(kind) == int(match["id"]):
            return match["path"], {"type": name_of(kind)}
        below: set[type] = set(type.__subclasses__(kind)) - seen
        seen |= below
        left += below
    return None


def name_of(kind: type) -> str:
    """A class's name with its module, as a guard writes it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _closing(words: str, at: int) -> int | None:
    """The position after the bracket that closes the one at `at`."""
    depth, quote = 0, ""
    for position in range(at, len(words)):
        letter = words[position]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if not depth:
                return position + 1
    return None


def _names(kind: type) -> tuple[str, ...]:
    """What a named tuple's class calls its elements."""
    own = next((vars(base)["_fields"] for base in kind.__mro__ if "_fields" in vars(base)), ())
    return own if isinstance(own, tuple) else ()


class Scope:
    """What a frame's guards can see. Follows a path by names, own attributes, keys and positions: no user code runs."""

    def __init__(self, torch: Any, frame: CompilingFrame, parameters: tuple[str, ...]) -> None:
        self._torch, self._frame, self._parameters = torch, frame, parameters

    def find(self, path: str) -> Place | None:
        """The value at `path`, in PyTorch's words; None where there is none, or no way without running code."""
        try:
            return self._find(ast.parse(path, mode="eval").body)
        except (SyntaxError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
            return None

    def _find(self, node: ast.expr) -> Place | None:
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            holder = self._find(node.value)
            return self._attribute(holder, node.attr) if holder is not None else None
        if not isinstance(node, ast.Subscript):
            return None
        if isinstance(node.value, ast.Name) and node.value.id in ("G", "L") and isinstance(node.slice, ast.Constant):
            name = str(node.slice.value)
            return self._global(name) if node.value.id == "G" else self._name(name)
        if isinstance(node.value, ast.Attribute) and isinstance(node.slice, ast.Constant):
            holder = self._find(node.value.value)
            if holder is not None and (held := self._held(holder, node.value.attr, node.slice.value)) is not None:
                return held
        holder = self._find(node.value)
        return self._item(holder, node.slice) if holder is not None else None

    def _name(self, name: str) -> Place | None:
        frame = self._frame
        if name not in frame.values:
            return None
        value = frame.values[name]
        if frame.wrapped is not None and name in ("fn", "args", "kwargs"):
            return Place(value, "self" if name == "fn" else name, "argument" if name == "fn" else "call")
        if name in frame.code.co_freevars:
            return Place(value, name, "closure")
        if self._is_optimizer(value) and name == "self":
            return Place(value, "optimizer", "argument")
        slot = _STACK_SLOT.fullmatch(name)
        rest = frame.code.co_flags & 8 and name == rest_names(frame.code)[-1]
        return Place(value, f"<intermediate {slot[1]}>" if slot else name, "call" if rest else "argument")

    def _global(self, name: str) -> Place:
        module = _IMPORTED.fullmatch(name)
        return Place(self._frame.globals[name], module[1].replace("_dot_", ".") if module else name, "global")

    def _attribute(self, holder: Place, name: str) -> Place | None:
        value = holder.value
        path = f"{holder.argument}.{name}"
        if isinstance(value, ModuleType):
            return Place(vars(value)[name], name, "global")
        if type(value) is CellType and name == "cell_contents":
            return Place(value.cell_contents, holder.argument, "closure")
        if any(isinstance(value, kinds) and name in held for kinds, held in _HELD):
            return Place(getattr(value, name), path, holder.kind)
        if isinstance(value, partial) and name in ("args", "keywords", "func"):
            return Place(getattr(value, name), path, "closure")
        if type(value) in (self._torch.Tensor, self._torch.nn.Parameter) and name == "grad":
            return Place(value.grad, path, "gradient")
        kind = "attribute" if holder.kind in ("argument", "global", "closure") else holder.kind
        kind = _OF_OPTIMIZERS.get(name, kind) if self._is_optimizer(value) else kind
        if isinstance(value, tuple) and name in (names := _names(type(value))):
            return Place(tuple.__getitem__(value, names.index(name)), path, kind)
        own = object.__getattribute__(value, "__dict__")
        if name in own:
            return Place(own[name], path, kind)
        holders = _HELD_BY_MODULES if isinstance(value, self._torch.nn.Module) else ()
        if (held := next((own[each] for each in holders if name in own[each]), None)) is not None:
            return Place(held[name], path, kind)
        for base in type(value).__mro__:
            if name in vars(base):
                if isinstance(attribute := vars(base)[name], MemberDescriptorType):
                    attribute = attribute.__get__(value)
                return None if hasattr(type(attribute), "__get__") else Place(attribute, path, kind)
        return None

    def _held(self, holder: Place, held: str, key: Any) -> Place | None:
        """What a module or a function holds under a name of its own."""
        value = holder.value
        if isinstance(value, self._torch.nn.Module) and held in _HELD_BY_MODULES:
            path = f"{holder.argument}[{key}]" if str(key).isdigit() else f"{holder.argument}.{key}"
            return Place(object.__getattribute__(value, "__dict__")[held][key], path, "attribute")
        if isinstance(value, FunctionType) and held == "__closure__" and value.__closure__:
            return Place(value.__closure__[key], value.__code__.co_freevars[key], "closure")
        if isinstance(value, FunctionType) and held == "__defaults__" and value.__defaults__:
            code = value.__code__
            name = code.co_varnames[code.co_argcount - len(value.__defaults__) + key]
            return Place(value.__defaults__[key], name, "closure")
        if isinstance(value, partial) and held == "keywords":
            return Place(value.keywords[key], str(key), "closure")
        return None

    def _item(self, holder: Place, index: ast.expr) -> Place | None:
        value: Any = holder.value
        if not isinstance(index, ast.Constant):
            return self._nth(holder, index)
        key: Any = index.value
        path, kind = f"{holder.argument}[{key!r}]", holder.kind
        if kind == "call":
            path, kind = str(key), "argument"
            if isinstance(value, tuple):
                path = parameter(self._parameters, key)
        base: Any = next((base for base in (dict, list, tuple) if isinstance(value, base)), None)
        if base is None:
            return None
        item = base.__getitem__(value, key)
        return Place(item, "optimizer" if kind == "argument" and self._is_optimizer(item) else path, kind)

    def _nth(self, holder: Place, index: ast.expr) -> Place | None:
        """The value of a dict's n-th key: `x[list(dict.keys(x))[0]]`."""
        if not isinstance(index, ast.Subscript) or not isinstance(index.slice, ast.Constant):
            return None
        if "keys(" not in ast.unparse(index.value) or not isinstance(holder.value, dict):
            return None
        path = holder.argument if holder.kind == "optimizer_state" else f"{holder.argument}[…]"
        position: Any = index.slice.value
        return Place(list(dict.values(holder.value))[position], path, holder.kind)

    def _is_optimizer(self, value: Any) -> bool:
        return isinstance(value, self._torch.optim.Optimizer)


def parameter(names: tuple[str, ...], position: int) -> str:
    """The name of what a wrapper's `args` hold at a position."""
    return names[position] if position < len(names) else f"args[{position}]"


def rest_names(code: CodeType) -> list[str]:
    """The names of `*args` and `**kwargs`."""
    first = code.co_argcount + code.co_kwonlyargcount
    return list(code.co_varnames[first : first + bool(code.co_flags & 4) + bool(code.co_flags & 8)])
