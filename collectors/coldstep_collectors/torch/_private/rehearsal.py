"""Has Dynamo itself judge calls to come: it traces and guards a copy of the function, and no graph is compiled or run.

The copy has a code object of its own, and with it its own variants. What stands in for the backend stops the call
before the graph runs, and so before anything that the function would change.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from types import CodeType, FunctionType, MethodType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.errors import our_errors
from coldstep_collectors.torch._private import limits, names
from coldstep_collectors.values import closure

_NO_AUTOGRAD = ("eager",)
_LOGGER = "torch._dynamo.convert_frame"  # it warns of a limit that nobody has reached yet


_NEEDED = {
    "what a compiled function changes outside of itself": (names.EFFECTS, names.MODIFIED),
    "what a function was compiled for before": (names.ENTRIES,),
    "which sizes it has seen": (names.SIZES_SEEN,),
    "how it treats functions outside the user's code": (names.INLINED,),
}


class _Stopped(BaseException):
    """Raised where the graph would run."""


@slotted
class Verdict:
    """What Dynamo made of a call."""

    kind: str
    """hit | compiled | limit | broken | skipped | failed"""
    error: BaseException | None = None
    """Its words where it gave up."""
    changes: bool = False
    """Whether the graph is followed by changes to what lies outside of the function."""


class Rehearsal:
    """A copy of a function, as torch.compile would take it."""

    def __init__(self, torch: Any, function: Any) -> None:
        self._torch = torch
        self._context = _context(function)
        given = _given(torch, function)
        self.named: Any = getattr(given, "forward", given) if isinstance(given, torch.nn.Module) else given
        """A callable whose parameters have the names that the call's arguments get."""
        self._frame = _Frame(torch, given)
        self._entries = list(find(self._frame.code)) if (find := names.ENTRIES.find()) is not None else []
        self._made = 0
        self._changes = False
        dynamic = getattr(self._context, "_dynamic", None)
        self._rehearsed = torch._dynamo.optimize(self._backend, nopython=True, dynamic=dynamic)(self._frame.copy)

    @property
    def refused(self) -> str:
        """Why nothing can be tried; empty where it can."""
        if getattr(getattr(self._context, "_hooks", None), "guard_filter_fn", None) is not None:
            return "the option guard_filter_fn decides which guards there are"
        if getattr(self._context, "_shapes_spec", None) is not None:
            return "the option shapes_spec decides which sizes are left open"
        if missing := [words for words, hooks in _NEEDED.items() if any(hook.form() is None for hook in hooks)]:
            return f"this version of PyTorch hides {missing[0]}"
        return ""

    @property
    def is_new(self) -> bool:
        """Whether the function has no variants yet."""
        return not self._entries

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Around all calls: what Dynamo learns of sizes here it forgets again, and variants that are there count."""
        state = find() if (find := names.SIZES_SEEN.find()) is not None else {}
        known = copy.deepcopy(dict(state))
        logger = logging.getLogger(_LOGGER)
        was, logger.disabled = logger.disabled, True
        try:
            with self._limited():
                yield
        finally:
            logger.disabled = was
            state.clear()
            state.update(known)

    def _limited(self) -> Any:
        given = (getattr(each, "_recompile_limit", None) for each in _wrapped(getattr(self._context, "callback", None)))
        limit = next((each for each in given if isinstance(each, int)), limits.recompile_limit() or 0)
        name = form.name if (form := names.LIMIT.form()) is not None else "recompile_limit"
        return self._torch._dynamo.config.patch(**{name: limit - len(self._entries)})

    def judge(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Verdict:
        """What becomes of this call, after all those before it."""
        if self._entries:
            values = self._frame.values(args, kwargs)
            if any(entry.guard_manager.check(values) for entry in self._entries):
                return Verdict("hit")
        made, self._changes = self._made, False
        try:
            self._rehearsed(*args, **kwargs)
        except _Stopped:
            return Verdict("compiled" if self._made > made else "hit", None, self._changes)
        except our_errors() as error:
            if limits.is_limit({}, error):
                return Verdict("limit", error)
            return Verdict("broken" if type(error).__name__ == "Unsupported" else "failed", error)
        return Verdict("skipped")

    def failures(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Why none of the variants that were there before takes this call, in PyTorch's words."""
        values = self._frame.values(args, kwargs)
        return [
            str(text)
            for entry in reversed(self._entries)
            for text in entry.guard_manager.check_verbose(values).verbose_code_parts
        ]

    def _backend(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self._made += 1
        self._changes = _changes_something()
        if _compiler(self._context) not in _NO_AUTOGRAD:
            # AOTAutograd has guards of its own, of aliases and of sizes in the backward; the graph itself is not wanted
            self._torch._dynamo.lookup_backend("aot_eager")(graph, inputs)
        return _stop


class _Frame:
    """The frame that Dynamo compiles for what was given to torch.compile, and a copy of it."""

    def __init__(self, torch: Any, given: Any) -> None:
        function, owner = _function(torch, given)
        self.copy: Any
        if function is None:  # Dynamo puts a function of its own around it
            self.copy = names.INLINED.find()(given)
            self.code: CodeType = self.copy.__code__
            self.copy.__code__ = self.code.replace()
            self._bound: Any = None
            self._given = given
        else:
            self.code = function.__code__
            self._bound = function if owner is None else MethodType(function, owner)
            defaults, closed_over = function.__defaults__, function.__closure__
            copied = FunctionType(self.code.replace(), function.__globals__, function.__name__, defaults, closed_over)
            for name in ("__kwdefaults__", "__qualname__", "__module__"):
                setattr(copied, name, getattr(function, name))
            self.copy = copied if owner is None else MethodType(copied, owner)

    def values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The variables that guards look at, as they are when the frame begins."""
        if self._bound is None:
            return {"args": tuple(args), "kwargs": dict(kwargs), "fn": self._given}
        given = signature(self._bound).bind(*args, **kwargs)
        given.apply_defaults()
        values = dict(closure(getattr(self._bound, "__func__", self._bound))) | given.arguments
        if isinstance(self._bound, MethodType):
            values[self.code.co_varnames[0]] = self._bound.__self__
        return values


def _function(torch: Any, given: Any) -> tuple[FunctionType | None, Any]:
    """The user's function that is compiled as a frame of its own, and what it is a method of; None where Dynamo inlines
    what it was given."""
    if isinstance(given, torch.nn.Module):
        given = given.forward
    owner = given.__self__ if isinstance(given, MethodType) else None
    function = given.__func__ if isinstance(given, MethodType) else given
    folder = os.path.dirname(torch.__file__) + os.sep
    if isinstance(function, FunctionType) and not function.__code__.co_filename.startswith(folder):
        return function, owner
    return None, None


def _given(torch: Any, function: Any) -> Any:
    """What was given to torch.compile; the function itself where that is still to come."""
    if isinstance(function, torch.nn.Module):
        compiled = getattr(function, "_compiled_call_impl", None)
        return getattr(function, "_orig_mod", function) if compiled is None else function
    return getattr(function, "_torchdynamo_orig_callable", function)


def _context(function: Any) -> Any:
    """What torch.compile made of its options; None for a function that it was not given."""
    for each in (function, getattr(function, "_compiled_call_impl", None)):
        if cells := getattr(getattr(each, "get_compiler_config", None), "__closure__", None):
            return cells[0].cell_contents
    return None


def _wrapped(callback: Any) -> Iterator[Any]:
    """A callback of Dynamo's, and what it wraps; the last is the backend."""
    while callback is not None:
        yield callback
        callback = getattr(callback, "_torchdynamo_orig_backend", None)


def _compiler(context: Any) -> str:
    """The backend's name."""
    *_, backend = (None, *_wrapped(getattr(context, "callback", None)))
    return str(getattr(backend, "compiler_name", "inductor"))


def _stop(*_: Any) -> Any:
    raise _Stopped


def _changes_something() -> bool:
    """Whether the graph that is being handed to a backend comes with changes to what was there before the call."""
    [graph] = names.EFFECTS.local(names.EFFECTS.on_stack(sys._getframe(1))) or (None,)
    [modified] = names.MODIFIED.attributes(getattr(graph, "side_effects", None)) or (None,)
    # where it cannot be seen, it may
    return modified is None or any(type(each.mutation_type).__name__.endswith("Existing") for each in modified())
