"""Reads Dynamo's words on a guard that failed: which value of which argument, and by what mechanism it differed.

Where such a guard looks is found while it compiles, by `looked_at` of the collectors' `_private/torch/scope.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coldstep._util import python_text
from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.analysis.remedies.row import Row
from coldstep.signature import Change, Signature, differences

if TYPE_CHECKING:
    from coldstep.model import Recompile

PAD = ("import torch", "torch.nn.functional.pad(x, (0, 0) * (x.ndim - {n}) + (0, more))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

Guarded = Mapping[str, Mapping[str, str]]
"""What the collector found where a guard looks, by PyTorch's expression for the place: `argument` (the path as the
user wrote it), `place` (a key of `_BY_PLACE`), `value` (the value there now), `type` and `was` (the class and the
constant that were there, where PyTorch prints an address only); for a log only `value`. By a whole line that explains
nothing: `before` and `value`, the backends of the two compiles."""

# PyTorch 2.9, 2.13: "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5"
_COMPILE_ID = expression(r"\[?!?\d+(?:/\d+)*(?:_\d+)?\]?: ")
_HINT = " (HINT: "
"""Of PyTorch 2.13: "___check_type_id(n, 1399417), type=<class 'float'> (HINT: type float)"."""
# PyTorch 2.9, 2.13: "tensor 'x' size mismatch at index 0. expected 4, actual 5"
# PyTorch 2.0: "tensor 'x' strides mismatch at index 0. expected 562500, actual 2447991"
# PyTorch 2.9, 2.13: "tensor 'x' requires_grad mismatch. expected requires_grad=0"
# PyTorch 2.9, 2.13: "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect), actual
# DispatchKeySet(Meta)"
_TENSOR = expression(
    r"tensor '(?P<path>.+?)' (?P<what>size|rank|dtype|stride|requires_grad|dispatch key set)s? mismatch"
    r"(?: at index (?P<index>\d+))?\.?(?: expected (?P<expected>DispatchKeySet\(.*?\)|[^,.\s]+))?"
    r"(?:, actual (?P<actual>DispatchKeySet\(.*?\)|[^,.\s]+))?"
)
# PyTorch 2.9, 2.13: "tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1"
_DEVICE = expression(r"tensor '(?P<path>.+?)' Tensor device index mismatch")
# PyTorch 2.9, 2.13: "expected type of 'self._modules['lin']._parameters['bias']' to be a tensor type, ' but found
# <class 'NoneType'>"
# PyTorch 2.15: "expected type of 'x' to be <class 'torch.Tensor'>, but found <class 'torch.nn.parameter.Parameter'>"
_NO_TENSOR = expression(
    r"expected type of '(?P<path>.+)' to be (?:a tensor type, '? ?|<class '(?P<expected>.+?)'>, )"
    r"but found <class '(?P<found>.+?)'>"
)
# PyTorch 2.9, 2.13: "Duplicate tensors found: ["x", "y"]"
_DUPLICATES = expression(r"Duplicate tensors? found: \[(?P<names>\".+\", \".+\")\]")
# PyTorch 2.13: "___check_type_id(fn, 94749375975984), type=<class 'functools.partial'>"
# PyTorch 2.8, 2.9: "___check_type_id(self._modules['layer'], 93856209854048)"
_CLASS = expression(r"___check_type_id\((?P<path>.+), \d+\)(?:, type=<(?:class|enum) '(?P<type>.+?)'>)?")
# PyTorch 2.13: "___check_obj_id(fn.__code__, 140472214586016), type=<class 'code'>"
# PyTorch 2.8, 2.9: "___check_obj_id(fn.__code__, 139947440603808)"
_OBJECT = expression(r"___check_obj_id\((?P<path>.+), \d+\)(?:, type=<(?:class|enum) '(?P<type>.+?)'>)?")
# PyTorch 2.9, 2.13: "CodeGuardAccessor: Not a function on fn.__code__"
_NO_FUNCTION = expression(r"\w+Accessor: Not a function on (?P<path>.+)\.__\w+__")
# PyTorch 2.9, 2.13: "Cache line invalidated because L['self'] got deallocated"
_FREED = expression(r"Cache line invalidated because (?P<path>.+) got deallocated")
# PyTorch 2.9, 2.13: "KeyError on batch['mask']"
_NO_KEY = expression(r"(?:KeyError|IndexError) on (?P<path>.+\[.+\])")
# PyTorch 2.13: "BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend:
# _TorchCompileWrapper(compiler='eager', dynamic=None) (id=0x7f46). New backend:
# _TorchCompileWrapper(compiler='mine', dynamic=None) (id=0x7f47). If this is unexpected, wrap your backend"
_BACKEND = expression(
    r"BACKEND_MATCH failure: .*?Cached backend: (?P<old>.+?)\. New backend: (?P<new>.+?)\. If ", re.DOTALL
)
# PyTorch 2.13: "_TorchCompileWrapper(compiler='eager', dynamic=None) (id=0x7fc2167093d0)"
_COMPILER = expression(r"compiler='(?P<name>[^']*)', dynamic=(?P<dynamic>\w+)")
_FREED_OBJECT = "an object that was freed"
# PyTorch 2.1: "not ___is_grad_enabled()"
_GRAD_MODE = expression(r"(?P<off>not )?___is_grad_enabled\(\)$")
_STATES = "GLOBAL_STATE changed: "
_TF32 = "cuda_matmul_precision"  # so PyTorch 2.15 names what allow_tf32 sets, too
_TORCH_FUNCTION_MODES = "___check_torch_function_mode_stack()"
# coldstep: "f32[8,4]"
_ARRAY = expression(r"\w+\[")
# coldstep: "inference(x)"
_INFERENCE = expression(r"inference\((.+)\)")
# PyTorch 2.8, 2.9: "hasattr(x, '_dynamo_dynamic_indices') == False"
_UNMARKED = expression(r"hasattr\(.+, '_dynamo_(?:weak_)?dynamic_indices'\) == False")
_MARKED = "_has_dynamo_dim_marking is present"
_PLACEMENTS = "__dtensor_spec_"
_MAX_ASKED = 60  # characters of what was asked of a size
# PyTorch 2.11: "___as_tensor(self.param_groups[0]['lr']).item() == 0.0009"
_NUMBER_AS_TENSOR = expression(r"___as_tensor\(([^()]+)\)\.item\(\)")
# PyTorch 2.11: "(((-1) + min(1024, x.size()[0])) // 2)"
_SIZED = expression(r"(?<![\w.\[\]'])([\w.\[\]']+)\.size\(\)\[\d")

_OF_TENSOR = {"size": "shape", "rank": "shape", "dtype": "dtype", "stride": "layout", "requires_grad": "requires_grad"}
_RELATIONS = (("stride", "layout", "shape"), ("storage_offset", "layout", "shape"), ("size", "shape", "layout"))
"""By the method of tensors that a relation asks, in the order in which they decide: its mechanism, and a further one
under which signatures may list the same."""
_BY_PLACE = {
    "argument": "python_scalar",
    "optimizer": "python_scalar",
    "attribute": "module_attribute",
    "global": "global",
    "closure": "closure",
    "call": "keyword",
    "gradient": "gradient_state",
    "optimizer_state": "optimizer_state",
}
"""The mechanism of a constant that differs, by where it was found."""
_PLAIN = ("int", "float", "bool", "str", "complex", "bytes")
_CONSTANTS = ("python_scalar", "closure", "global", "module_attribute")
_DTYPES = {
    "Float": "f32",
    "Double": "f64",
    "Half": "f16",
    "BFloat16": "bf16",
    "Long": "i64",
    "Int": "i32",
    "Short": "i16",
    "Char": "i8",
    "Byte": "u8",
    "Bool": "bool",
    "ComplexFloat": "c64",
    "ComplexDouble": "c128",
}


_DEVICES = {"CPU", "CUDA", "Meta", "XLA", "MPS", "XPU", "HPU", "PrivateUse1"}


@slotted
class Guard:
    """A failed guard, as far as it could be read."""

    text: str
    mechanism: str | None = None
    argument: str | None = None
    before: str | None = None
    after: str | None = None
    alike: tuple[str, ...] = ()
    """Further mechanisms under which two signatures may list the same difference."""
    others: tuple[str, ...] = ()
    """Further arguments that it may be about."""

    def speaks_of(self, change: Change) -> bool:
        """Whether the guard is about this difference of two signatures."""
        if self.mechanism is None or change.mechanism not in (self.mechanism, *self.alike):
            return False
        if change.argument is None or (self.argument is None and change.mechanism != "config"):  # a setting has a name
            return True
        return change.argument.partition("(")[0] in (self.argument, *self.others) or change.argument == self.argument

    def change(self) -> Change | None:
        """The difference as the guard alone shows it, where it is in no signature."""
        if self.mechanism is None:
            return None
        return Change(self.argument, self.mechanism, self.before, self.after)


def refine(changes: list[Change]) -> list[Change]:
    """The differences of two signatures, in the words for PyTorch: lists and dicts are containers, and a captured
    tensor differs by a property of its own."""
    refined = [refined for change in changes for refined in _refined(change)]
    if any(change.mechanism == "grad_mode" and change.argument is None for change in refined):
        # what is made in another mode follows it
        refined = [change for change in refined if change.mechanism != "grad_mode" or change.argument is None]
    return refined


def _refined(change: Change) -> Iterator[Change]:
    was, now = change.before or "", change.after or ""
    if change.mechanism == "pytree":
        same = "container" if _container(was) else "unknown"
        yield replace(change, mechanism=same if _container(was) == _container(now) else "type")
    elif change.mechanism == "config" and (match := _INFERENCE.fullmatch(change.argument or "")):
        yield replace(change, mechanism="grad_mode", argument=match[1])
    elif change.mechanism == "sharding" and not any("/mesh(" in text for text in (was, now)):
        yield replace(change, mechanism="device")
    elif change.mechanism == "unknown" and change.before and change.after:
        yield replace(change, mechanism=_of_objects(was, now))
    elif change.mechanism == "closure" and not (_is_constant_text(was) and _is_constant_text(now)):
        if any(text == "None" or _ARRAY.match(text) for text in (was, now)):
            name = change.argument or ""
            yield from differences(Signature({name: was}), Signature({name: now}))
        elif _container(was) and _container(now):
            yield replace(change, mechanism="container" if _container(was) == _container(now) else "type")
        else:
            yield replace(change, mechanism="identity")
    else:
        yield change


def _of_objects(was: str, now: str) -> str:
    """The mechanism by which two values differ that have no abstract value: by their type, but for members of one."""
    if all(text.startswith("torch.") for text in (was, now)):
        return "python_scalar"
    if all(re.match(r"<\w+ ", text) for text in (was, now)):
        return "identity"
    if not all(re.fullmatch(r"[A-Za-z_][\w.<>]*", text) for text in (was, now)):
        return "unknown"
    return "identity" if "." in was and was.rpartition(".")[0] == now.rpartition(".")[0] else "type"


def _is_constant_text(text: str) -> bool:
    """Whether a text is a number, a bool or a string as the graph holds it."""
    if text.startswith("torch."):
        return True
    try:
        return isinstance(python_text.literal(text), (int, float, complex, str, bytes))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text in ("nan", "inf", "-inf") or text[:1] in "\"'"  # a long one was cut


def _container(text: str) -> str | None:
    """What kind of container a text describes: "list of 2", "{'a', 'b'}", "()"."""
    kinds = {"[": "list", "(": "tuple", "{": "dict"}
    match = re.match(r"(\w+)(?: of \d+$|\(\)$)", text)
    return kinds.get(text[:1]) or (match[1] if match else None)


# --- reading --------------------------------------------------------------------------------------------------


def read(text: str, guarded: Guarded | None = None) -> Guard:
    """The guard in a line such as "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5"."""
    words = _COMPILE_ID.sub("", text, count=1) if _COMPILE_ID.match(text) else text
    head = words.partition("\nUser stack trace:")[0].partition("  # ")[0].strip()
    head = _NUMBER_AS_TENSOR.sub(r"\1", head.partition(_HINT)[0].rstrip() if head.endswith(")") else head)
    if "before" in (backends := (guarded or {}).get(text, {})) and not _BACKEND.match(head):
        return _backend(words, backends["before"], backends["value"])
    return _Reader(words, head, guarded or {}).guard()


def asked_of_a_size(row: Recompile) -> str:
    """What the earlier variant had asked of a size that it leaves open, `x.size()[0] <= 100`, and holds no more; empty
    where the sizes themselves differed, or two of them were taken for one."""
    guard = read(row.evidence[0]) if row.evidence else Guard("")
    head = _COMPILE_ID.sub("", guard.text, count=1).partition("  # ")[0].strip()
    return head if guard.mechanism == "shape" and not guard.others and _SIZED.search(head) else ""


def names(row: Recompile, _: object) -> dict[str, str]:
    """What the rows are filled in with, beside what every stack's are."""
    asked = asked_of_a_size(row)
    return {"asked": f", {asked}" if 0 < len(asked) <= _MAX_ASKED else ""}


@slotted
class _Looked:
    """Where a guard looks."""

    path: str
    argument: str
    kind: str
    value: str | None


class _Reader:
    """Takes one guard's words apart."""

    def __init__(self, words: str, head: str, guarded: Guarded) -> None:
        self._words = words
        self._head = head
        self._guarded = guarded

    def guard(self) -> Guard:
        """The meaning of the words; with no mechanism where they are not known."""
        return self._in_prose() or self._in_code() or Guard(self._words)

    def _make(self, mechanism: str | None, place: _Looked | None = None, **more: object) -> Guard:
        guard = Guard(self._words, mechanism, place.argument if place else None)
        return replace(guard, **more)  # type: ignore[arg-type]

    def _place(self, path: str) -> _Looked:
        looked = self._guarded.get(path)
        if looked is not None and "argument" in looked and looked.get("place") in _BY_PLACE:
            return _Looked(path, looked["argument"], looked["place"], looked.get("value"))
        return _Looked(path, *_told_by(path, self._words), looked.get("value") if looked is not None else None)

    # --- sentences --------------------------------------------------------------------------------------------

    def _in_prose(self) -> Guard | None:
        head = self._head
        if match := _TENSOR.match(head):
            return self._tensor(match)
        if match := _DEVICE.match(head):
            return self._make("device", self._place(match["path"]))
        if match := _NO_TENSOR.match(head):
            return self._no_tensor(match)
        if match := _DUPLICATES.match(head):
            names = [self._place(name.strip("\"' ")).argument for name in match["names"].split(",")]
            return self._aliasing(names[-1], names[0], before="another tensor than", after="the same tensor as")
        if head.startswith(_STATES):
            return self._state(head.removeprefix(_STATES).split())
        if match := _GRAD_MODE.match(head):
            before, after = ("off", "on") if match["off"] else ("on", "off")
            return self._make("grad_mode", before=before, after=after)
        if head.startswith(_TORCH_FUNCTION_MODES):
            return self._make("config", argument="torch_function_modes")
        if head.startswith(_MARKED) or _UNMARKED.match(head):
            return self._make("config", argument="mark_dynamic")
        if head.startswith(_PLACEMENTS):
            return self._make("sharding")
        if match := _BACKEND.match(head):
            return _backend(self._words, match["old"], match["new"])
        if match := _CLASS.match(head):
            return self._class(match)
        if match := _OBJECT.match(head):
            return self._object(match)
        if match := _NO_FUNCTION.match(head):
            return self._other_object(self._place(match["path"]), "function")
        if match := _FREED.match(head):
            return self._other_object(self._place(match["path"]), _FREED_OBJECT)
        if match := _NO_KEY.match(head):
            return self._no_key(match["path"])
        return None

    def _tensor(self, match: re.Match[str]) -> Guard:
        path = match["path"]
        place = self._place(re.sub(r"^___from_numpy\((.+)\)$", r"\1", path))
        what, expected, actual = match["what"], match["expected"], match["actual"] or ""
        if what == "dispatch key set":
            return self._keys(place, expected or "", actual)
        mechanism = _OF_TENSOR[what]
        if expected is None:
            return self._make(mechanism, place)
        if what == "requires_grad":
            words = ["requires_grad", "no requires_grad"]
            before, after = words if expected.endswith("1") else reversed(words)
        elif what == "dtype":
            before, after = _DTYPES.get(expected, expected), _DTYPES.get(actual, actual)
        elif what == "size":
            before, after = _sizes(int(match["index"] or 0), expected, actual, place.value)
        else:
            where = f" at dimension {match['index']}" if match["index"] else ""
            before, after = f"{what} {expected}{where}", f"{what} {actual}{where}"
        return self._make(mechanism, place, before=before, after=after)

    def _keys(self, place: _Looked, expected: str, actual: str) -> Guard:
        """Dispatch keys: their differences tell inference mode, a device, a sparse layout."""
        old, new = (set(re.findall(r"\w+", text.partition("(")[2])) for text in (expected, actual))
        kinds = old ^ new
        if kinds and all(key.startswith("Autograd") or key == "ADInplaceOrView" for key in kinds):
            before, after = (
                "on" if any(k.startswith("Autograd") for k in keys) else "inference" for keys in (old, new)
            )
            return self._make("grad_mode", before=before, after=after)
        if kinds and all(key.startswith("Autocast") for key in kinds):
            return self._make("autocast")
        if any(key.startswith("Sparse") for key in kinds):
            return self._make("layout", place, alike=("device",))
        kinds = {key.removeprefix("Autograd") for key in kinds}
        return self._make("device", place) if kinds and kinds <= _DEVICES else self._make(None)

    def _no_tensor(self, match: re.Match[str]) -> Guard:
        place, type_ = self._place(match["path"]), match["found"].rpartition(".")[2]
        after = "None" if type_ == "NoneType" else type_
        if place.value and not _ARRAY.match(place.value):
            after = place.value
        mechanism = "gradient_state" if place.kind == "gradient" else "type"
        before = (match["expected"] or "Tensor").rpartition(".")[2]
        return self._make(mechanism, place, before=before, after=after, alike=("container",))

    def _aliasing(self, one: str, other: str, *, before: str, after: str) -> Guard:
        return self._make("aliasing", argument=one, before=f"{before} {other}", after=f"{after} {other}")

    def _state(self, names: list[str]) -> Guard:
        """Modes and settings of the framework, as many as differ."""
        names = ["allow_tf32" if name == _TF32 else name for name in names]
        states = [(mechanism, name) for name in names if (mechanism := _state_of(name)) is not None]
        if not states:
            return self._make(None)
        (mechanism, name), *more = states
        alike = tuple(other for other, _ in more)
        others = tuple(name for other, name in states if other == "config")
        return self._make(mechanism, argument=name if mechanism == "config" else None, alike=alike, others=others)

    def _class(self, match: re.Match[str]) -> Guard:
        place = self._place(match["path"])
        name = match["type"] or self._guarded.get(match["path"], {}).get("type", "")
        was, now = name.rpartition(".")[2] or None, place.value
        if place.kind in ("attribute", "global", "closure") and (was or now) and now != "None":
            is_plain = was in _PLAIN if was else _is_constant_text(now or "")
            mechanism = _BY_PLACE[place.kind] if is_plain else "identity"
            return self._make(mechanism, place, before=was, after=now, alike=("type", *_CONSTANTS))
        return self._make("type", place, before=was, after=now, alike=(*_CONSTANTS, "container"))

    def _object(self, match: re.Match[str]) -> Guard:
        place = self._place(re.sub(r"\.__\w+__$", "", match["path"]))
        # older PyTorch does not tell the type
        type_ = match["type"] or ("function" if match["path"].endswith(".__code__") else None)
        known = self._guarded.get(match["path"], {})
        if type_ is None and (was := known.get("was")) is not None:
            words = f"{match['path']} {'is' if was == 'None' else '=='} {was}"
            return _Reader(self._words, words, self._guarded).guard()
        if (type_ := type_ or known.get("type")) is not None:
            return self._other_object(place, "function" if type_ == "code" else type_.rpartition(".")[2])
        if place.kind == "attribute" and match["path"].endswith(".training"):  # True and False are two objects
            return self._make("training_mode")
        return self._make("identity", place, alike=("type",))

    def _other_object(self, place: _Looked, before: str) -> Guard:
        after = place.value
        if after in (None, before):
            after = None if before == _FREED_OBJECT else f"another {before}"
        return self._make("identity", place, before=before, after=after, alike=("type",))

    def _no_key(self, path: str) -> Guard:
        """A key that a dict no longer has: the dict is what differs."""
        holder = self._place(path.rpartition("[")[0])
        if holder.kind == "call":
            return self._make("keyword")
        return self._make("container", holder, after=holder.value, alike=("keyword", "type"))

    # --- code -------------------------------------------------------------------------------------------------

    def _in_code(self) -> Guard | None:
        try:
            tree = python_text.tree(self._head)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return self._of_sizes_in_part()
        try:
            return self._of_sizes(tree) or self._of(tree)
        except RecursionError:
            return None

    def _of(self, tree: ast.expr) -> Guard | None:
        negated = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        inner = tree.operand if isinstance(tree, ast.UnaryOp) and negated else tree
        if isinstance(inner, ast.Call):
            return self._of_keys(inner, negated)
        if negated and _is_path(inner):
            return self._of_length(inner, 0)
        if isinstance(tree, ast.BoolOp):
            return self._of_nan(tree)
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
            return None
        left, op, right = tree.left, tree.ops[0], tree.comparators[0]
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self._of_is(left, right, isinstance(op, ast.IsNot))
        length = _called(left, "len")
        if length is not None and _is_path(length) and isinstance(right, ast.Constant) and type(right.value) is int:
            # the checks in C++ say "len(x) != 2" where they missed a length of 2
            return self._of_length(length, right.value) if isinstance(op, (ast.Eq, ast.NotEq)) else None
        if not isinstance(op, ast.Eq):
            return self._of_number(left, right)
        if (keys := _keys_of(left)) is not None and _is_path(keys):
            place = self._place(self._source(keys))
            return self._of_container(place, before=f"with key {self._source(right)}")
        if _is_path(left):
            return self._of_constant(left, right)
        return None

    def _of_constant(self, left: ast.expr, right: ast.expr) -> Guard | None:
        place, value = self._place(self._source(left)), self._source(right)
        if isinstance(left, ast.Attribute) and left.attr == "training" and value in ("True", "False"):
            was, now = ("on", "off") if value == "True" else ("off", "on")
            return self._make("training_mode", before=was, after=now)
        if isinstance(right, (ast.Set, ast.List, ast.Tuple, ast.Dict)):
            return self._of_container(place, before=value)
        guard = self._of_value(place, value) if _is_constant(right) else None
        return replace(guard, mechanism="type") if guard and _ARRAY.match(place.value or "") else guard

    def _of_value(self, place: _Looked, before: str) -> Guard | None:
        """A number, a bool or a text that was another; None where what lies there is none of them."""
        mechanism = _BY_PLACE[place.kind]
        if mechanism not in _CONSTANTS:
            return None
        return self._make(mechanism, place, before=before, after=place.value, alike=("type", *_CONSTANTS))

    def _of_container(self, place: _Looked, before: str | None) -> Guard:
        if place.kind == "call":
            return self._make("keyword", alike=("container",))
        return self._make("container", place, before=before, after=place.value, alike=("keyword", "type"))

    def _of_length(self, node: ast.expr, length: int) -> Guard:
        place = self._place(self._source(node))
        kind = _container(place.value or "") or "container"
        empty = {"list": "[]", "tuple": "()", "dict": "{}"}.get(kind, f"{kind} of 0")
        before = f"{kind} of {length}" if length else empty
        if place.kind == "optimizer_state":
            proven = not length and place.value not in (empty, None)
            return self._make("optimizer_state" if proven else None, place, before=before, after=place.value)
        return self._of_container(place, before)

    def _of_keys(self, call: ast.Call, negated: bool) -> Guard | None:
        function = self._source(call.func)
        if function == "hasattr" and negated and isinstance(name := call.args[-1], ast.Constant):
            place = self._place(f"{self._source(call.args[0])}.{name.value!s}")
            return self._make("module_attribute", place, before="not set", after=place.value)
        if function not in ("___dict_contains", "set.__contains__") or len(call.args) != 2:
            return None
        container, key = call.args if function == "set.__contains__" else reversed(call.args)
        if not _is_path(container) or not isinstance(key, ast.Constant):
            return None
        if isinstance(container, ast.Attribute) and container.attr == "__dict__":
            place = self._place(f"{self._source(container.value)}.{key.value!s}")
            return self._make("module_attribute", place, before="not set", after=place.value) if negated else None
        place = self._place(self._source(container))
        return self._of_container(place, f"{'without' if negated else 'with'} key {key.value!r}")

    def _of_is(self, left: ast.expr, right: ast.expr, negated: bool) -> Guard | None:
        if not _is_path(left):
            return None
        place = self._place(self._source(left))
        if isinstance(right, ast.Constant) and right.value is None:
            was, now = ("a value", "None") if negated else ("None", place.value)
            mechanism = "gradient_state" if place.kind == "gradient" else "type"
            return self._make(mechanism, place, before=was, after=now, alike=("closure", "container"))
        if _is_path(right) and not negated:
            other = self._place(self._source(right)).argument
            return self._aliasing(place.argument, other, before="the same tensor as", after="another tensor than")
        return None

    def _of_nan(self, tree: ast.BoolOp) -> Guard | None:
        match tree.values[-1]:
            case ast.Call(func=function, args=[value, *_]) if _is_path(value):
                if self._source(function).endswith("_isnan"):
                    return self._of_value(self._place(self._source(value)), "nan")
        return None

    def _of_number(self, left: ast.expr, right: ast.expr) -> Guard | None:
        """An inequality of a number that the graph holds as a symbol: `2 <= n`."""
        path, constant = (left, right) if _is_path(left) else (right, left)
        if not _is_path(path) or not _is_constant(constant):
            return None
        return self._of_value(self._place(self._source(path)), self._head)

    def _of_sizes(self, tree: ast.expr) -> Guard | None:
        """A relation of sizes or strides, which the graph holds as symbols."""
        by_method = gathered(
            (node.func.attr, self._place(self._source(node.func.value)).argument)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_path(node.func.value)
        )
        for method, mechanism, alike in _RELATIONS:
            if method in by_method:
                first, *others = by_method[method]
                return self._make(mechanism, argument=first, others=(*others,), before=self._head, alike=(alike,))
        return None

    def _of_sizes_in_part(self) -> Guard | None:
        """The same of one so long that its end was cut off."""
        sized = [*dict.fromkeys(self._place(path).argument for path in _SIZED.findall(self._head))]
        return self._make("shape", argument=sized[0], others=(*sized[1:],), alike=("layout",)) if sized else None

    def _source(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._head, node) or ""


def _state_of(name: str) -> str | None:
    """The mechanism of a mode or a setting by the name that PyTorch gives it; None for what is no name."""
    if name.startswith("autocast"):
        return "autocast"
    return "grad_mode" if name == "grad_mode" else "config" if name.isidentifier() else None


def _backend(words: str, old: str, new: str) -> Guard:
    """Another backend, another option, or a new object that does the same."""
    was, now = _COMPILER.search(old), _COMPILER.search(new)
    if was and now and was["name"] == now["name"] and was["dynamic"] != now["dynamic"]:
        return Guard(words, "config", "dynamic", was["dynamic"], now["dynamic"])
    before, after = (match["name"] if match else _without_id(text) for match, text in ((was, old), (now, new)))
    if before == after:
        return Guard(words, "identity", "backend", before, f"another {after}")
    return Guard(words, "config", "backend", before, after)


# --- expressions ----------------------------------------------------------------------------------------------


def _is_path(node: ast.expr) -> bool:
    """Whether an expression leads to a value by names, attributes and keys alone."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        key = node.slice if isinstance(node, ast.Subscript) else None
        if key is not None and not isinstance(key, ast.Constant) and _keys_of(key) is None:
            return False
        node = node.value
    return isinstance(node, ast.Name)


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.BinOp):  # a complex number
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Constant) or (_is_path(node) and isinstance(node, ast.Attribute))  # torch.float32


def _called(node: ast.expr, name: str) -> ast.expr | None:
    """What `name(…)` is called with, where it is such a call."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == name and len(node.args) == 1:
        return node.args[0]
    return None


def _keys_of(node: ast.expr) -> ast.expr | None:
    """The dict in `list(dict.keys(x))[0]`, `list(dict.keys(x))`, `list(x.keys())`, `set(x.keys())`, and, before PyTorch
    2.3, `___dict_param_key_ids(x)`."""
    if (of_old := _called(node, "___dict_param_key_ids") or _called(node, "___dict_const_keys")) is not None:
        return of_old
    inner = _called(node.value if isinstance(node, ast.Subscript) else node, "list") or _called(node, "set")
    if inner is None:
        return None
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "keys":
        return inner.args[0] if inner.args else inner.func.value
    return None


def _told_by(path: str, words: str) -> tuple[str, str]:
    """The argument and the kind of place, as far as the text alone tells them."""
    if "__closure__" in path:
        hint = re.search(r'HINT: guard on \\?"(\w+)', words)
        return (hint[1] if hint else path), "closure"
    argument = re.sub(r"^[GL]\['(\w+)'\](?=[.\[]|$)", r"\1", path)
    argument = re.sub(r"\._(?:modules|parameters|buffers)\['(\D\w*)'\](?=[.\[]|$)", r".\1", argument)
    argument = re.sub(r"\._(?:modules|parameters|buffers)\['(\d+)'\](?=[.\[]|$)", r"[\1]", argument)
    argument = re.sub(r"^___stack(\d+)", r"<intermediate \1>", argument)
    if held := re.search(r"\.keywords\['(\w+)'\]$", path):  # of a functools.partial
        return held[1], "closure"
    if ".__defaults__[" in path or ".__kwdefaults__[" in path:
        return argument, "closure"
    if path.endswith(".grad"):
        return argument, "gradient"
    if ".param_groups[" in path:
        return argument, "optimizer"
    if re.search(r"\.state\[list\(dict\.keys\(", path):
        return argument.partition("[list(")[0], "optimizer_state"
    if "." in re.sub(r"\[[^\]]*\]", "", path):
        return argument, "attribute"
    return argument, "global" if re.match(r"G\['\w+'\]", path) else "argument"


def _sizes(index: int, expected: str, actual: str, value: str | None) -> tuple[str, str]:
    """Both shapes where the last dimension differs, for then all others were equal; else the one that is known."""
    match = re.match(r"(\w+\[)([\d,]+)(\])", value or "")
    sizes = match[2].split(",") if match else []
    if match and index == len(sizes) - 1:
        return f"{match[1]}{','.join([*sizes[:-1], expected])}{match[3]}", f"{match[1]}{match[2]}{match[3]}"
    return f"size {expected} at dimension {index}", f"size {actual} at dimension {index}"


def _without_id(text: str) -> str:
    return re.sub(r" ?\(id=0x[0-9a-f]+\)", "", text)


# --- remedies -----------------------------------------------------------------------------------------------------

_NEEDED = (
    "Where range(), a slice or a shape needs the number, a tensor would break the graph: keep its values few there."
)
_AS_ARGUMENT = "pass {argument} as an argument, and as a tensor where it is only computed with. " + _NEEDED
_SYMBOL = (
    "PyTorch has made the number a symbol by itself, so this happens once. To save this compile, too, pass {argument} "
    "as a tensor, unless a slice or a shape needs the number: there a tensor would break the graph."
)
_SOURCES = {"TORCH_COMPILE_DYNAMIC_SOURCES": "{sources}"}
UNBACKED = "TORCH_COMPILE_UNBACKED_SOURCES"
_UNBACKED = {UNBACKED: "{unbacked}"}
"""Of PyTorch 2.13. Where the code branches on the size, the graph breaks there."""
CONFIG = "import torch._dynamo.config as dynamo_config\ndynamo_config.{}"
"""Sets one. In a function a plain `import torch` would hide the module's from the lines before it."""
_FIRST_UNCOMPILED = 'torch.compiler.set_stance("default" if {lazy} else "force_eager")'
"""Of PyTorch 2.6."""
_OTHER_MODE = Row(
    "If the earlier call was a warm-up, make it in the mode of the later ones. Where both modes are wanted, two "
    "variants are, too, and going back compiles nothing: call both once before you measure."
)

REMEDIES = {
    "unrolled": Row(
        "Compile what one turn calls, and not the function around the loop: model.cell.compile() instead of "
        "model.compile(), or @torch.compile on the function of one turn. It is then compiled once, and called for each "
        "turn. Where the function around the loop runs uncompiled, PyTorch compiles what that calls by itself.",
        above="@torch.compiler.disable(recursive=False)",
        changes="rounding",
    ),
    "shape": Row(
        "Mark the dimension that varies, before the first call and where the function is called: {marked}; or {fixed}.",
        over="{marks}",
        environment=_SOURCES,
    ),
    "open shape": Row(
        "PyTorch has made the dimension dynamic by itself, so this happens once. To save this compile, too, mark it "
        "before the first call, where the function is called: {marked}; or "
        "{fixed}.",
        over="{marks}",
        environment=_SOURCES,
    ),
    "question of a size": Row(
        "The dimension is dynamic, but what the function asked of its size is compiled in{asked}: a size with another "
        "answer compiles again. Choose outside of the compiled function, or {fixed}.",
        changes="data",
    ),
    "static shape": Row(
        "torch.compile(…, dynamic=False) compiles each size for itself: leave dynamic=False out, or {fixed}. Code that "
        "needs the number (a branch, range(), view()) compiles it in all the same.",
        environment=_SOURCES,
    ),
    "needed size": Row(
        "The size is compiled in, by a static mark, or by code that needs the number (a branch, range(), view()): let "
        "it vary, or {fixed}.",
        changes="data",
    ),
    "closed shape": Row(
        "The size is compiled in, by dynamic=False, automatic_dynamic_shapes = False, a static mark, or code that "
        "needs the number (a branch, range(), view()): let it vary, or {fixed}.",
        environment=_SOURCES,
    ),
    "shape of 0 or 1": Row(
        "PyTorch compiles sizes 0 and 1 for themselves, whatever is dynamic: {fixed}.",
        environment=_UNBACKED,
        changes="data",
    ),
    "first shape of 0 or 1": Row(
        "PyTorch compiles sizes 0 and 1 for themselves, whatever is dynamic, and {argument} began with one: call the "
        "function first with another size, or {fixed}.",
        environment=_UNBACKED,
        changes="data",
    ),
    "shape of a parameter": Row(
        "PyTorch compiles in the sizes of parameters, whatever is marked dynamic: set "
        "torch._dynamo.config.force_parameter_static_shapes = False before the first call, or keep {argument} at one "
        "size.",
        above=CONFIG.format("force_parameter_static_shapes = False"),
    ),
    "open shape within": Row(
        "PyTorch has made the dimension dynamic by itself, so this happens once. To save this compile, too, {fixed}.",
        changes="data",
    ),
    "shape within": Row("PyTorch compiles again for another size: {fixed}.", changes="data"),
    "type": Row("Pass {argument} in its final form at the first call, a tensor instead of None or a number."),
    "container of a module": Row(
        "{argument} does not hold the same in all modules that share this code, and each kind has variants of its own: "
        "make them alike, compile each kind by itself, or raise the limit."
    ),
    "type of self": Row(
        "{argument} is not of the same class at all calls, and classes that inherit this code share its variants. "
        "Where the class is made anew with each object, make it once; else give each class a forward() of its own, "
        "which may return what super().forward() does: each then has a limit to itself."
    ),
    "lazily_created type": Row(
        "{argument} is None until a first call makes it. Make it before, or let that call run uncompiled.",
        above=_FIRST_UNCOMPILED.format(lazy="{lazy} is not None"),
        each=True,
        changes="rounding",
    ),
    "type of a function": Row(
        "A call with a function has a variant of its own beside one with None. Pass a function in every call, one that "
        "changes nothing where none is wanted, or live with one compile for each."
    ),
    "type of a collective": Row(
        "{argument} is the pending result of a collective in one call, and a plain tensor in another: wait for it "
        "before every call.",
        above="{expression} = torch.distributed._functional_collectives.wait_tensor({expression})",
        each=True,
    ),
    "layout by a stride": Row(
        "Where {argument} is contiguous, the stride that differs follows from a size: mark that dimension before the "
        "first call (torch._dynamo.maybe_mark_dynamic), or pad it to one size. Else give it one layout where it is "
        "made: .clone(memory_format=torch.contiguous_format)."
    ),
    "type of a tensor": Row(
        "{argument} is a tensor of another class in one call than in the other, and PyTorch compiles for each class: "
        "give it as one class. Where its class holds no data of its own, as a plain tensor: "
        "{argument}.as_subclass(torch.Tensor), at every call."
    ),
    "layout": Row(
        "Give {argument} the same strides at every call, where it is made: "
        ".clone(memory_format=torch.contiguous_format).",
        above="{expression} = {expression}.clone(memory_format=torch.contiguous_format)",
        each=True,
    ),
    "device": Row("Move {argument} to one device before the call."),
    "sharding": Row(
        "Give {argument} the same placements at every call: {argument} = {argument}.redistribute(mesh, placements) "
        "before it."
    ),
    "requires_grad": Row("Give {argument} the same requires_grad at every call (detach() it, or never)."),
    "requires_grad without gradients": Row(
        "Under no_grad a parameter still has requires_grad, and a result of it has not: hand {argument} over "
        "detached, or clear it where the weights are loaded, requires_grad_(False).",
        instead="{detached}",
    ),
    "fed_back_output requires_grad": Row(
        "{argument} comes out of a compiled function with its history: pass it on as {argument}.detach(), or with "
        "gradients from the first call on.",
        above="{expression} = {expression}.detach()",
        each=True,
        changes="numerics",
    ),
    "aliasing": Row(
        "Pass {argument} as a tensor of its own at every call (clone() it).",
        above="{expression} = {expression}.clone()",
        each=True,
    ),
    "python_scalar": Row(
        "A number is compiled in: pass {argument} as a tensor where it is only computed with. " + _NEEDED,
        instead="{as_tensor}",
        changes="rounding",
    ),
    "needed number": Row(
        "The code needs the number {argument} itself ({needed}), so each of its values is compiled in: keep them few, "
        "and call with each once before you measure.",
        how="none",
    ),
    "many needed numbers": Row(
        "The code needs the number {argument} itself ({needed}), so each of its values is compiled in, and once "
        "torch._dynamo.config.recompile_limit of them are, a further one runs uncompiled. Where the values are few, "
        "raise that limit above their number, and call with each once before you measure. Else do what needs the "
        "number outside of the compiled function, or, where it picks one tensor of several, stack them and index by a "
        "tensor.",
        changes="rounding",
    ),
    "open number": Row(_SYMBOL, environment=_SOURCES),
    "open float": Row(_SYMBOL, instead="{as_tensor}", changes="rounding"),
    "choice": Row(
        "Each value of {argument} is a variant of its own: keep them few, and call with each once before you measure; "
        "or choose between two functions outside.",
        how="none",
    ),
    "rate": Row(
        "A learning rate that is a number is compiled in: make the optimizer with lr=torch.tensor(…), and write into "
        "that, .fill_(…), where the program now assigns {argument}. A scheduler that puts a number in its place undoes "
        "this.",
        changes="rounding",
    ),
    "rate of the optimizer": Row(
        "A learning rate that is a number is compiled in: make a tensor of it before each step; or make the optimizer "
        "with lr=torch.tensor(…), and write into that, .fill_(…), where the program now assigns {argument}.",
        over="for group in {optimizer}.param_groups: group['lr'] = torch.as_tensor(group['lr'])",
        each=True,
        changes="rounding",
    ),
    "state of the optimizer": Row(
        "The optimizer makes its state in its first step, and that is compiled without it: leave the optimizer's step "
        "out of the compiled function, or let the first one run uncompiled.",
        over=_FIRST_UNCOMPILED.format(lazy="{optimizer}.state"),
        changes="rounding",
    ),
    "gradient made later": Row(
        "{argument} is None until a first backward makes it. Give gradients the same state in every step: one backward "
        "before the first compiled step, and zero_grad(set_to_none=False) after it and in every step; or let the first "
        "call run uncompiled.",
        above=_FIRST_UNCOMPILED.format(lazy="{lazy} is not None"),
        each=True,
        changes="rounding",
    ),
    "betas": Row(
        "Betas that are numbers are compiled in, and a scheduler writes them anew: keep it from that, "
        "cycle_momentum=False, or make tensors of them before each step.",
        over="{betas} = tuple(map(torch.as_tensor, {betas}))",
        each=True,
        changes="rounding",
    ),
    "setting": Row(
        "A number among an optimizer's settings is compiled in: leave {argument} as it is, or the optimizer's step out "
        "of the compiled function."
    ),
    "module_attribute": Row(
        "A number in an attribute is compiled in: keep {argument} out of the compiled function, or pass it as an "
        "argument.",
        environment=_SOURCES,
    ),
    "float attribute": Row(
        "A number in an attribute is compiled in: keep {argument} out of the compiled function, or pass it as an "
        "argument, and as a tensor where it is only computed with. " + _NEEDED,
        environment=_SOURCES,
    ),
    "closed float": Row(
        "The number {argument} is compiled in: torch.compile(…, dynamic=False) asks for that, and PyTorch does it by "
        "itself where an operation needs the number, as clamp() does. Leave dynamic=False out, or pass it as an "
        "argument, and as a tensor where it is only computed with. " + _NEEDED,
        changes="rounding",
    ),
    "global": Row("A global's value is compiled in: " + _AS_ARGUMENT, changes="rounding"),
    "closure": Row("A captured value is compiled in: " + _AS_ARGUMENT, changes="rounding"),
    "number of a mask": Row(
        "FlexAttention calls its mask with positions alone, and a number in it is compiled in: make {argument} a "
        "tensor before the mask is made, torch.tensor({argument}, device=…), on the attention's device."
    ),
    "appended list": Row(
        "Append to {argument} outside of the compiled function, and have that return the new element: each length of "
        "the list has a compile of its own. Where the function reads the list, too, preallocate a tensor of the "
        "largest size."
    ),
    "container": Row("Keep the length and keys of {argument} the same, or preallocate a tensor of the largest size."),
    "state of a library": Row(
        "A library keeps {argument}, and each value has a variant of its own: call {library} outside of the compiled "
        "function, or compile a part that does not call it."
    ),
    "container filled later": Row(
        "{argument} is empty until a first call fills it. Fill it before, or let that call run uncompiled.",
        above=_FIRST_UNCOMPILED,
        each=True,
        changes="rounding",
    ),
    "mode of a warm-up": Row(
        "A call under inference_mode is compiled for that: make the earlier call under no_grad, as the later ones are.",
        instead="{mode}",
    ),
    "training_mode": _OTHER_MODE,
    "grad_mode": _OTHER_MODE,
    "keyword": Row("Call with the same arguments in the same way, by position or by keyword, each time."),
    "autocast": Row("Enter autocast in the same way at every call: each setting is a variant of its own."),
    "config": Row("Set {argument} once, before the first call."),
    "threads": Row(
        "PyTorch has a number of threads for each thread in Python, and compiles for it: set it once, before those "
        "start. Here another thread has {after}, so begin with that.",
        above="torch.set_num_threads({after})",
        changes="rounding",
    ),
    "identity": Row("Keep {argument} alive and the same object for as long as the function is called."),
    "new_function": Row("Make and compile the function once, outside the loop."),
    "cache_cleared": Row("Do not call torch.compiler.reset() between steps."),
}
"""By cause, or by pattern and cause: what to change. `coldstep.analysis.advice` chooses."""
