"""The marks that a program sets inside a trace: `step()`, `steps()`, `annotate()`, `wait()` and `ready()`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from coldstep.clock import now
from coldstep.events import Begin, End, Ready, StepBegin, StepEnd
from coldstep.places import Places, location_of
from coldstep.session import Session, active

if TYPE_CHECKING:
    from coldstep.notices.late import LateCompile
    from coldstep.recording.buffer import Buffer

T = TypeVar("T")

_FLUSHED_STEPS = 32  # the exits of this many first steps return only when they are on disk
_FOLDER = os.path.join(os.path.dirname(__file__), "")
_NO_MARK = contextlib.nullcontext()
_modules = sys.modules


def step(name: str = "step") -> contextlib.AbstractContextManager[None]:
    """Mark one training step: `with coldstep.step(): …`. coldstep counts steps, and judges settling, by name.

    Outside a trace, and while a compiler traces the code around it, it does nothing.
    """
    if _compiling():
        return contextlib.nullcontext()
    if (session := active()) is None:
        return _NO_MARK
    if session.traced():
        return contextlib.nullcontext()
    return _Step(session, str(name))


def steps(iterable: Iterable[T], name: str = "step") -> Iterator[T]:
    """Mark each iteration of a loop over `iterable` as a step. `next()` runs in the interval before the step."""
    for item in iterable:
        with step(name):
            yield item


def annotate(name: str) -> contextlib.AbstractContextManager[None]:
    """Draw a slice called `name` around the block. It never counts as a phase. Outside a trace it does nothing."""
    if _compiling():
        return contextlib.nullcontext()
    if (session := active()) is None:
        return _NO_MARK
    if session.traced():
        return contextlib.nullcontext()
    return _Annotation(session, str(name))


def wait(x: T) -> T:
    """Return `x` once the device has computed it. The time counts for the step's phase `execute`.

    `x` is a JAX array, a CUDA tensor, a torch_xla tensor, or a dict, list or tuple of them. If the computation failed,
    `wait` raises its error; torch_xla raises its own only where a value is read. Outside a trace, `wait` returns `x` at
    once.
    """
    if _compiling():
        return x
    session = active()
    if session is None or session.traced():
        return x
    session.before_mark()
    begin = Begin(now(), "wait", "execute", "execute")
    session.emit(begin)
    try:
        for waiter in session.waiters:
            waiter(x)
    finally:
        session.emit(End(now(), begin))
        session.steps.waited = True
    if session.at_marks:
        session.listeners.tell(sys._getframe(1))
    return x


def ready(name: str = "ready", action: str | Callable[[LateCompile], object] = "note") -> None:
    """Declare the program warmed up: from now on nothing may compile, in any framework and on any thread.

    The report shows each later compile with its cause and the nearest call of the warm-up. It also shows, as code, the
    calls that the warm-up lacks. `coldstep check --ready` fails. stderr shows a line for each compile as it happens.

    `action` determines what else happens, at the next mark of the thread that compiled (`wait`, the end of a step or of
    the trace; never inside the framework). "note": nothing. "raise": the mark raises a `NotReadyError`. A function:
    coldstep calls it with a `LateCompile`. Under asyncio, the next mark may belong to another task of that thread. If
    the thread makes no further mark, nothing happens. After a second call of `ready`, with any name, further
    compiles count for that call.

    Outside a trace, and while a compiler traces the code around it, `ready` does nothing. Raises ValueError for an
    unknown `action`.
    """
    if _compiling():
        return
    if action not in ("note", "raise") and not callable(action):
        raise ValueError(f"action={action!r} is none of 'note', 'raise' and a function")
    session = active()
    if session is None or session.traced():
        return
    session.before_mark()
    _say_ready(session, str(name), sys._getframe(1))
    session.listeners.when_late(action)


class _Step:
    """One marked step: two stamps, appended."""

    __slots__ = ("_begin", "_dispatches", "_nested", "_session", "_unsettled", "buffer", "name")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self._begin: StepBegin | None = None
        self._nested: _Annotation | None = None
        self.buffer: Buffer | None = None

    # Ctrl-C can come between any two lines below: what has been emitted counts, and `finish` ends an open step

    def __enter__(self) -> None:
        session = self._session
        steps = session.steps
        outer = steps.open.setdefault("step", self)
        if outer is not self and outer.buffer is not None and not outer.buffer.is_alive:
            session.flush()  # which ends it
            outer = steps.open.setdefault("step", self)
        if outer is not self:
            if not steps.told_nested:
                steps.told_nested = True
                session.note(f"Step {self.name!r} was opened while step {outer.name!r} was open: it became an "
                             "annotation, as does every step inside another.")  # fmt: skip
            self._nested = _Annotation(session, self.name)
            self._nested.__enter__()
            return
        if (window := steps.window) is not None and self.name not in window.rested:
            window.step_begins(self.name)
        if session.mark_hooks:
            session.before_mark(step_begins=True)
        if not steps.ordinals:
            steps.first_mark()
        n = steps.ordinals.get(self.name, 0)
        steps.ordinals[self.name] = n + 1
        steps.waited = False
        self._unsettled = steps.unsettled
        self._dispatches = steps.dispatches
        begin = StepBegin(now(), self.name, n)
        self.buffer = session.append(begin)
        self._begin = begin

    def __exit__(self, _: object = None, error: BaseException | None = None, *__: object) -> None:
        session = self._session
        steps = session.steps
        if error is not None:
            steps.left_with(error)
        if steps.open.get("step") is not self:
            if self._nested is not None:
                self._nested.__exit__()
            return  # or the trace has ended inside this step, and closed it
        ended = now()
        if self._begin is None:
            steps.open.clear()
            return
        if session.mark_hooks:
            session.before_mark()
        session.append(StepEnd(ended, self._begin, steps.waited, steps.dispatches - self._dispatches))
        steps.open.clear()
        settled = steps.unsettled == self._unsettled
        if (window := steps.window) is not None and self.name not in window.rested:
            window.step_ended(self.name, not settled)
        steps.ended += 1
        if steps.ended == session.options.ready_after:
            _say_ready(session, "ready", sys._getframe(1))
        if (steps.ended <= _FLUSHED_STEPS or not settled) and session.in_own_process():
            session.flush()
            if self._begin.n == 0 and error is None:
                session.ahead.step_ended(self.name, _users(sys._getframe(1)))
        if session.at_marks:
            session.listeners.tell(_users(sys._getframe(1)))

    def end_with_thread(self) -> None:
        """Its thread has died in it. The marks of others must not become annotations inside it."""
        session = self._session
        if self._begin is not None:
            steps = session.steps
            session.append(StepEnd(now(), self._begin, steps.waited, steps.dispatches - self._dispatches))
            steps.ended += 1
        session.steps.open.clear()


class _Annotation:
    """A named stretch of the user's own code."""

    __slots__ = ("_begin", "_name", "_session")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    def __enter__(self) -> None:
        self._session.before_mark()
        self._begin = Begin(now(), self._name, "annotations")
        self._session.emit(self._begin)

    def __exit__(self, *_: object) -> None:
        self._session.before_mark()
        self._session.emit(End(now(), self._begin))


def _compiling() -> bool:
    # Dynamo reads this function too, and remembers what it looked at: only torch's own answer may decide, for a
    # look at anything of ours that changes would be a guard that fails
    compiler = _modules.get("torch.compiler")
    return compiler is not None and bool(compiler.is_compiling())


def _say_ready(session: Session, name: str, frame: FrameType) -> None:
    stack = [location_of(each) for each in Places().users_frames(frame)]
    session.emit(Ready(now(), name, stack))
    session.flush()


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not of this package: `steps` marks for the user, and a trace ends an open step."""
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return frame
