"""Calls what the program has given to `on_recompile` and `ready`, at its marks.

Not in the hook that saw the compile: frameworks call hooks under their locks, in the middle of a compile, where nothing
may be imported, printed, called or raised. At a mark the program runs its own code.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from coldstep.collector import own_time
from coldstep.errors import contained, first_line
from coldstep.events import Args
from coldstep.recording.buffer import Drain
from coldstep.recording.output import project_root

if TYPE_CHECKING:
    from coldstep.notices.late import LateCompile
    from coldstep.notices.recompiled import Recompiled
    from coldstep.recording.compiles_so_far import Late

Tell = Callable[[FrameType | None], None]


class Listeners:
    """Of one trace. `work()` is another number whenever a compile has begun, or has ended, since."""

    def __init__(self, drain: Drain, work: Callable[[], int], words: Args) -> None:
        self._drain = drain
        self._work = work
        self._words = words
        self.at_marks: list[Tell] = []
        """While anybody listens, what a mark calls at its end, with the user's frame: `tell` below."""
        self._callbacks: list[Callable[[Recompiled], object]] = []
        self._worked = 0  # what `work` was when the last mark reported
        self._when_late: Callable[[LateCompile], object] | None = None
        self._raises_late = False
        # what was compiled after ready(), by thread, and is still to be reported
        self._late: dict[int, deque[Late]] = {}

    def begin_anew(self) -> None:
        """In a fork's child: late compiles so far are its parent's."""
        self._late = {}

    def listen(self, callback: Callable[[Recompiled], object]) -> None:
        """Call `callback` for every recompile from now on, at the next mark after it."""
        if self.at_marks:
            self.tell(sys._getframe(2))
        self._drain.flush()
        self._drain.recorder.compiles.take_recompiles()  # this listener is not called for those before
        self._worked = self._work()
        self._callbacks.append(callback)
        self._look_at_marks()

    def unlisten(self, callback: Callable[[Recompiled], object]) -> None:
        """Undo `listen`."""
        self._callbacks.remove(callback)
        self._look_at_marks()

    def when_late(self, action: str | Callable[[LateCompile], object]) -> None:
        """What the program wants of a compile from now on: "note", "raise", or to be called."""
        self._raises_late = action == "raise"
        self._when_late = None if isinstance(action, str) else action
        self._look_at_marks()

    def _look_at_marks(self) -> None:
        self.at_marks[:] = [self.tell] if self._callbacks or self._answers_late else []

    @property
    def _answers_late(self) -> bool:
        return self._raises_late or self._when_late is not None

    def keep(self, late: Late) -> None:
        """Something was compiled after `ready()`: keep it for the next mark of its thread, if the program asked."""
        if self._answers_late:
            self._late.setdefault(late.tid, deque()).append(late)

    def tell(self, frame: FrameType | None) -> None:
        """Report to whoever asked the compiles since the last mark, again or after `ready()`; `frame`, the user's own,
        made this one."""
        work = self._work()
        if (self._worked == work and not self._late) or not self._drain.buffers.in_own_process():
            return
        if self._worked != work:
            self._worked = work
            for recompiled in self._recompiled(frame):
                try:
                    for callback in list(self._callbacks):
                        callback(recompiled)
                finally:
                    recompiled.frame = None  # to keep it would keep all of the user's variables alive
        if self._late and (late := self._late.get(threading.get_native_id())):
            self._tell_late(late, frame)

    def _failed(self, error: Exception) -> None:
        self._drain.buffers.note(f"coldstep could not explain a compile to the program: {first_line(error)}")

    def _recompiled(self, frame: FrameType | None) -> list[Recompiled]:
        """What was compiled again since the last mark, where anybody listens; all of it is on disk then."""
        with own_time(self._drain.buffers.emit, "explain"), contained(self._failed):
            self._drain.flush()
            if self._callbacks and (taken := self._drain.recorder.compiles.take_recompiles()):
                from coldstep.notices.recompiled import explain

                root = project_root()
                return [explain(variants, root, step, frame, self._words) for variants, step in taken]
        return []

    def _tell_late(self, late: deque[Late], frame: FrameType | None) -> None:
        """Answer what this thread has compiled after `ready()`, as the program asked for it."""
        if not self._answers_late:
            late.clear()
            return
        if self._raises_late and sys.exc_info()[1] is not None:
            return  # an error is on its way already: at the next mark
        from coldstep.notices.late import NotReadyError, explain

        compiles: list[LateCompile] = []
        with own_time(self._drain.buffers.emit, "explain"), contained(self._failed):
            root = project_root()
            compiles += [explain(late.popleft(), root, frame, self._words) for _ in range(len(late))]
        try:
            if self._when_late is not None:
                for each in compiles:
                    self._when_late(each)
        finally:
            for each in compiles:
                each.frame = None
        if self._raises_late and compiles:
            raise NotReadyError(compiles)
