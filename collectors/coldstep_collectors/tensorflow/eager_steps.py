"""Sees what runs operation by operation: a program's own steps outside of any `tf.function`, and every `tf.function`
while `tf.config.run_functions_eagerly(True)` is on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any

from coldstep._util.slotted import slotted_object
from coldstep.candidates import Candidate, Kind
from coldstep.clock import now
from coldstep.collector import SessionSink
from coldstep.events import Args, Finding
from coldstep.places import arguments, location_of
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.steps.call_sites import CallSites, class_of
from coldstep_collectors.tensorflow._private.hooks import layers_of
from coldstep_collectors.tensorflow._private.keras_models import loop_of_model
from coldstep_collectors.tensorflow.traceable import keeps_from_tracing

_LEAST = 3
"""Calls from one line: fewer are no training."""
_SWITCHES = ("run_functions_eagerly", "experimental_run_functions_eagerly")
_UNKNOWN = "what that costs is not known"
_SWITCHED = "tf.config.run_functions_eagerly(True): {function} is a tf.function, and runs operation by operation; "
_BY_KERAS = "run_eagerly of {model} is True: Keras runs each of its steps operation by operation; "
_OWN = (
    "{function} {does} outside of any tf.function: each operation there, those of {what} among them, runs by itself; "
)
_NOT_YET = "{function} may read, show or keep a tensor's value: move that out of what TensorFlow is to trace{then}."
_AS_TENSOR = "{function} is given {name}, a Python number: pass a tensor, as each other number is traced anew, and put "


@slotted_object
class _Site:
    """One line that calls something, on one thread."""

    code: CodeType
    """While it lives its id is its own."""
    candidate: Candidate | None
    calls: int = 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.within = 0  # functions that run as plain Python


class EagerSteps:
    """Watches TensorFlow, and Keras over it, until stopped; `guard` puts a hook behind the collector's breaker."""

    def __init__(
        self, sink: SessionSink, tensorflow: Any, sites: CallSites, guard: Callable[[Callable[..., Any]], Any]
    ) -> None:
        self._sink, self._tensorflow, self._sites, self._guard = sink, tensorflow, sites, guard
        self._patches: list[Patch] = []
        self._thread = _Thread()
        self._known: dict[tuple[object, ...], _Site] = {}
        self._told: set[object] = set()
        self._watches_functions = False
        self._set_at: Args | None = None
        """The user's line that set the switch."""
        self._gradients: Finding | None = None
        """What is to be reported of gradients outside of any function."""
        self._attach()

    def _attach(self) -> None:
        config = getattr(self._tensorflow, "config", None)
        self._is_on: Callable[[], bool] = getattr(config, "functions_run_eagerly", lambda: False)
        switched = self._guard(self._switched)
        for name in _SWITCHES:
            if (original := getattr(config, name, None)) is not None:
                self._patches.append(Patch(config, name, _followed(original, switched)))
        if self._is_on():
            self._watch_functions()
        tape: Any = getattr(self._tensorflow, "GradientTape", None)
        if hasattr(tape, "gradient"):
            self._watch(tape, "gradient", self._computes_gradients, self._ended)
        self._sink.when_imported("keras", self._attach_to_keras)

    def stop(self, *, traced: bool) -> list[str]:
        """Watch no longer; what stays, in words. `traced`: whether any function was; else gradients alone, where no
        optimizer has stepped, are a step."""
        if self._gradients is not None and not self._told and not traced:
            self._sink.emit(self._gradients)
        self._known.clear()
        return undo_all(self._patches)

    def _attach_to_keras(self, keras: Any) -> None:
        kind: Any = getattr(getattr(keras, "optimizers", None), "Optimizer", None)
        backend = getattr(getattr(keras, "config", None), "backend", None)
        if backend is not None and backend() == "tensorflow" and hasattr(kind, "apply"):
            self._watch(kind, "apply", self._applies, self._ended)

    def _watch(self, kind: Any, method: str, begins: Callable[..., Any], ended: Callable[..., None]) -> None:
        self._patches.append(Patch(kind, method, _around(getattr(kind, method), *map(self._guard, (begins, ended)))))

    # --- the switch -------------------------------------------------------------------------------------------

    def _switched(self, frame: FrameType) -> None:
        if self._is_on():
            users = self._sites.users_frame(frame)
            self._set_at = location_of(users) if users is not None else None
            self._watch_functions()

    def _watch_functions(self) -> None:
        if not self._watches_functions:
            self._watches_functions = True
            kind = type(self._tensorflow.function(_nothing))
            self._watch(kind, "__call__", self._function_begins, self._function_ended)

    def _function_begins(self, function: Any, frame: FrameType) -> tuple[_Site | None, int] | None:
        if not self._is_on():
            return None
        self._thread.within += 1
        users = self._sites.users_frame(frame) if self._thread.within == 1 else None
        if users is None:
            return None, 0
        site = self._site("call", lambda: _name(function), users)
        if site.calls == _LEAST and "switch" not in self._told:
            self._told.add("switch")
            text = _SWITCHED.format(function=_name(function)) + _UNKNOWN
            hindered = self._hindered([function], [], "")
            self._sink.emit(_finding(text, self._set_at or location_of(users), hindered))
        return site, now()

    def _function_ended(self, begun: tuple[_Site | None, int]) -> None:
        self._thread.within -= 1
        self._ended(begun)

    # --- optimizers -------------------------------------------------------------------------------------------

    def _applies(self, optimizer: Any, frame: FrameType) -> tuple[_Site, int] | None:
        if self._thread.within or not self._tensorflow.executing_eagerly():
            return None
        if (users := self._sites.users_frame(frame)) is None:
            return None
        site = self._site("optimizer", lambda: f"{class_of(optimizer, 'keras.', 'keras.optimizers')}.apply", users)
        if site.calls == _LEAST:
            self._tell_applied(class_of(optimizer, "keras.", "keras.optimizers"), users, frame)
        return site, now()

    def _computes_gradients(self, _: Any, frame: FrameType) -> None:
        if self._told or self._gradients is not None or self._thread.within:
            return
        users = self._sites.users_frame(frame) if self._tensorflow.executing_eagerly() else None
        if users is None or self._site(None, str, users).calls < _LEAST or loop_of_model(frame) is not None:
            return
        self._gradients = self._own_step("computes gradients", "tf.GradientTape.gradient", users)

    def _tell_applied(self, optimizer: str, users: FrameType, frame: FrameType) -> None:
        loop = loop_of_model(frame)
        key = users.f_code, loop is None
        if key in self._told:
            return
        self._told.add(key)
        if loop is None:
            self._sink.emit(self._own_step("trains", f"{optimizer}.apply", users))
            return
        model, caller = loop
        if (place := self._sites.users_frame(caller)) is not None and getattr(model, "run_eagerly", False):
            text = _BY_KERAS.format(model=type(model).__name__) + _UNKNOWN
            self._sink.emit(_finding(text, location_of(place), self._hindered([model], {"train_step"}, "")))

    def _own_step(self, does: str, what: str, users: FrameType) -> Finding:
        """That the user's function does this by itself, as it calls `what`."""
        code, place_at, given = users.f_code, location_of(users), arguments(users)
        function = str(place_at["function"]).replace("<module>", "the script")
        then = f", and put @tf.function above {function}"
        numbers = [name for name, value in given if type(value) in (int, float)]
        advice = self._hindered([value for _, value in given], code.co_names, then) or self._hindered(
            [users.f_globals[each] for each in code.co_names if each in users.f_globals], code.co_names, then
        )
        if numbers:
            advice = _AS_TENSOR.format(function=function, name=numbers[0]) + f"@tf.function above {function}."
        return _finding(_OWN.format(function=function, does=does, what=what) + _UNKNOWN, place_at, advice)

    # --- both -------------------------------------------------------------------------------------------------

    def _site(self, kind: Kind | None, name: Callable[[], str], users: FrameType) -> _Site:
        key = kind, id(users.f_code), users.f_lasti, get_ident()
        if (site := self._known.get(key)) is None:
            made = self._sites.candidate(kind, name(), users) if kind is not None and self._sink.infers else None
            if made is not None:
                made.looked = 1  # all that it keeps is in variables: there are no results to follow
            site = self._known[key] = _Site(users.f_code, made)
        site.calls += 1
        return site

    def _ended(self, begun: tuple[_Site | None, int]) -> None:
        site, begin = begun
        if site is not None and site.candidate is not None:
            site.candidate.calls.append((begin, now()))

    def _hindered(self, things: list[Any], names: Any, then: str) -> str:
        """What to do first about a function that may not be traced as it is; "" where there is none."""
        function = keeps_from_tracing(things, names, self._sites.is_users)
        return _NOT_YET.format(function=function, then=then) if function else ""


def _finding(text: str, place: Args, advice: str) -> Finding:
    return Finding(now(), "uncompiled", "warning", text, "tensorflow", advice=advice, location=place)


def _followed(original: Any, then: Callable[[FrameType], object]) -> Any:
    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        then(sys._getframe(1))
        return result

    return called


def _around(original: Any, begins: Callable[[Any, FrameType], Any], ended: Callable[[Any], object]) -> Any:
    @wraps(original)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (begun := begins(self, sys._getframe(1))) is None:
            return original(self, *args, **kwargs)
        try:
            return original(self, *args, **kwargs)
        finally:
            ended(begun)

    # AutoGraph rewrites every function that a traced one calls, but for those that have this
    vars(called)["autograph_info__"] = {}
    return called


def _nothing() -> None:
    """What a tf.function is made of, to see its class."""


def _name(function: Any) -> str:
    """What a `tf.function` was made of."""
    made_of = [each for each in layers_of(function.python_function) if isinstance(each, FunctionType)]
    return made_of[-1].__qualname__.rpartition("<locals>.")[2] if made_of else "a function"
