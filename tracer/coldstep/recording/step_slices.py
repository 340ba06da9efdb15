"""Writes the slices of steps: each when it is known what counts for it, with a sign before that it was there."""

from __future__ import annotations

from coldstep._util.slotted import slotted
from coldstep.blind_spots import COMPILES
from coldstep.events import Args, StepBegin, StepEnd
from coldstep.pftrace import layout
from coldstep.pftrace.writer import Writer
from coldstep.recording.compiles_so_far import CompilesSoFar
from coldstep.rows.variants import counts, counts_for_step_before


@slotted
class _EndedStep:
    """A step that has ended, of which it may not be known yet what counts for it."""

    begin: StepBegin
    ns: int
    args: Args
    compiles: list[str]
    records: bool  # a CUDA graph
    later: list[str]  # what was compiled since, for it if another step follows
    is_told: bool = False


class StepSlices:
    """Of one process, whose trace's own thread is `home`; `run` is the track of signs."""

    def __init__(self, writer: Writer, track: int, run: int, home: int, compiles: CompilesSoFar) -> None:
        self._writer = writer
        self.track = track
        """Theirs."""
        self._run = run
        self._home = home
        self._compiles = compiles
        self.open: StepBegin | None = None
        """The one that is open."""
        self.name: str | None = None
        """The name of the last one that was marked."""
        self.records = False
        """Whether the open one records a CUDA graph, or warms up for one."""
        self.blind: dict[str, list[str]] = {}
        """By collector, what nobody may conclude from its having seen nothing."""
        self.waits_for_more = False
        """Whether what is compiled between two steps may count for the one before."""
        self._owner = home  # the thread that entered it
        self._open_compiles: list[str] = []
        self._ended: _EndedStep | None = None
        self._unannounced: Args | None = None

    @property
    def n(self) -> int | None:
        """The ordinal of the open one."""
        return self.open.n if self.open is not None else None

    @property
    def silent(self) -> str:
        """The word for a step in which nothing was seen to compile."""
        return "unknown" if any(COMPILES in blind for blind in self.blind.values()) else "clean"

    @property
    def are_calm(self) -> bool:
        """Whether none is open, and none waits to be written."""
        return self.open is None and self._ended is None and not self.waits_for_more

    def compiled(self, compile_id: str, stack: str) -> None:
        """A segment of a compile begins."""
        if self.open is not None and compile_id not in self._open_compiles:
            self._open_compiles.append(compile_id)
        elif self.open is None and self._ended is not None and counts_for_step_before(stack):
            self._ended.later.append(compile_id)

    def begin(self, event: StepBegin, tid: int) -> None:
        """A step begins."""
        self.write_ended(goes_on=True)
        if not event.inferred:
            self.name = event.name
        self.open, self._open_compiles, self.records = event, [], False
        self._owner = tid
        # what follows the last boundary is a step only if another one comes
        self._unannounced = None if event.inferred else {"name": event.name, "n": event.n, "tid": tid}

    def end(self, event: StepEnd, ns: int) -> None:
        """The open one ends."""
        begin = event.begin
        args: Args = {"measures": "complete" if event.complete else "dispatch"}
        # most steps have none of these, and a hundred thousand of them are read back
        if begin.inferred:
            args["source"] = "inferred"
        if event.python_dispatches:
            args["python_dispatches"] = event.python_dispatches
        if self._owner != self._home:  # which may be gone: another thread has ended it then
            args["tid"] = self._owner
        self._ended, self.open = _EndedStep(begin, ns, args, self._open_compiles, self.records, []), None
        if begin.inferred or not self.waits_for_more:  # nothing can be between inferred steps
            self.write_ended(goes_on=False)

    def written(self, begin: StepBegin) -> None:
        """A step that did only what others do has been written whole."""
        self.name, self._unannounced = begin.name, None

    def write_ended(self, *, goes_on: bool) -> None:
        """Write the slice of the last step, if there is one to write; `goes_on` where another step follows."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        begin = ended.begin
        counted = [row for c in ended.compiles if counts(row := self._compiles[c])]
        later = [c for c in ended.later if goes_on and counts(self._compiles[c])]
        word = "first" if begin.n == 0 else "compiled" if counted or later or ended.records else self.silent
        name = layout.step_name(begin.name, begin.n, word)
        self._writer.begin(begin.ns, self.track, "", layout.STEP, ended.args, title=name)
        # at its end, so that the first arrow goes straight from the compile that is replaced to the one that replaces
        flows = tuple(row.arrow for row in counted if row.arrow is not None)
        self._writer.end(ended.ns, self.track, None, flows)

    def announce(self) -> None:
        """Say of the open step, or of the last one, that it was there: its slice is written later, and should the
        process be killed before, that would never come."""
        if self.open is not None:
            self._tell_begun(self.open.ns)
        if (ended := self._ended) is not None and not ended.is_told:
            self._tell_begun(ended.begin.ns)
            about = {"name": ended.begin.name, "n": ended.begin.n}
            self._writer.instant(ended.ns, self._run, layout.STEP_ENDED, "", about | ended.args)
            ended.is_told = True

    def _tell_begun(self, ns: int) -> None:
        if self._unannounced is not None:
            self._writer.instant(ns, self._run, layout.STEP_BEGAN, "", self._unannounced)
            self._unannounced = None
