"""Sees what PyTorch programs do again and again: steps of optimizers, and calls of what torch.compile returned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from threading import get_ident
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any
from weakref import ref

from coldstep._util.slotted import slotted_object
from coldstep.candidates import Candidate
from coldstep.clock import now
from coldstep.errors import contained, our_errors
from coldstep.events import Args, Finding
from coldstep.places import is_installed, location_of
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.steps.call_sites import CallSites, class_of
from coldstep_collectors.torch._private import ahead
from coldstep_collectors.torch._private import calls as private
from coldstep_collectors.torch._private.frames import graphs
from coldstep_collectors.values import name_of


@slotted_object
class _Optimizer:
    """An optimizer, for as long as it lives."""

    alive: ref[Any]
    name: str
    number: int


@slotted_object
class _Call:
    """A call under way: ends when it is called."""

    candidate: Candidate
    begin: int
    ended: Callable[[], None]

    def __call__(self) -> None:
        self.candidate.calls.append((self.begin, now()))
        self.ended()


@dataclass(frozen=True, slots=True)
class _Given:
    """What a call of torch.compile was given."""

    name: str
    is_module: bool
    place: Args
    """Where that call is."""
    by_forward: tuple[str, ...] = ()
    """The methods of the module's that call its `forward` by name: no wrapper of the module is called then."""


_UNCALLED = "nobody called what torch.compile returned for {function}, and nothing was compiled"
_FORWARD = "forward"
_BY_FORWARD = "{method} of {function} calls forward itself"
_CALL_IT = "Call what torch.compile returned, and not the function itself."
_UNDER = "{function} runs eagerly: its first call was under {mode}, and PyTorch did not compile it"
_OUTSIDE = "Make the first call outside of the mode: under it call the function or module itself, uncompiled."


def _nothing() -> None:
    """The end of a call that nobody looks at."""


class TorchCalls:
    """Watches PyTorch's calls until stopped; `failed` gets an error in that. Functions may have been
    `compiled_before`."""

    def __init__(self, sites: CallSites, failed: Callable[[Exception], None], *, compiled_before: bool) -> None:
        self._sites = sites
        self._compiled_before = compiled_before
        self._stepped = False
        self._failed = failed
        self._undo: list[Undo] = []
        self._on = True
        self._numbers = 0
        self._optimizers: dict[int, _Optimizer] = {}
        self._made: Candidate | None = None
        """Where the last optimizer was made."""
        self._given: dict[int, _Given] = {}
        """By the number of a call of torch.compile: what nobody has called since."""
        self._under: list[tuple[str, str, Args, bool]] = []
        """First calls under a TorchDispatchMode: the function, the mode, the user's line, whether it is a module."""
        self._begun: dict[tuple[int, int], tuple[int, Candidate]] = {}
        self._places: dict[tuple[object, ...], Candidate | None] = {}
        self._codes: dict[int, Any] = {}
        """What keys have ids of, so that nothing else gets these: code, and classes."""

    def attach(self, torch: Any) -> list[str]:
        """Watch optimizers from now on; what cannot be seen, in words."""
        missing: list[str] = []
        self._torch = torch
        self._grad_on: Callable[[], bool] = torch.is_grad_enabled
        around = private.around_optimizer_steps(torch, self._step_begins, self._step_ended, missing)
        self._undo += (patch.undo for patch in around)
        self._undo.append(private.after_optimizers_are_made(torch, self._optimizer_made, missing))
        return missing

    def attach_to_contexts(self, module: ModuleType) -> list[str]:
        """The same of what torch.compile returns from now on."""
        missing: list[str] = []
        if self._on:
            undo = private.around_compiled_calls(
                module, self._call_begins, missing, made=self._given_to, made_before=self._compiled_before
            )
            self._undo.append(undo)
        return missing

    def attach_to_ahead(self, _: ModuleType) -> list[str]:
        """The same for functions compiled ahead of their calls, or loaded so."""
        if self._on and (patch := ahead.around_calls(self._ahead_begins)) is not None:
            self._undo.append(patch.undo)
        return []

    def dynamo_imported(self, _: ModuleType) -> list[str]:
        """The first optimizer that is made imports Dynamo: it is made only then."""
        if not (self._on and self._sites.awake()):
            return []
        if self._made is not None and private.is_making_optimizer(sys._getframe(1)):
            ns = now()
            self._made.calls.append((ns, ns))
        return []

    def attach_to_scaler(self, module: ModuleType) -> list[str]:
        """The same of gradient scalers."""
        missing: list[str] = []
        if self._on:
            scaler = getattr(module, "GradScaler", None)
            self._undo.append(private.after_scaler_updates(scaler, self._scaler_updated, missing))
        return missing

    def forked(self) -> None:
        """See `Source`."""
        self._made = None
        self._begun.clear()
        self._places.clear()

    def stop(self) -> list[str]:
        """Watch no longer; what stays, in words."""
        self._on = False
        left = undo_all(self._undo)
        for known in (self._optimizers, self._begun, self._places, self._codes):
            known.clear()
        return left

    # --- optimizers -------------------------------------------------------------------------------------------

    def _step_begins(self, optimizer: Any, frame: FrameType) -> bool:
        if not (self._on and self._sites.awake()):
            return False
        self._between_calls(None)
        begin = now()
        try:
            known = self._optimizers.get(id(optimizer)) or self._number(optimizer)
            caller = frame.f_back or frame
            key = known.number, id(caller.f_code), caller.f_lasti, get_ident()
            if key in self._places:
                candidate = self._places[key]
            else:
                candidate = self._new(key, caller.f_code, known, self._sites.users_frame(caller))
            if candidate is not None:
                self._begun[id(optimizer), key[3]] = begin, candidate
        except our_errors() as error:
            self._fail(error)
            return False
        return candidate is not None

    def _step_ended(self, optimizer: Any) -> None:
        if not (self._on and self._sites.awake()):
            return
        if (begun := self._begun.pop((id(optimizer), get_ident()), None)) is not None:
            begin, candidate = begun
            candidate.calls.append((begin, now()))
            if not self._stepped:
                self._stepped = True
                self._sites.call_ended(sys._getframe(1), None)
            self._between_calls(private.step_span(optimizer))

    def _between_calls(self, within: str | None = "") -> None:
        """See `Sink.between_calls`; what an optimizer calls in its step is within that."""
        if self._begun:
            thread = get_ident()
            if any(of == thread for _, of in list(self._begun)):
                return
        self._sites.between_calls(within)

    def _number(self, optimizer: Any) -> _Optimizer:
        id_, known = id(optimizer), self._optimizers
        self._numbers += 1
        alive = ref(optimizer, lambda _: known.pop(id_, None))
        known[id_] = _Optimizer(alive, f"{class_of(optimizer, 'torch.optim.', 'torch.optim')}.step", self._numbers)
        return known[id_]

    def _new(
        self, key: tuple[object, ...], code: CodeType, known: _Optimizer, frame: FrameType | None
    ) -> Candidate | None:
        self._codes[id(code)] = code
        made = self._sites.candidate("optimizer", known.name, frame, instance=known.number)
        self._places[key] = made
        return made

    def _optimizer_made(self, optimizer: Any, frame: FrameType) -> None:
        if not (self._on and self._sites.awake()):
            return
        ns = now()
        with contained(self._fail):
            users = self._sites.users_frame(frame)
            place = users if users is not None else frame
            key = type(optimizer), id(place.f_code), place.f_lasti, get_ident()
            if key not in self._places:
                self._codes[id(place.f_code)] = place.f_code
                name = class_of(optimizer, "torch.optim.", "torch.optim")
                self._places[key] = self._sites.candidate("setup", name, users)
            if (candidate := self._places[key]) is not None:
                candidate.calls.append((ns, ns))
            self._made = candidate

    def _scaler_updated(self, frame: FrameType) -> None:
        if not (self._on and self._sites.awake()):
            return
        with contained(self._fail):
            key = "scaler", id(frame.f_code), frame.f_lasti, get_ident()
            if key not in self._places:
                self._codes[id(frame.f_code)] = frame.f_code
                users = self._sites.users_frame(frame)
                self._places[key] = self._sites.candidate("optimizer", "torch.amp.GradScaler.update", users)
            if (candidate := self._places[key]) is not None:
                candidate.calls.append(now())

    # --- compiled functions -----------------------------------------------------------------------------------

    def _given_to(self, number: int, frame: FrameType) -> None:
        with contained(self._fail):
            place, thing = self._sites.users_frame(frame), private.given(frame)
            if place is not None and thing is not None:
                private.keep_site(frame, location_of(place))
                code = getattr(private.unwrapped(thing), "__code__", None)
                is_others = code is not None and not self._sites.is_users(code.co_filename)
                if is_others or is_installed(place.f_code.co_filename):
                    return  # a library compiles a function of its own, which the program need not call
                is_module = isinstance(thing, self._torch.nn.Module)
                calling = tuple(self._calling_forward(type(thing))) if is_module else ()
                self._given[number] = _Given(_name(thing), is_module, location_of(place), calling)

    def _calling_forward(self, module: type) -> Iterator[str]:
        """The user's methods of a module's class that call its `forward` by name."""
        for name, method in chain.from_iterable(vars(each).items() for each in module.__mro__):
            if not isinstance(method, FunctionType) or name == _FORWARD:
                continue
            if _FORWARD in method.__code__.co_names and self._sites.is_users(method.__code__.co_filename):
                yield name

    def _called_first(self, wrapper: FrameType, given: _Given) -> None:
        with contained(self._fail):
            frame, mode = self._sites.users_frame(wrapper), private.dispatch_mode()
            if frame is not None and mode:
                name = _name(private.compiled(wrapper))
                self._under.append((name, mode.lstrip("_"), location_of(frame), given.is_module))

    def end(self) -> None:
        """As the program ends: tell why nothing was compiled of what torch.compile returned."""
        if not self._on or graphs():
            return
        for each in self._given.values():
            why = [_BY_FORWARD.format(method=method, function=each.name) for method in each.by_forward]
            text, advice = _UNCALLED.format(function=each.name), "" if each.is_module else _CALL_IT
            self._uncompiled(text, advice, each.place, why)
        for name, mode, place, is_module in self._under:
            self._uncompiled(_UNDER.format(function=name, mode=mode), "" if is_module else _OUTSIDE, place, [])

    def _uncompiled(self, text: str, advice: str, place: Args, evidence: list[str]) -> None:
        self._sites.tell(Finding(now(), "uncompiled", "warning", text, "torch", None, evidence, advice, place))

    def _call_begins(self, number: int, wrapper: FrameType) -> Callable[[], None]:
        if (given := self._given.pop(number, None)) is not None:
            self._called_first(wrapper, given)
        return self._begins(number, wrapper, lambda: private.compiled(wrapper))

    def _ahead_begins(self, what: Any, caller: FrameType) -> Callable[[], None]:
        def named() -> Any:
            self._codes[id(what)] = what
            return what

        return self._begins(("ahead", id(what)), caller, named)

    def _begins(self, which: object, wrapper: FrameType, function: Callable[[], Any]) -> Callable[[], None]:
        if not (self._on and self._sites.awake()):
            return _nothing
        self._between_calls(None)  # what is to be recorded of it begins before it
        begin = now()
        try:
            frame = self._sites.users_frame(wrapper)
            place = frame if frame is not None else wrapper
            key = which, id(place.f_code), place.f_lasti, self._grad_on(), get_ident()
            candidate = self._places[key] if key in self._places else self._new_call(key, function(), place, frame)
            return _nothing if candidate is None else _Call(candidate, begin, self._call_ended)
        except our_errors() as error:
            self._fail(error)
            return _nothing

    def _call_ended(self) -> None:
        if not self._stepped:  # else there are better times: after the backward, and the optimizer
            self._between_calls()

    def _new_call(
        self, key: tuple[object, ...], function: Any, place: FrameType, frame: FrameType | None
    ) -> Candidate | None:
        self._codes[id(place.f_code)] = place.f_code
        if (optimizer := private.stepped(function, self._torch.optim.Optimizer)) is not None:
            known = self._optimizers.get(id(optimizer)) or self._number(optimizer)
            made = self._sites.candidate("optimizer", known.name, frame, instance=known.number)
        else:
            made = self._sites.candidate("call", _name(function), frame, gradients=bool(key[3]))
        self._places[key] = made
        return made

    def _fail(self, error: Exception) -> None:
        self._on = False
        self._failed(error)


def _name(function: Any) -> str:
    """What was given to torch.compile, by its name; of a module, or of the method that calls one, the module's. Of what
    was compiled ahead there is the code, or the module's class."""
    if isinstance(function, CodeType):
        return function.co_qualname.rpartition("<locals>.")[2]
    if isinstance(function, type):
        return name_of(function)
    function = private.unwrapped(function)
    owner = getattr(function, "__self__", None)
    is_call = owner is not None and getattr(function, "__name__", "") in ("forward", "_call_impl", "_wrapped_call_impl")
    return name_of(type(owner) if is_call else function)
