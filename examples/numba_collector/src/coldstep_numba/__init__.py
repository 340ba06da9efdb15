"""What Numba's `@jit` compiles, when, for which types and why again: a collector of a third party's for coldstep.

It listens to Numba's own events (`numba.core.event`), and says in `vocabulary` the words that coldstep has none for.
"""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import coldstep
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Args, Begin, End, Finding
from coldstep_numba.signature import describe
from coldstep_numba.words import OBJECT_MODE, SLOW, VOCABULARY

_LLVM_NS = 500_000  # LLVM is entered thousands of times a compile: what is shorter stays with the pass that it is in
_PASSES = {
    "translate_bytecode": "numba.bytecode",
    "fixup_args": "numba.bytecode",
    "ir_processing": "numba.bytecode",
    "nopython_type_inference": "numba.types",
    "find_literally": "numba.types",
    "annotate_types": "numba.types",
    "native_lowering": "numba.lower",
    "native_parfor_lowering": "numba.lower",
    "nopython_backend": "numba.lower",
    "object_mode_back_end": "numba.lower",
}
"""The phase of a pass; `numba.passes` of all others."""
_CACHED = "functions that Numba loads from its cache on disk (cache=True): it tells of what it compiles only"


@dataclass(slots=True)
class _Compile:
    """A compile under way on a thread: its segment, and the phase that is open in it."""

    id: str
    segment: Begin
    phase: Begin


class _Thread(threading.local):
    def __init__(self) -> None:
        self.compiles: list[_Compile] = []
        self.llvm_ns = 0


@dataclass(slots=True)
class _Numbers:
    """Numbers for objects, in the order in which they come, and without keeping them alive."""

    known: WeakKeyDictionary[Any, int] = field(default_factory=WeakKeyDictionary)
    next: int = 0

    def of(self, thing: object) -> int:
        number = self.known.get(thing)
        if number is None:
            self.next += 1
            number = self.known[thing] = self.next
        return number


class Numba:
    """The collector `numba`."""

    name = "numba"
    vocabulary = VOCABULARY

    def __init__(self) -> None:
        self._thread = _Thread()
        self._codes, self._functions = _Numbers(), _Numbers()
        self._listeners: list[tuple[str, Any]] = []

    def start(self, sink: Sink) -> None:
        """Wait for Numba."""
        self._sink = sink
        self._imported_before = "numba" in sys.modules
        sink.when_imported("numba", self._attach)

    def stop(self) -> list[str]:
        """Listen no longer."""
        for kind, listener in self._listeners:
            self._event.unregister(kind, listener)
        self._listeners.clear()
        return []

    def _attach(self, numba: Any) -> None:
        event = self._event = sys.modules["numba.core.event"]
        self._package = numba.__path__[0]

        class Listener(event.Listener):  # type: ignore[name-defined,misc]
            def __init__(self, on_start: Any, on_end: Any) -> None:
                self.on_start, self.on_end = on_start, on_end

            def on_start(self, event: Any) -> None: ...

            def on_end(self, event: Any) -> None: ...

        def listen(kind: str, on_start: Any, on_end: Any) -> None:
            listener = Listener(self._sink.guarded(self.name, on_start), self._sink.guarded(self.name, on_end))
            event.register(kind, listener)
            self._listeners.append((kind, listener))

        listen("numba:compile", self._compile_begins, self._compile_ends)
        listen("numba:run_pass", self._pass_begins, lambda _: None)
        listen("numba:llvm_lock", self._llvm_begins, self._llvm_ends)
        state = "late" if self._imported_before and self._has_compiled() else "attached"
        self._sink.state(self.name, state, numba.__version__, [_CACHED])

    def _has_compiled(self) -> bool:
        """Whether one of the user's own functions had compiled before. Numba keeps no list of them: Python does."""
        kind = sys.modules["numba.core.dispatcher"].Dispatcher
        known = (each for each in gc.get_objects() if kind in type(each).__mro__)  # asks no object for its class
        return any(each.overloads and self._is_users(each.py_func.__code__.co_filename) for each in known)

    # --- events -----------------------------------------------------------------------------------------------

    def _compile_begins(self, event: Any) -> None:
        ns = now()
        compiles = self._thread.compiles
        compile_id = self._sink.new_compile()
        args: Args = {"part": "forward"}
        dispatcher = event.data["dispatcher"]
        function = dispatcher.py_func
        args |= self._about(dispatcher, function.__code__, function.__qualname__, event.data["args"])
        if compiles:
            args["parent"] = compiles[-1].id
        segment = Begin(ns, function.__name__, "numba", None, compile_id, args)
        phase = Begin(ns, "numba.start", "numba", "numba.start")
        self._sink.emit(segment)
        self._sink.emit(phase)
        compiles.append(_Compile(compile_id, segment, phase))
        self._sink.compile_opened()
        self._sink.wake()

    def _compile_ends(self, event: Any) -> None:
        ns = now()
        compiles = self._thread.compiles
        if not compiles:  # it began before the trace
            return
        ended = compiles.pop()
        self._sink.emit(End(ns, ended.phase))
        # `event.is_failed` says the opposite of what it is called, in Numba 0.68
        if tuple(event.data["args"]) in event.data["dispatcher"].overloads:
            told: Args = {"outcome": "compiled"}
        else:
            error = sys.exception()
            # asked for again at once, with the value of an argument as its type
            again = type(error).__name__ == "ForceLiteralArg"
            told = {"outcome": "discarded" if again else "failed", "error": _said(error)}
        self._sink.emit(End(ns, ended.segment, told))
        self._sink.compile_closed()

    def _pass_begins(self, event: Any) -> None:
        compiles = self._thread.compiles
        if not compiles:
            return
        name = event.data["name"].partition(" [")[0]
        if name == "object_mode_front_end":
            text = f"{compiles[-1].segment.name} was compiled in object mode: its operations run as Python's own"
            found = Finding(now(), OBJECT_MODE, "warning", text, "numba", compiles[-1].id, advice=SLOW)
            self._sink.emit(found)
        phase = _PASSES.get(name, "numba.passes")
        if phase != compiles[-1].phase.phase:
            ns = now()
            self._sink.emit(End(ns, compiles[-1].phase))
            compiles[-1].phase = Begin(ns, phase, "numba", phase)
            self._sink.emit(compiles[-1].phase)

    def _llvm_begins(self, _: Any) -> None:
        self._thread.llvm_ns = now()

    def _llvm_ends(self, _: Any) -> None:
        began, ended = self._thread.llvm_ns, now()
        if began and ended - began >= _LLVM_NS and self._thread.compiles:
            phase = Begin(began, "numba.llvm", "numba", "numba.llvm")
            self._sink.emit(phase)
            self._sink.emit(End(ended, phase))

    # --- what is compiled -------------------------------------------------------------------------------------

    def _about(self, dispatcher: Any, code: CodeType, name: str, types: tuple[Any, ...]) -> Args:
        file = code.co_filename
        inputs, context = describe(dispatcher, code.co_varnames[: code.co_argcount], types)
        context["function"] = f"function {self._functions.of(dispatcher)}"
        place = {"file": file, "line": code.co_firstlineno, "function": name}
        args: Args = {
            "function": name.rpartition("<locals>.")[2],
            "origin": "user" if self._is_users(file) else "library",
            "key": f"numba:{file}:{name}",
            "identity": f"numba:{self._codes.of(code)}",
            "location": place,
            "inputs": inputs,
            "context": context,
        }
        if dispatcher.stats.cache_path is not None:
            args["caches"] = [{"layer": "Numba's cache", "state": "miss"}]
        if (caller := self._users_frame(sys._getframe(2))) is not None:
            called = caller.f_code
            args["caller"] = {"file": called.co_filename, "line": caller.f_lineno, "function": called.co_name}
        return args

    def _users_frame(self, frame: FrameType | None) -> FrameType | None:
        while frame is not None and not self._is_users(frame.f_code.co_filename):
            frame = frame.f_back
        return frame

    def _is_users(self, file: str) -> bool:
        installed = "/site-packages/" in file or "/dist-packages/" in file
        return not installed and not file.startswith(("<", self._package, *_NOT_THE_USERS))


_NOT_THE_USERS = (threading.__file__.rpartition("/")[0], *coldstep.__path__, *__path__)


def _said(error: BaseException | None) -> str:
    """An error in one line: Numba's first says where in the compiler, the second what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {': '.join(lines[:2])[:500]}" if lines else type(error).__name__
