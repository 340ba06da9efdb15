"""Sees the calls of jitted functions, of which some are a program's steps: the function, the place, and the calls that
its results feed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any
from weakref import ref

from coldstep._util.slotted import field, slotted_object
from coldstep.candidates import Candidate
from coldstep.clock import now
from coldstep.errors import our_errors
from coldstep_collectors.jax._private import calls as private
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.steps.call_sites import CallSites
from coldstep_collectors.values import name_of

_HELPERS = ("jax", "optax")  # packages whose jitted functions are never a program's steps


@slotted_object
class _Function:
    """A function that was given to `jit`, for as long as it lives."""

    name: str
    gradients: bool | None = None
    sites: dict[tuple[int, int, int], Candidate | None] = field(default_factory=dict)
    """By the caller's code (its id), its instruction there, and the thread."""
    codes: dict[int, CodeType] = field(default_factory=dict)
    """Those that are meant by these ids."""


class JaxCalls:
    """Watches JAX's calls until stopped; `failed` gets an error in that."""

    def __init__(self, sites: CallSites, failed: Callable[[Exception], None]) -> None:
        self._sites = sites
        self._failed = failed
        self._undo: list[Undo] = []
        self._known: dict[int, tuple[ref[Any], _Function | None]] = {}
        self._jitted: dict[int, tuple[ref[Any], _Function | None]] = {}
        self._others: dict[int, tuple[ref[Any], _Function | None]] = {}  # those that are none of the user's
        self._results: dict[int, tuple[ref[Any], Candidate]] = {}

    def attach(self, jax: Any) -> list[str]:
        """Watch from now on; what cannot be seen, in words."""
        missing: list[str] = []
        self._leaves: Callable[[Any], list[Any]] = jax.tree_util.tree_leaves
        self._undo.append(private.after_slow_calls(self._slow_ended, missing))
        self._undo.append(private.on_fast_calls(self._unless_others(), missing))
        return missing

    def forked(self) -> None:
        """See `Source`."""
        for _, function in [*self._known.values(), *self._jitted.values()]:
            if function is not None:
                function.sites.clear()
        self._results.clear()

    def stop(self) -> list[str]:
        """Watch no longer; what stays, in words."""
        left = undo_all(self._undo)
        for known in (self._known, self._jitted, self._others, self._results):
            known.clear()
        return left

    # --- hooks ------------------------------------------------------------------------------------------------

    def _unless_others(self) -> private.PostHook:
        # every operation that runs by itself comes here, too: a method, and what follows, would cost it twice as much
        others, fast_ended = self._others, self._fast_ended

        def ended(jitted: Any, args: Any, kwargs: Any, output: Any) -> None:
            if id(jitted) not in others:
                fast_ended(jitted, sys._getframe(1), args, kwargs, output)

        return ended

    def _fast_ended(self, jitted: Any, frame: FrameType, args: Any, kwargs: Any, output: Any) -> None:
        if not (self._undo and self._sites.awake()):
            return
        try:
            known = self._jitted.get(id(jitted))
            function = known[1] if known is not None else self._function_of(jitted)
            if function is not None:
                self._ended(function, frame, args, kwargs, output)
        except our_errors() as error:
            self._failed(error)

    def _slow_ended(self, frame: FrameType) -> None:
        try:
            if not (self._undo and self._sites.awake()) or (call := private.called(frame)) is None:
                return
            fun, args, kwargs, output = call
            if (function := self._made_of(fun)) is not None:
                if not function.gradients:
                    function.gradients = private.computes_gradients(frame)
                self._ended(function, frame, args, kwargs, output)
                if (users := self._sites.users_frame(frame)) is not None and users is private.caller(frame):
                    self._sites.call_ended(users, output)
        except our_errors() as error:
            self._failed(error)

    def _ended(self, function: _Function, frame: FrameType, args: Any, kwargs: Any, output: Any) -> None:
        ns = now()
        key = id(frame.f_code), frame.f_lasti, get_ident()
        candidate = function.sites[key] if key in function.sites else self._look_up(function, frame, key)
        if candidate is None:
            return
        candidate.calls.append(ns)
        if candidate.is_new:
            self._follow(candidate, args, kwargs, output)

    def _look_up(self, function: _Function, frame: FrameType, key: tuple[int, int, int]) -> Candidate | None:
        if (users := self._sites.users_frame(frame)) is not None and users is not frame:
            # what is between may be called from many lines
            key = id(users.f_code), users.f_lasti, key[2]
            if key in function.sites:
                return function.sites[key]
        code = (users or frame).f_code
        function.codes[id(code)] = code
        made = self._sites.candidate("call", function.name, users, gradients=function.gradients)
        function.sites[key] = made
        return made

    # --- which function ---------------------------------------------------------------------------------------

    def _function_of(self, jitted: Any) -> _Function | None:
        """The function behind a jitted one; None for what is none of the user's."""
        fun = private.behind(jitted)
        function = self._made_of(fun) if fun is not None else None
        return _remembered(self._others if function is None else self._jitted, jitted, function)

    def _made_of(self, fun: Any) -> _Function | None:
        if (known := self._known.get(id(fun))) is not None:
            return known[1]
        given = private.given(fun)
        is_helper = str(getattr(given, "__module__", None) or "").partition(".")[0] in _HELPERS
        return _remembered(self._known, fun, None if is_helper else _Function(name_of(given)))

    # --- what goes into a call --------------------------------------------------------------------------------

    def _follow(self, candidate: Candidate, args: Any, kwargs: Any, output: Any) -> None:
        """Keep whose results went into this call, and its own, by weak references."""
        results = self._results
        given = ((leaf, results.get(id(leaf))) for leaf in self._leaves((args, kwargs)))
        candidate.looked += 1
        for id_ in {kept[1].id for leaf, kept in given if kept is not None and kept[0]() is leaf}:
            candidate.fed[id_] = candidate.fed.get(id_, 0) + 1
        for leaf in self._leaves(output):
            try:
                results[id(leaf)] = ref(leaf), candidate
            except TypeError:  # a number
                continue


def _remembered(
    known: dict[int, tuple[ref[Any], _Function | None]], key: Any, function: _Function | None
) -> _Function | None:
    """What is known of an object, kept for as long as it lives: another one may have its id then. None for an object
    of which that cannot be seen."""
    id_ = id(key)
    try:
        known[id_] = ref(key, lambda _: known.pop(id_, None)), function
    except TypeError:
        return None
    return function
