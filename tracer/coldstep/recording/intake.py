"""A trace as its collectors see it: what they hand in, and what they may ask for (`coldstep.collector`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from coldstep.clock import now
from coldstep.collector import own_time
from coldstep.errors import contained, first_line
from coldstep.events import IR
from coldstep.recording.attached import Attached
from coldstep.recording.buffer import Drain
from coldstep.recording.garbage import GarbageWatch
from coldstep.recording.options import Options
from coldstep.recording.steps import Steps
from coldstep_shim import WAITS

if TYPE_CHECKING:
    from coldstep.notices.look_ahead import LookAhead

_MAX_IR_CHARS = 1 << 23  # of one program's text that is kept


class Intake:
    """The sink of one trace: it counts the compiles, and knows what looks at the program's marks. The rest of what a
    collector may call is done by those whose job it is."""

    def __init__(
        self,
        options: Options,
        drain: Drain,
        steps: Steps,
        attached: Attached,
        ahead: LookAhead,
        idle_since: Callable[[], int | None],
    ) -> None:
        self._buffers = drain.buffers
        self._steps = steps
        self._attached = attached
        self.ir = options.ir
        """Whether the programs themselves are kept: a trace that joins this one can ask for them, too."""
        self.follows_children = options.job is not None
        self.whole_process = options.whole_process or options.part
        self.looks_at_waits = options.waits and os.environ.get(WAITS) != "0"
        self.hurries = False
        """Whether what compiled must be on disk once no compile is open."""
        self.waiters: list[Callable[[Any], None]] = []
        """What waits for a value to have really run, one per framework."""
        self.mark_hooks: list[Callable[[bool], None]] = []
        """What looks before each mark, and is told whether a step begins."""
        self._tracing: list[Callable[[], bool]] = []
        self._ids = count()
        self._open: dict[int, int] = {}  # compiles per thread, so that no two threads write one number
        self._compiled = 0  # how many compiles have ended
        self.garbage = GarbageWatch(self._buffers.emit)
        """Watches while anything compiles."""
        self.idle_since = idle_since
        self.emit, self.note, self.awake = self._buffers.emit, self._buffers.note, self._buffers.awake
        self.import_hook = attached.import_hook
        self.state, self.when_imported, self.guarded = attached.state, attached.when_imported, attached.guarded
        self.wake, self.meanwhile = drain.wake, drain.afterwards
        self.add_candidate, self.step_boundary = steps.add_candidate, steps.step_boundary
        self.on_first_mark = steps.leave.append
        self.in_first_step, self.on_first_step = ahead.in_first_step, ahead.on_first_step
        self.call_ended = ahead.call_ended
        self.on_wait, self.on_mark, self.is_tracing = self.waiters.append, self.mark_hooks.append, self._tracing.append

    def begin_anew(self) -> None:
        """In a fork's child: no compile is open."""
        self._open, self.hurries = {}, False

    @property
    def infers(self) -> bool:
        """See `coldstep.collector`, as for all below."""
        return self._steps.infers

    def unsettled(self) -> None:
        self._steps.unsettled += 1

    def count_dispatch(self) -> None:
        self._steps.dispatches += 1

    def new_compile(self) -> str:
        self._steps.unsettled += 1
        return f"c{next(self._ids)}"

    def compile_opened(self) -> None:
        is_on, thread = self._buffers.awake(), threading.get_ident()
        self._open[thread] = self._open.get(thread, 0) + 1
        if is_on:
            self.garbage.install()
            if not self._buffers.is_on:  # the trace has ended on another thread, perhaps before that
                self.garbage.remove()

    def compile_closed(self) -> None:
        thread = threading.get_ident()
        self._compiled += 1
        self._open[thread] = max(0, self._open.get(thread, 0) - 1)  # of a fork's the begin was its parent's
        if not self.is_compiling():
            self.garbage.remove()
            if self.hurries:
                self.wake()

    def keep_ir(self, compile: str, form: str, text: Callable[[], str | None]) -> None:
        if not (self.ir and self._buffers.is_on):
            return
        fails = f"{form} of compile {compile} could not be taken"
        with own_time(self.emit, form), contained(lambda error: self.note(f"{fails}: {first_line(error)}")):
            if (program := text()) is not None and len(program) > _MAX_IR_CHARS:
                size = f"{len(program):,} characters, over {_MAX_IR_CHARS:,}"
                self.note(f"{form} of compile {compile} was not kept: {size}.")
            elif program is not None:
                self.emit(IR(now(), compile, form, program))

    def on_device_trace(
        self,
        run: Callable[[], None],
        rest: Callable[[], None],
        *,
        any_time: bool = False,
        run_within: Callable[[str | None], None] | None = None,
    ) -> None:
        if (window := self._steps.window) is not None:
            attaching = self._attached.attaching

            def ask(within: str | None) -> None:
                attaching.run(run if run_within is None else lambda: run_within(within))

            window.add(ask, lambda: attaching.run(rest), any_time=any_time)

    def between_calls(self, within: str | None = "") -> None:
        window = self._steps.window
        if window is not None and window.due_ns and self._buffers.in_own_process() and not self.is_compiling():
            window.between_calls(within)

    # --- for the session --------------------------------------------------------------------------------------

    def is_compiling(self) -> bool:
        """Whether a compile is open on any thread."""
        return any(depth > 0 for depth in list(self._open.values()))

    def work(self) -> int:
        """A number that is another one whenever a compile has begun, or has ended, since."""
        return self._compiled + self._steps.unsettled

    def before_mark(self, *, step_begins: bool = False) -> None:
        """The program is about to mark something: have the collectors look first."""
        for look in self.mark_hooks:
            look(step_begins)

    def traced(self) -> bool:
        """Whether a framework is tracing this thread's Python right now."""
        for check in self._tracing:  # noqa: SIM110  # any() over a generator costs as much as a mark
            if check():
                return True
        return False
