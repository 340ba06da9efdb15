"""The steps of a trace while it is recorded: those that the program marks, and those that it seems to make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Protocol

from coldstep._util.slotted import field, slotted_object
from coldstep.clock import now
from coldstep.events import StepBegin, StepEnd
from coldstep.recording.buffer import Buffer, Buffers
from coldstep.recording.ending import way_of

if TYPE_CHECKING:
    from coldstep.candidates import Candidate
    from coldstep.recording.device_window import Window

_SAME_ERROR_NS = 10_000_000  # what ends the block so soon after a loop over `steps` was left has left that loop
_MOST_CANDIDATES = 256  # for a program's steps; what comes later is not recorded


class OpenStep(Protocol):
    """A step that has begun, as the session sees it."""

    name: str
    """The kind of step."""
    buffer: Buffer | None
    """That of the thread that entered it, once it has begun."""

    def __exit__(self) -> None:
        """End it."""

    def end_with_thread(self) -> None:
        """End it, its thread having ended."""


@slotted_object
class Steps:
    """The state of the steps so far. The marks read and write it: a method for each would cost as much as they."""

    buffers: Buffers
    """Where the events of the trace go."""
    infers: bool
    """Whether calls that may be steps are to be seen: the program may mark none, and has marked none so far."""
    window: Window | None = None
    """When the frameworks' own profilers run; None where that is never."""
    open: dict[str, OpenStep] = field(default_factory=dict)
    """The step that is open, as "step". A dict for its `setdefault`, one bytecode: of two threads one has it."""
    ordinals: dict[str, int] = field(default_factory=dict)
    """How many steps of each name have begun."""
    ended: int = 0
    """How many steps have ended."""
    told_nested: bool = False
    """Whether it has been reported that a step was opened inside another."""
    waited: bool = False
    """Whether the open step, or the interval since the last one, has waited for the device."""
    unsettled: int = 0
    """Goes up with all that a settled step does not do."""
    dispatches: int = 0
    """How many calls there were that may or may not have compiled (`coldstep.collector.Sink.count_dispatch`)."""
    error_id: int = 0
    """The id of the error that the last step to fail ended with."""
    error_way: list[tuple[CodeType, int]] = field(default_factory=list)
    """How that error had come there: once it is caught, another one may have its id."""
    loop_left_ns: int = 0
    """When a loop over `steps` was last left early."""

    leave: list[Callable[[], None]] = field(default_factory=list)
    """Called when the program marks its first step."""
    ids: Iterator[int] = field(default_factory=count)
    """Numbers for candidates."""
    inferred: StepBegin | None = None
    """The step under way where the program marks none."""
    inferred_unsettled: int = 0
    """What `unsettled` was as it began."""

    def begin_anew(self) -> None:
        """In a fork's child, where no profiler runs: none of its parent's are its own."""
        Steps.__init__(self, self.buffers, self.infers, leave=self.leave)

    def left_with(self, error: BaseException) -> None:
        """A step ends with `error`."""
        # a loop over `steps` is left by closing its generator, whatever left it
        if isinstance(error, GeneratorExit):
            self.error_id, self.loop_left_ns = 0, now()
        else:
            self.error_id, self.error_way, self.loop_left_ns = id(error), way_of(error), 0

    def ends_in_step(self, error: BaseException) -> bool:
        """Whether `error`, which ends the block now, came out of a step."""
        if self.open or now() - self.loop_left_ns < _SAME_ERROR_NS:
            return True
        return id(error) == self.error_id and way_of(error)[-len(self.error_way) :] == self.error_way

    def add_candidate(self, candidate: Candidate) -> bool:
        """See `coldstep.collector.StepSink`."""
        if not (self.infers and self.buffers.in_own_process()) or (number := next(self.ids)) >= _MOST_CANDIDATES:
            return False
        candidate.id = f"s{number}"
        self.buffers.candidates.append(candidate)
        return True

    def step_boundary(self, ns: int, *, is_step: bool) -> None:
        """See `coldstep.collector.StepSink`."""
        if self.ordinals:  # the program marks its steps itself
            return
        window, inferred = self.window, self.inferred
        n = inferred.n if inferred is not None else 0
        if inferred is not None and is_step:
            self.buffers.emit(StepEnd(ns, inferred, self.waited, 0))
            if window is not None:
                window.step_ended("step", self.unsettled != self.inferred_unsettled)
            n += 1
        if window is not None and window.step_begins("step"):
            ns = now()
        self.waited, self.inferred_unsettled = False, self.unsettled
        self.inferred = StepBegin(ns, "step", n, inferred=True)
        self.buffers.emit(self.inferred)

    def first_mark(self) -> None:
        """The program marks its steps itself, which is worth a file."""
        self.buffers.speak()
        self.infers = False
        for leave in self.leave:
            leave()
