"""Private names of a framework as data: the forms that a hook has had, and which of them this process has.

No version is asked for: each form is looked for by itself, newest first; a hook without one is reported as a
blind spot. So a version that nobody has looked at is tried as those are that somebody has.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from coldstep.errors import our_errors
from coldstep.named_tuple import NamedTuple
from coldstep_collectors.values import attribute

_ABSENT: Any = object()


class Form(NamedTuple):
    """One form that a hook has had."""

    path: str
    """Where it is, as "package.module:Class.method"."""
    has: tuple[str, ...] = ()
    """The names read there: of a function its local variables, off the stack; of anything else attributes or fields."""
    says: tuple[str, ...] = ()
    """What a function's code uses, that of functions within it included: attributes that it sets, words that it
    announces."""
    versions: str = ""
    """Those that have it so, as far as anybody looked: "2.5-2.8", or "2.9-" up to the newest. No code asks for it."""

    @property
    def file(self) -> str:
        """The end of the name of the file that the module is in."""
        return _apart(self.path)[0].replace(".", "/") + ".py"

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition(":")[2].rpartition(".")[2]

    def find(self, default: Any = None) -> Any:
        """What stands at the path; `default` where nothing does."""
        name, path = _apart(self.path)
        value: Any = sys.modules.get(name, default)
        for part in path:
            value = getattr(value, part, default)
        return value

    @property
    def is_here(self) -> bool:
        """Whether this process has it, with all that is read there."""
        return self.found() is not _ABSENT

    def found(self) -> Any:
        """What stands at the path, with all that is read there; `_ABSENT` where this process has it not."""
        try:
            value = self.find(_ABSENT)
            return value if value is _ABSENT or not (self.has or self.says) or self._is_in(value) else _ABSENT
        except our_errors():  # an object of the framework's that answers in its own way
            return _ABSENT

    def _is_in(self, value: Any) -> bool:
        if isinstance(value, (type, ModuleType)):
            return has_fields(value, self.has)
        codes = [function.__code__ for function in _behind(value)]
        return any({*self.has} <= {*variables(code)} and _says(code, self.says) for code in codes)


class Hook:
    """Something of a framework's that is read or wrapped, under whatever name it has.

    `unseen` is the blind spot without it, None where a public way shows the same. Its `forms` stand newest
    first. `of` is a name that it belongs to: where that is not there either, nothing is unseen.
    """

    __slots__ = ("_files", "_read", "forms", "of", "unseen")

    def __init__(self, unseen: str | None, *forms: Form, of: str = "") -> None:
        self.unseen, self.forms, self.of = unseen, forms, of
        self._read = [form.says or form.has for form in forms if form.says or form.has]
        self._files: dict[str, tuple[str, ...]] = {}  # by the names of functions, where these are looked for

    def form(self) -> Form | None:
        """The newest form that is here."""
        return next((form for form in self.forms if form.is_here), None)

    def find(self) -> Any:
        """What stands at the path of the newest form that is here; None where none is."""
        for form in self.forms:
            if (value := form.found()) is not _ABSENT:
                return value
        return None

    def local(self, frame: FrameType | None) -> tuple[Any, ...]:
        """The local variables that are read of a frame; empty where it has them in no form."""
        local: Mapping[str, Any] = frame.f_locals if frame is not None else {}
        for form in self.forms:
            if form.has and all(map(local.__contains__, form.has)):
                return tuple(map(local.__getitem__, form.has))
        return ()

    def attributes(self, thing: Any) -> tuple[Any, ...]:
        """The attributes that are read of an object; empty where it has them in no form."""
        for read in self._read:
            try:
                return tuple([getattr(thing, name) for name in read])
            except AttributeError:
                continue
        return ()

    def read_of(self, thing: Any) -> tuple[str, ...]:
        """Their names."""
        return next((read for read in self._read if all(hasattr(thing, name) for name in read)), ())

    def on_stack(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame, from this one outwards, of a function at one of the paths."""
        files = self._files
        if not files:
            for form in self.forms:
                files[form.name] = (*files.get(form.name, ()), form.file)
        while frame is not None:
            code = frame.f_code
            if code.co_name in files and code.co_filename.endswith(files[code.co_name]):
                return frame
            frame = frame.f_back
        return None

    @property
    def is_missed(self) -> bool:
        """Whether something is not observed without it."""
        return self.form() is None and (not self.of or Form(self.of).is_here)


@lru_cache(maxsize=1024)
def _apart(path: str) -> tuple[str, list[str]]:
    """A path's module, and the names from there on."""
    name, _, names = path.partition(":")
    return name, names.split(".") if names else []


def missing(hooks: Iterable[Hook]) -> list[str]:
    """The blind spots where these hooks are missing."""
    return list(dict.fromkeys(hook.unseen for hook in hooks if hook.unseen is not None and hook.is_missed))


def unknown_version(framework: str, version: str, newest: str) -> str | None:
    """The warning about a version that is newer than the newest that coldstep was held against."""
    if not is_older(newest, version):
        return None
    return (
        f"{framework} {version} is newer than any that coldstep was held against (up to {newest}): coldstep "
        "observes it through the names that it has kept"
    )


def is_older(version: str, other: str) -> bool:
    """Whether a version came before another, by their first two numbers."""
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def since(hooks: Iterable[object], unseen: str) -> tuple[str, str] | None:
    """The first and the last version ("" for none) with the newest form of the hook without which that is unseen."""
    forms = [hook.forms[0] for hook in hooks if isinstance(hook, Hook) and hook.unseen == unseen and hook.forms]
    if (newest := max(forms, key=lambda form: _numbers(form.versions.partition("-")[0]), default=None)) is None:
        return None
    first, _, last = newest.versions.partition("-")
    return first, last


# --- what a module's code has ---------------------------------------------------------------------------------------


def code_of(owner: Any, path: str) -> CodeType | None:
    """The code of a function of a module; with a dot in its name, of one within another, or of a class."""
    outer, _, inner = path.partition(".")
    value = getattr(owner, outer, None)
    if isinstance(value, type):
        return code_of(value, inner) if inner else None
    code = next((function.__code__ for function in _behind(value) if function.__name__ == outer), None)
    if code is None and value is not None and isinstance(owner, ModuleType):
        code = _as_loaded(owner, outer)
    if not inner or code is None:
        return code
    return next((each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == inner), None)


def variables(code: CodeType) -> tuple[str, ...]:
    """The local variables of a function, those shared with functions within or around it included."""
    return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)


@lru_cache(maxsize=256)  # some are asked for at each compile
def _says(code: CodeType, words: tuple[str, ...]) -> bool:
    return not words or {*words} <= {*_said_by(code)}  # thousands of names, in all of PyTorch's forms


def _said_by(code: CodeType) -> Iterator[str]:
    """The names and texts in a function's code, and in that of functions and classes within it."""
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_name
            yield from _said_by(constant)
        elif isinstance(constant, str):
            yield constant
        elif isinstance(constant, (tuple, frozenset)):  # the names of keyword arguments, and what `in` looks through
            yield from (each for each in constant if isinstance(each, str))


def _behind(value: Any) -> Iterator[FunctionType]:
    """A function, and those that a cache or another decorator has wrapped."""
    value = attribute(value, "__wrapped__", value)
    if isinstance(value, FunctionType):
        yield value
        parts = [cell.cell_contents for cell in value.__closure__ or ()]
    else:
        parts = gc.get_referents(value)  # JAX's caches are written in C++, and name no function
    yield from (part for part in parts if isinstance(part, FunctionType))


def _as_loaded(module: ModuleType, name: str) -> CodeType | None:
    """The code of a function that hides behind what has its name (JAX's caches before 0.4.38): of the module anew."""
    try:
        whole = module.__spec__.loader.get_code(module.__name__)  # type: ignore[union-attr]
    except our_errors():  # it was not loaded from a file, or the file has changed
        return None
    return next((each for each in whole.co_consts if isinstance(each, CodeType) and each.co_name == name), None)


def has_fields(kind: Any, names: Iterable[str]) -> bool:
    """Whether a class, or a module, has all these; the fields of a dataclass without slots are no attributes of it."""
    fields = {*dir(kind)}
    for owner in getattr(kind, "__mro__", (kind,)):
        fields.update(getattr(owner, "__dict__", {}).get("__annotations__", ()))  # getattr would put some there
    return fields.issuperset(names)
