"""Sees modules being imported, through one finder at the front of `sys.meta_path`.

`builtins.__import__` is never wrapped (Dynamo traces it). A module gets its real loader back before its code
runs, so nothing of ours is left on it: `get_source`, `importlib.resources`, `runpy`, `reload` work as ever.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, Protocol, TypeVar

from coldstep.errors import contained
from coldstep_shim import found_after


class Listener(Protocol):
    """Told of every module loaded from a path. Both methods run under import locks and must not raise."""

    def begin(self, name: str) -> Any:
        """The loading of `name` begins on this thread (twice for an extension: dlopen, then its body)."""

    def end(self, token: Any) -> None:
        """The end of what `begin` returned `token` for."""


Callback = Callable[[ModuleType], object]
Function = TypeVar("Function", bound=Callable[..., Any])


class ImportHook:
    """One finder: announces imports to `listener`, and calls back once when a named module has been imported."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        # No locks: a fork could copy one that is held. Appending to and popping from a deque are atomic.
        self.waiting: dict[str, deque[Callback]] = {}
        """Whom to call back, by module."""
        self.executed: set[str] = set()
        """The modules that have run to their end."""

    def install(self) -> None:
        """Go to the front of `sys.meta_path`."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Leave `sys.meta_path`, if we are in it, and drop all callbacks; imports under way finish undisturbed."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        self.listener = None
        self.waiting.clear()
        self.executed.clear()

    def when_imported(self, module: str, callback: Callback) -> None:
        """Call `callback` with the module: at once if it is fully imported, else as its execution ends."""
        if (imported := self._imported(module)) is not None:
            _call(callback, imported)
            return
        self.waiting.setdefault(module, deque()).append(callback)
        if (imported := self._imported(module)) is not None:  # meanwhile, by another thread
            self.call_back(module, imported)

    def _imported(self, module: str) -> ModuleType | None:
        """The module, if it has run to its end."""
        loaded = sys.modules.get(module)
        # `executed` covers the moment in which the module has run, but is still marked as initializing
        return loaded if loaded is not None and (module in self.executed or not _initializing(loaded)) else None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders after us find, its loader wrapped until the module runs."""
        if (spec := found_after(self, name, path, target)) is not None:
            self.watch(spec)
        return spec

    def watch(self, spec: ModuleSpec) -> None:
        """Wrap a spec's loader until the module runs."""
        loader: Any = spec.loader
        create, execute = getattr(loader, "create_module", None), getattr(loader, "exec_module", None)
        if spec.has_location and create is not None and execute is not None:
            watched: Any = _Loader(self, spec, loader, create, execute)
            spec.loader = watched

    def call_back(self, name: str, module: ModuleType) -> None:
        """Call back whoever waits for a module, which has run to its end."""
        waiting = self.waiting.get(name)
        while waiting:
            try:
                callback = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            _call(callback, module)


def _call(callback: Callback, module: ModuleType) -> None:
    with contained():  # ours must not become the user's ImportError
        callback(module)


def _initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _as_importlib(function: Function) -> Function:
    # Python cuts importlib's frames out of tracebacks and does not count them in a warning's `stacklevel`; it
    # knows them by this file name. Ours among them would move a module's DeprecationWarning from the line that
    # imports it to this file.
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return function


class _Loader:
    """Stands in for a module's loader up to the moment at which the module runs: only there it does more.

    What is assigned to it is assigned to the real loader, and found here: other tools set `exec_module`. Until then
    nothing of the real one is looked up: importlib asks twice for each method of a framework's two thousand loaders.
    """

    __slots__ = ("__weakref__", "_create", "_exec", "_hook", "_real", "_spec")

    def __init__(self, hook: ImportHook, spec: ModuleSpec, real: Any, create: Any, execute: Any) -> None:
        # each a slot's own setter: `object.__setattr__` looks the name up first
        _set_hook(self, hook)
        _set_spec(self, spec)
        _set_real(self, real)
        _set_create(self, create)
        _set_exec(self, execute)

    # isinstance(spec.loader, SourceFileLoader), == and pickle answer as the real loader does
    __class__: Any = property(lambda self: type(self._real))

    def __getattr__(self, name: str) -> Any:
        if name == "get_code":  # runpy will run the module itself, and leave spec.loader in its __main__
            self._spec.loader = self._real
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _set_class(self, _Changed)
        setattr(self._real, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._real, name)

    def __eq__(self, other: object) -> bool:
        theirs: Any = other
        return bool(self._real == (theirs._real if type(other) in (_Loader, _Changed) else other))

    def __hash__(self) -> int:
        return hash(self._real)

    def __repr__(self) -> str:
        return repr(self._real)

    def __dir__(self) -> Any:
        return dir(self._real)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._real.__reduce_ex__(protocol)

    @_as_importlib
    def create_module(self, spec: ModuleSpec) -> Any:
        """The real loader's, announced where it can take time (an extension is loaded by the linker here)."""
        create = self._create
        listener = self._hook.listener
        if listener is None or getattr(create, "__func__", None) is SourceFileLoader.create_module:
            return create(spec)
        token = listener.begin(spec.name)
        try:
            return create(spec)
        finally:
            listener.end(token)

    @_as_importlib
    def exec_module(self, module: ModuleType) -> None:
        """Put the real loader back, then run the module with it."""
        real, spec, hook = self._real, self._spec, self._hook
        name = spec.name
        if spec.loader is self:  # another tool may have put its own around ours
            spec.loader = real
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = real
        executed = hook.executed
        executed.discard(name)  # it may run again (`reload`)
        if (listener := hook.listener) is None:
            self._exec(module)
        else:
            token = listener.begin(name)
            try:
                self._exec(module)
            finally:
                listener.end(token)
        executed.add(name)
        if name in hook.waiting:
            hook.call_back(name, sys.modules.get(name, module))  # a module may put another in its place


class _Changed(_Loader):
    """The same, once something was assigned to it."""

    __slots__ = ()

    @property
    def exec_module(self) -> Any:
        attribute = self._real.exec_module
        return super().exec_module if attribute == self._exec else attribute

    @property
    def create_module(self) -> Any:
        attribute = self._real.create_module
        return super().create_module if attribute == self._create else attribute


_set_hook, _set_spec, _set_real, _set_create, _set_exec = (
    vars(_Loader)[name].__set__ for name in ("_hook", "_spec", "_real", "_create", "_exec")
)
_set_class = vars(object)["__class__"].__set__
