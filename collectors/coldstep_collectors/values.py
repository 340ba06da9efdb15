"""What collectors write of values, in one form: names of element types, numbers for objects, what functions hold."""

from __future__ import annotations

import dis
import re
import sys
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any

from coldstep import context as forms
from coldstep._util.installed import cell_of
from coldstep.errors import our_errors
from coldstep.events import Args
from coldstep.places import Places, arguments, location, location_of
from coldstep_collectors.bytecode import with_nested
from coldstep_collectors.support import SUPPORT

# PyTorch 2.13: "torch.bfloat16"
_LONG_DTYPE = re.compile("float|complex|uint|int")
_MOST_ARGUMENTS = 30
_MOST_PARTS = 1000
_FEW = 8  # parts of a list that are told each
_LINES = 6
_ARRAYS = ("ArrayImpl", "EagerTensor", "ResourceVariable")
_OF_FRAMEWORKS = {name for row in SUPPORT for name in row.classes}
_OURS = ("coldstep.", "coldstep_collectors.", "coldstep_viewers.")  # a variable may hold the running trace
_TEXT_CHARS = 2000
TEXT_LIMIT = 200
"""How long the text of a value may be, in characters; and how many parts of a container are looked at."""


class Numbers:
    """Tells objects of one name apart by numbers from 1, each for as long as it lives; keeps none alive."""

    def __init__(self) -> None:
        self._known: dict[int | tuple[int, int], tuple[weakref.ref[Any], int]] = {}
        self._count: Counter[str] = Counter()

    def of(self, thing: Any, name: str = "") -> int | None:
        """The number of `thing`; None where it cannot be referred to weakly."""
        is_method = isinstance(thing, MethodType)  # made anew wherever it is named; as good as the one known
        key = (id(thing.__self__), id(thing.__func__)) if is_method else id(thing)
        reference, number = self._known.get(key, (None, 0))
        known = reference() if reference is not None else None
        if known is thing or (is_method and known is not None):
            return number
        try:
            reference = weakref.ref(thing, lambda _: self._known.pop(key, None))
        except TypeError:
            return None
        self._count[name] += 1
        self._known[key] = reference, self._count[name]
        return self._count[name]

    def only(self, name: str) -> int | None:
        """The number of the one thing of that name; None where there are several, or none."""
        return 1 if self._count[name] == 1 else None


class Codes:
    """Numbers of functions' code. A notebook's cell that runs again makes equal code anew: that has the number of
    before, and counts as a further run."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._runs = Numbers()
        self._cells: dict[CodeType, CodeType] = {}

    def of(self, code: CodeType, name: str = "") -> int | None:
        """The number of `code` among those of its name."""
        return self._numbers.of(self._first(code), name)

    def only(self, name: str) -> int | None:
        """The number of the one code of that name; None where there are several, or none."""
        return self._numbers.only(name)

    def run(self, code: CodeType) -> str:
        """Which run of its cell has made `code`: "run 2 of its cell"; empty where it is in none."""
        first = self._first(code)
        if first not in self._cells:
            return ""
        return forms.RUN_OF_A_CELL.format(self._runs.of(code, str(id(first))))

    def _first(self, code: CodeType) -> CodeType:
        return self._cells.setdefault(code, code) if cell_of(code.co_filename) is not None else code


def closure(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables that a function closes over, and what they hold."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue


@lru_cache(maxsize=64)
def dtype_text(dtype: Any) -> str:
    """The name of a type of elements, as in HLO: "bf16", "f8_e4m3fn", "bool"."""
    return _LONG_DTYPE.sub(lambda match: match[0][0], str(dtype).removeprefix("torch."))


def through(frame: FrameType | None) -> Args | None:
    """The library's function that the user's line calls, as a trace holds it: its name, and its arguments."""
    if frame is None:
        return None
    given = [(name, value) for name, value in arguments(frame) if name and name != "self"]
    rows = [{"argument": name, "type": _type(value)} for name, value in given[:_MOST_ARGUMENTS]]
    return {"function": frame.f_code.co_qualname, "arguments": rows}


def within(frame: FrameType | None, places: Places) -> Args | None:
    """The user's running function, as a trace holds it: its arguments, its definition, and the line that called
    it; None outside of any."""
    if frame is None or not frame.f_code.co_flags & CO_OPTIMIZED:
        return None
    code, caller = frame.f_code, places.users_frame(frame.f_back)
    given = [(name, value) for name, value in arguments(frame) if name and name != "self"]
    return {
        "function": code.co_qualname,
        "arguments": [{"argument": name, "type": _given(value)} for name, value in given[:_MOST_ARGUMENTS]],
        "location": location(code.co_filename, code.co_firstlineno, code.co_qualname),
        "caller": location_of(caller) if caller is not None else None,
    }


def _given(value: Any) -> str:
    """An array's abstract value, with whose it is and where it lies; of a long list of one type, how long it is; any
    other plain value; else the name of its type."""
    kind = type(value)
    if hasattr(kind, "shape") and hasattr(kind, "dtype"):
        whose = kind.__module__.partition(".")[0]
        device = value.device.type if whose == "torch" else "cpu"
        place = f" @{value.device}" if device != "cpu" else ""
        return f"{_type(value)} {'jax' if whose == 'jaxlib' else whose}{place}"
    if kind in (list, tuple) and len(value) > _FEW and {type(part) for part in value} in ({int}, {float}):
        return f"{kind.__name__} of {len(value)} {type(value[0]).__name__}"
    return cut(repr(value)) if is_plain(value) else kind.__qualname__


def _type(value: Any) -> str:
    """An array's abstract value; of anything else, the name of its type."""
    kind = type(value)
    if hasattr(kind, "shape") and hasattr(kind, "dtype"):
        return f"{dtype_text(value.dtype)}[{','.join(map(str, value.shape))}]"
    return kind.__qualname__


def first_lines(text: str) -> str:
    """How a framework's message begins: its main part."""
    return "\n".join(text.strip().splitlines()[:_LINES])[:_TEXT_CHARS]


@lru_cache(maxsize=64)
def globals_read(code: CodeType) -> frozenset[str]:
    """The globals that a function, or one within it, reads by name."""
    steps = (step for each in with_nested(code) for step in dis.get_instructions(each))
    return frozenset(step.argval for step in steps if step.opname == "LOAD_GLOBAL")


def array_class(value: Any) -> str:
    """The class of a framework's array or variable; "" of anything else."""
    kind = type(value)
    return kind.__name__ if kind.__name__ in _ARRAYS and kind.__module__.partition(".")[0] in _OF_FRAMEWORKS else ""


def is_plain(value: Any, depth: int = 3) -> bool:
    """Whether a value is a number, a text, or a small container of such: its `repr` is known, and complete."""
    if value is None or type(value) in (str, int, float, bool):
        return True
    if type(value) not in (tuple, list, dict, set, frozenset) or len(value) > TEXT_LIMIT or depth == 0:
        return False
    parts = [*value, *value.values()] if type(value) is dict else value
    return all(is_plain(part, depth - 1) for part in parts)


def held(value: Any) -> Mapping[str, Any]:
    """What an object holds itself, by name: neither properties nor `__getattr__`, nothing of the user's runs here."""
    for kind in type(value).__mro__:
        if (own := kind.__dict__.get("__dict__")) is not None:
            # what else a class has there, computes it
            return own.__get__(value) if type(own) in (GetSetDescriptorType, MemberDescriptorType) else {}
    return {}  # it has slots


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute, or the default. An object of the user's may answer by any error: `KeyError`, if it looks its
    attributes up as keys."""
    try:
        return getattr(value, name, default)
    except our_errors():
        return default


def name_of(function: Any) -> str:
    """What a function is called, without what it is defined in; of what has no name, that of its type."""
    name = attribute(function, "__qualname__") or attribute(function, "__name__")
    return str(name or type(function).__qualname__).rpartition("<locals>.")[2]


def own_parts(path: str, value: Any) -> list[tuple[str, Any]]:
    """What a plain container or a plain object holds, by path; runs none of the user's own code."""
    kind = type(value)
    if kind is dict and len(value) <= _MOST_PARTS:
        return [(f"{path}[{key!r}]", part) for key, part in value.items() if type(key) in (str, int)]
    if kind in (list, tuple) and len(value) <= _MOST_PARTS:
        return [(f"{path}[{position}]", part) for position, part in enumerate(value)]
    if kind.__module__ in sys.stdlib_module_names or kind.__module__ == "torch" or issubclass(kind, type):
        return []
    if f"{kind.__module__}.".startswith(_OURS):
        return []
    attributes = getattr(kind, "__dict__", {}).get("__dict__") and object.__getattribute__(value, "__dict__")
    return [(f"{path}.{name}", part) for name, part in attributes.items()] if type(attributes) is dict else []


def quoted(text: str) -> str:
    """A value's text within a sentence: what stands in quotes is the user's, and not published with the rest."""
    return text if text.startswith(("'", '"')) else f"'{text}'"


def cut(text: str) -> str:
    """`text`, cut where it is long; two that differ still do."""
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 12]}… #{zlib.crc32(text.encode()):08x}"
