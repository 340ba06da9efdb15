"""Asks collectors, as the first step ends, what the next will compile again, and reports it while it can be avoided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from coldstep.collector import Foreseen, own_time
from coldstep.errors import contained, first_line
from coldstep.events import Args
from coldstep.notices.on_stderr import OnStderr
from coldstep.recording.buffer import Drain
from coldstep.recording.output import project_root
from coldstep.recording.steps import Steps

if TYPE_CHECKING:
    from coldstep.notices.coming import Coming

Look = Callable[[FrameType, Any], list[Foreseen]]


class LookAhead:
    """Of one trace, whose words for what others compile are `words`."""

    def __init__(self, drain: Drain, steps: Steps, stderr: OnStderr, words: Args) -> None:
        self._drain = drain
        self._buffers = drain.buffers
        self._steps = steps
        self._stderr = stderr
        self._words = words
        self.listeners: list[Callable[[Coming], object]] = []
        """What is called, when a first step has ended, with each compile that the next will bring."""
        self._looks: list[Look] = []
        self._coming: list[Coming] = []  # reported, and not seen to come

    def begin_anew(self) -> None:
        """In a fork's child: the next step is its parent's."""
        self._coming = []

    @property
    def _is_wanted(self) -> bool:
        return self._stderr.is_shown or bool(self.listeners)

    def in_first_step(self) -> bool:
        """See `coldstep.collector`, as for the next two."""
        if not self._is_wanted:
            return False
        step = self._steps.open.get("step")
        if step is not None:
            return self._steps.ordinals.get(step.name) == 1
        calls = (row for row in list(self._buffers.candidates) if row.kind != "setup")
        return self._steps.infers and not any(row.was_called_again for row in calls)

    def on_first_step(self, look: Look) -> None:
        self._looks.append(look)

    def call_ended(self, frame: FrameType, result: Any) -> None:
        shown = self._steps.infers and self._stderr.is_shown and self._buffers.in_own_process()
        if not (shown and self.in_first_step()):
            return
        with own_time(self._buffers.emit, "look ahead"):
            foreseen = self._foreseen(frame, result)
        if foreseen:
            self._drain.afterwards(lambda: self._announce(self._explained(foreseen, "")))

    def step_ended(self, name: str, frame: FrameType | None) -> None:
        """The first step of that name has ended, marked in `frame`: report what the next will compile again."""
        if frame is None or not self._looks or not self._is_wanted:
            return
        coming: list[Coming] = []
        with own_time(self._buffers.emit, "look ahead"):
            if foreseen := self._foreseen(frame, None):
                self._drain.flush()
                coming = self._explained(foreseen, name)
        self._coming += coming
        self._announce(coming)
        for each in coming:
            for callback in list(self.listeners):
                callback(each)

    def missed(self) -> Iterator[str]:
        """A sentence for each compile that was reported to come with a step that never began."""
        for coming in self._coming:
            if self._steps.ordinals.get(coming.name) == coming.step:
                yield f"The trace ended before its next step; as things stood, {coming.line()}"

    def _foreseen(self, frame: FrameType, result: Any) -> list[Foreseen]:
        return [each for look in self._looks for each in look(frame, result) or ()]

    def _announce(self, coming: list[Coming]) -> None:
        if self._stderr.is_shown and coming:
            from coldstep.notices.coming import announce

            announce(coming)

    def _explained(self, foreseen: list[Foreseen], name: str) -> list[Coming]:
        """What is to be reported of these; all before them is written."""
        fails = "coldstep could not forecast the compiles of the next step"  # the program must not end because of that
        with contained(lambda error: self._buffers.note(f"{fails}: {first_line(error)}")):
            from coldstep.notices.coming import explain

            root, known = project_root(), self._drain.recorder.compiles.variants_of
            each = (explain(row, *known(row.compile), name, root, self._words) for row in foreseen)
            return [coming for coming in each if coming is not None]
        return []
