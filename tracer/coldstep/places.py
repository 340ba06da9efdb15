"""Says whose code a file is (the user's, a library's or an op-by-op framework's), and whose a library's function that
runs what the user made; finds the frames of the user."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import takewhile
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

from coldstep._util.expressions import expression
from coldstep._util.own_package import is_own
from coldstep.events import Args
from coldstep.vocabulary import STACKS

Origin = Literal["user", "library", "eager"]

_OURS = ("coldstep", "coldstep_collectors", "coldstep_viewers")
_TYPED_IN = ("<stdin>", "<string>", "<ipython")
# Python: "/repo/venv/lib/python3.12/site-packages/jax/_src/api.py"
# Debian: "/usr/lib/python3/dist-packages/numpy/__init__.py"
_PACKAGES = expression(r".*(?:^|/)(?:site|dist)-packages/", re.DOTALL)
# PyTorch 2.13: "/tmp/torchinductor_me/ab/cabc.py"
_MADE = expression("|".join(stack.generated for stack in STACKS if stack.generated))
# Conda: "/opt/conda/envs/net/lib/python3.12/logging/__init__.py"
_STANDARD_ELSEWHERE = expression(r".*?/lib(?:64)?/python3[.\d]*/", re.DOTALL)
# JAX 0.10: "/src/jax/jax/_src/numpy/lax_numpy.py"
# PyTorch: "/src/torch/nn/modules/linear.py"
_SOURCE = expression("|".join(f"(?P<{stack.packages[0]}>{stack.sources})" for stack in STACKS))
# Python: "/usr/lib/python3.12/contextlib.py"
# PyTorch: "/src/torch/nn/modules/linear.py"
_INSTALLED = expression(
    r"(?:^|/)(?:site|dist)-packages/|(?:^|/)lib(?:64)?/python3[.\d]*/"
    rf"|/coldstep_(?:collectors|viewers)/|/tracer/coldstep/|{_SOURCE.pattern}|{_MADE.pattern}"
)
_MOST_FRAMES = 100  # of a library's that are looked at
_OPTIMIZED, _VARARGS, _VARKEYWORDS = 1, 4, 8  # of `co_flags`, as in `inspect`, which takes milliseconds to import
_BACKPORT = "/typing_extensions.py"  # whose wrappers are those of the standard library: around torch_xla's `mark_step`


class Places:
    """Whose code the files of this process are; `eager` are the packages whose functions run op by op.

    A file is a library's where it belongs to one of `packages`, to the standard library, to coldstep, or to anything
    that is installed; where it is a script of the environment's (`coldstep` itself, as the shell finds it); or where it
    was generated. What a person typed in, and every other file, is the user's, and so is the installed package that the
    process runs.
    """

    def __init__(self, *packages: ModuleType, eager: Iterable[ModuleType] = ()) -> None:
        self._packages = _folders(packages)
        self._eager = _folders(eager)
        self._known: dict[str, tuple[Origin, bool]] = {}
        if self._packages or self._eager:
            _standard()  # which takes 0.3 ms once: not in a framework's hook, and not where none is watched

    def origin(self, file: str) -> Origin:
        """Whose code `file` is."""
        return self._find(file)[0]

    def is_users(self, file: str) -> bool:
        """Whether the user wrote the code in `file`."""
        return self._find(file)[0] == "user"

    def is_known(self, file: str) -> bool:
        """Whether `file` is the standard library's, coldstep's, or of one of the packages given: not just installed."""
        return self._find(file)[1]

    def users_frames(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The user's frames, from `frame` outwards."""
        return (
            each
            for each in frames(frame)
            if self.is_users(each.f_code.co_filename) and not (each.f_back is None and starts_process(each.f_code))
        )

    def users_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost of the user's frames, from `frame` outwards."""
        return next(self.users_frames(frame), None)

    def users_line(self, frame: FrameType | None) -> Args | None:
        """Where the innermost of them is; None where there is none."""
        place = self.users_frame(frame)
        return location_of(place) if place is not None else None

    def between(self, frame: FrameType | None) -> list[FrameType] | None:
        """The libraries' frames from `frame` outwards to the user's innermost one, the frameworks' left out; None where
        no code of the user's is running."""
        above: list[FrameType] = []
        for each in frames(frame):
            origin, known = self._find(each.f_code.co_filename)
            if origin == "user":
                return above
            if not known and len(above) < _MOST_FRAMES:
                above.append(each)
        return None

    def is_set_off(self, owners: Iterable[Any], frame: FrameType | None) -> bool:
        """Whether a library's function, called from `frame`, is the user's: it runs what they made, or handed over.

        `owners`: the object it is a method of, those it closes over, and the static ones of its call. It is the
        user's where one of these is a function of theirs, or an object of a class of theirs; the object whose method
        their line calls (`model.fit`), or which they hand over there (`train(model)`); or a model that they call with
        no library between (`jax.jit(model.apply)`). Any other function of a library's is a helper.
        """
        owners = list(owners)
        if any(self._is_made_by_user(each) for each in owners):
            return True
        objects = {id(each) for each in owners if self._is_object(each)}
        if not objects:
            return False
        between = self.between(frame)
        if not between:
            return between is not None and any(callable(each) for each in owners if id(each) in objects)
        worked_on = [value for each in between for _, value in arguments(each)[:1]]
        return any(id(value) in objects for value in (*worked_on, *(value for _, value in arguments(between[-1]))))

    def called_by_user(self, frame: FrameType | None) -> FrameType | None:
        """The library's function that the user's line has called, of which a call from `frame` is a part."""
        named = (each for each in self.between(frame) or () if "<locals>" not in each.f_code.co_qualname)
        return next(reversed([*named]), None)  # a decorator's wrapper has a name that says nothing

    def _is_made_by_user(self, value: Any) -> bool:
        """Whether it is a function of the user's, or an object of a class of theirs."""
        if isinstance(value, FunctionType):
            return self.is_users(value.__code__.co_filename)
        return self._is_object(value) and self._origin_of(type(value)) == ("user", False)

    def _is_object(self, value: Any) -> bool:
        """Whether it is one of a program's own objects: no number, array, function or class, none of a framework's."""
        kind = type(value)
        if isinstance(value, (type, FunctionType, MethodType, ModuleType)) or hasattr(kind, "shape"):
            return False
        return not self._origin_of(kind)[1]

    def _origin_of(self, kind: type) -> tuple[Origin, bool]:
        """Whose a class is, and whether it is the standard library's or a framework's."""
        if kind.__module__ == "__main__":  # a notebook's has no file
            return "user", False
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        return self._find(file) if isinstance(file, str) else ("library", True)

    def _find(self, file: str) -> tuple[Origin, bool]:
        if (known := self._known.get(file)) is None:
            known = self._known[file] = self._look_at(file)
        return known

    def _look_at(self, file: str) -> tuple[Origin, bool]:
        if file.startswith("<"):  # generated code belongs to who generates it
            return ("user", False) if file.startswith(_TYPED_IN) else ("library", True)
        path = absolute(file)
        if path.startswith(self._eager):
            return "eager", True
        if path.startswith(self._packages) or path.endswith(_BACKPORT) or path.startswith(_own_folders()):
            return "library", True
        if any(word in path for word in _words_of_made()) and _MADE.search(path):
            return "library", True
        if (
            "/site-packages/" in path or "/dist-packages/" in path
        ):  # below the standard library, where there is no virtual environment
            return "user" if is_own(path) else "library", False
        return ("library", True) if path.startswith(_standard()) else ("user", False)


def starts_process(outermost: CodeType) -> bool:
    """Whether a thread's outermost code is the command with which multiprocessing starts a Python."""
    return outermost.co_filename == "<string>" and "--multiprocessing-fork" in sys.orig_argv


def is_installed(file: str) -> bool:
    """Whether a file of some other machine's belongs to an installed package or the standard library, by its path."""
    if file.startswith("<"):
        return not file.startswith(_TYPED_IN)
    return _INSTALLED.search(with_slashes(file)) is not None


def with_slashes(file: str) -> str:
    """A path as Linux writes it, of Windows or not."""
    return file.replace("\\", "/")


def origin_elsewhere(file: str, eager: tuple[str, ...] = ()) -> Origin:
    """Whose code a file of some other machine's is, by its path; `eager` names packages as `Places` takes them."""
    if not is_installed(file):
        return "user"
    source = _SOURCE.search(file)
    package = (below_packages(file) or (f"{source.lastgroup}/" if source else "")).partition("/")[0]
    return "eager" if package in eager else "library"


def below_packages(file: str) -> str | None:
    """The path of an installed package's file as every machine knows it: "torch/optim/sgd.py"; None for any other."""
    match = _PACKAGES.match(with_slashes(file))
    return with_slashes(file)[match.end() :] if match is not None else None


def module_of(file: str) -> str:
    """The name of a library's module, by its file: "torch.optim.optimizer"."""
    path = absolute(file).removesuffix(".py").removesuffix("/__init__")
    if (relative := below_packages(path)) is None:
        relative = next((path.removeprefix(folder) for folder in _standard() if path.startswith(folder)), None)
    if relative is None:  # of another machine, of which a log tells
        source = _SOURCE.search(path)
        relative = path[source.start() + 1 :] if source else _STANDARD_ELSEWHERE.sub("", path, count=1)
    return relative.replace("/", ".")


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """`frame` and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame.

    Python keeps what it shows of a function's variables, and so the arrays, until it is asked again. It is emptied
    here, unless that would show: to a debugger, or to a function that has asked for it itself.
    """
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        return frame.f_locals
    if _asks_for_locals(code):
        return {}
    shown = frame.f_locals
    values = dict(shown)
    if type(shown) is dict and sys.gettrace() is None:
        shown.clear()
    return values


@lru_cache(maxsize=1024)
def _asks_for_locals(code: CodeType) -> bool:
    names = {"locals", "vars", "eval", "exec"}
    if names.isdisjoint(code.co_names):
        return False
    from dis import get_instructions

    return any(step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in names for step in get_instructions(code))


def arguments(frame: FrameType) -> list[tuple[str, Any]]:
    """What a function was called with, by name and in order; of a wrapper's `*args` and `**kwargs`, each."""
    code, held = frame.f_code, variables(frame)
    count = code.co_argcount + code.co_kwonlyargcount
    values = [(name, held.get(name)) for name in code.co_varnames[:count]]
    rest = list(code.co_varnames[count:])
    if code.co_flags & _VARARGS:
        values += [("", value) for value in held.get(rest.pop(0), ())]
    if code.co_flags & _VARKEYWORDS:
        values += held.get(rest.pop(0), {}).items()
    return values


def location(file: str, line: int, function: str) -> Args:
    """A place as events hold it; the function without those around it."""
    return {"file": absolute(file), "line": line, "function": function.rpartition("<locals>.")[2]}


def location_of(frame: FrameType) -> Args:
    """Where a frame is."""
    code = frame.f_code
    return location(code.co_filename, frame.f_lineno or 0, code.co_qualname)


@lru_cache(maxsize=4096)
def absolute(file: str) -> str:
    """A file's absolute path; a name that is no file, or lies in a folder that is gone, stays as it is."""
    try:
        return file if file.startswith("<") else os.path.abspath(file)
    except FileNotFoundError:
        return file


@cache
def _standard() -> tuple[str, ...]:
    import sysconfig  # here, as most programs never ask

    folders = [os.path.dirname(os.__file__)]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")]
    return tuple(os.path.join(folder, "") for folder in dict.fromkeys(folders))


@cache
def _words_of_made() -> list[str]:
    """Of what `_MADE` finds, how each begins: without one of these it need not be compiled."""
    beginnings = (takewhile(lambda each: each.isalnum() or each in "/_", stack.generated) for stack in STACKS)
    return ["".join(each) for each, stack in zip(beginnings, STACKS, strict=True) if stack.generated]


def _own_folders() -> tuple[str, ...]:
    return _folders(sys.modules[name] for name in _OURS if name in sys.modules)


def _folders(modules: Iterable[ModuleType]) -> tuple[str, ...]:
    """Where packages lie; one without a file of its own says nothing."""
    return tuple(_folder(file) for module in modules if (file := getattr(module, "__file__", None)))


@lru_cache(maxsize=64)
def _folder(file: str) -> str:
    return os.path.join(os.path.dirname(absolute(file)), "")
