"""What records one trace: starts and stops collectors, takes their events, knows the open step and how it all ended."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import wraps
from importlib import import_module
from os import getpid
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol, cast

from coldstep import clock
from coldstep._util.importhook import ImportHook
from coldstep._util.installed import in_notebook, offers
from coldstep._util.labels import labels
from coldstep._util.pythons import untried
from coldstep._util.slotted import slotted_object
from coldstep._util.stderr import say
from coldstep.blind_spots import left_open
from coldstep.clock import now
from coldstep.collector import COLLECTORS, Collector, Foreseen, Hook, discover
from coldstep.errors import contained, first_line, interrupts
from coldstep.events import IR, Begin, CollectorState, End, Event, Note, StepBegin, StepEnd, is_worth_a_file
from coldstep.recording import import_time
from coldstep.recording.buffer import Buffers, Drain, Thread
from coldstep.recording.counters import counters
from coldstep.recording.device_window import CHOICES, OFF, UNTIL_SETTLED, Window
from coldstep.recording.ending import (
    cells,
    how_it_ended,
    is_forked_by_multiprocessing,
    peak_rss_bytes,
    place_of,
    versions,
    way_of,
    without_events,
)
from coldstep.recording.garbage import GarbageWatch
from coldstep.recording.last_word import LastWord
from coldstep.recording.late_hooks import Attaching
from coldstep.recording.output import Taken, file_to_write, open_new, own_name, project_root, rank_of
from coldstep.run_row import Dropped, RunRow
from coldstep.vocabulary import Vocabulary, Words, of_trace, plain
from coldstep_shim import WAITS

if TYPE_CHECKING:
    from coldstep.candidates import Candidate
    from coldstep.job.job import Job
    from coldstep.notices.coming import Coming
    from coldstep.notices.late import LateCompile
    from coldstep.notices.recompiled import Recompiled
    from coldstep.recording.recorder import Late, Recorder, Retold, UnderWay

_VIEWERS = "coldstep.viewers"  # the group of entry points
_MAX_JUDGED_STEPS = 20_000  # of a run that is read back as it ends: about a second's work
_LONG_COMPILE_NS = 3_000_000_000  # a compile that takes longer is told of while it lasts
_SAME_ERROR_NS = 10_000_000  # what ends the block so soon after a loop over `steps` was left has left that loop
_MAX_IR_CHARS = 1 << 23  # of one program's text that is kept
_MOST_CANDIDATES = 256  # for a program's steps; what comes later is not recorded
_SAYS_NOTHING_S = 10.0  # a part of a job that has lived so long is worth a file whatever it did
_LEAVES_WITHIN_S = 1.0  # a program that leaves by `os._exit`
_MOST_INTERRUPTIONS = 20  # of the end of a trace that the rest of it is still done after
_MOST_LATE_SAID = 20  # compiles after ready() that stderr is told of
_LOADED_AS_IT_OPENS = ("coldstep.recording.recorder", "coldstep.job.lost", "coldstep.job.parts")
_active: Session | None = None
_places: dict[int, Session] = {}  # by process, for a fork's child begins anew; `setdefault` lets one of two threads in


@slotted_object
class Options:
    """What a trace is asked to do: the arguments of `coldstep.trace`, and what `coldstep run` asks for beyond.

    Raises ValueError for an unknown `device`.
    """

    path: str
    """The file to write."""
    collectors: list[str] | None = None
    """The names of those to attach; None: all that are installed."""
    device: str = UNTIL_SETTLED
    """When the frameworks' own profilers run."""
    stacks: bool = False
    """Whether every thread's Python is sampled."""
    live: bool = True
    """Whether a long compile is shown on stderr."""
    ir: bool = False
    """Whether the programs themselves are kept."""
    waits: bool = True
    """Whether what the program waits for is looked at, unless the environment forbids it."""
    command: list[str] = field(default_factory=lambda: sys.orig_argv)
    """The command line, for the trace."""
    joinable: bool = False
    """Whether a trace inside it joins it. Whoever began such a trace reports how it ended."""
    judged: bool = True
    """Whether its file is read back at its end, for findings and a headline."""
    infer: bool = False
    """Whether steps are inferred where the program marks none."""
    ready_after: int | None = None
    """After how many steps nothing may compile any more; None where only the program decides that."""
    whole_process: bool = False
    """Whether this process was begun for the trace, so that all before it is coldstep's own."""
    labels: dict[str, str] = field(default_factory=dict)
    """The trace's labels, beside those from the environment."""
    job: Job | None = None
    """The job that the process is of; None: the trace is one by itself, and in a fork's child it is inert."""
    part: bool = False
    """Whether the job has come to the process by itself: there is a file once there is something to record, and its
    name is made of the job's FILE."""

    def __post_init__(self) -> None:
        if self.device not in CHOICES:
            raise ValueError(f"device={self.device!r} is none of {', '.join(map(repr, CHOICES))}")


class OpenStep(Protocol):
    """A step that has begun, as the session sees it."""

    name: str
    """The kind of step."""
    thread: threading.Thread
    """The thread that entered it."""

    def __exit__(self) -> None:
        """End it."""

    def end_with_thread(self) -> None:
        """End it, its thread having ended."""


@slotted_object
class Steps:
    """The state of the steps so far. The marks read and write it: a method for each would cost as much as they."""

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


class Session:
    """One trace being recorded: what `with coldstep.trace(…) as run` binds.

    Collectors see it as their `Sink`, the marks as the receiver of their events.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        """What the trace was asked to do."""
        self.path = options.path
        """The file that is written; once the trace has begun, with all that its name leaves open filled in."""
        self.displaced = False
        """Whether another process is writing the file that was asked for, so that this is one beside it."""
        self.ir = options.ir
        """Whether the programs themselves are kept: a trace that joins this one can ask for them, too."""
        self.pid = getpid()
        """The process that the trace is of."""
        self.joined: list[str] = []
        """The files that traces which joined this one would have written."""
        self.headline = "nothing was written"
        """The trace in one line, once the block has ended."""
        self.partial: list[str] = []
        """The collectors that could not be attached wholly."""
        self.import_hook = ImportHook()
        """See `coldstep.collector.Sink`."""
        self.steps = Steps()
        """What is known of the steps so far."""
        follows = options.infer and options.whole_process
        self.window = Window(options.device, self.emit, follows=follows) if options.device != OFF else None
        """When the frameworks' own profilers run; None where that is never."""
        self.infers = options.infer
        """See `coldstep.collector.Sink`."""
        self.whole_process = options.whole_process or options.part
        """See `coldstep.collector.Sink`."""
        self.looks_at_waits = options.waits and os.environ.get(WAITS) != "0"
        """See `coldstep.collector.Sink`."""
        self.waiters: list[Callable[[Any], None]] = []
        """What waits for a value to have really run, one per framework."""
        self.mark_hooks: list[Callable[[bool], None]] = []
        """What looks before each mark, and is told whether a step begins."""
        self.listeners: list[Callable[[Recompiled], object]] = []
        """What is called at the next mark after a recompile."""
        self.forecast_listeners: list[Callable[[Coming], object]] = []
        """What is called, when a first step has ended, with each compile that the next will bring."""
        self.tells = False
        """Whether a mark tells anybody anything: what was compiled again, or after `ready()`."""
        self._buffers = Buffers()
        self._held = [None] if options.part else []  # as long as there was nothing to say; a list, of which one pops
        self.append: Callable[[Event], None] = self.emit if options.part else self._buffers.append
        """Keep an event; for marks, which have just seen that the trace is active."""
        self._alive = False
        self._is_fork = False
        self._parents: Recorder | None = None  # of the process that this one is a fork of
        self._states: dict[str, CollectorState] = {}  # how each collector stands, for a fork's child
        self._compile_ids = itertools.count()
        self._candidate_ids = itertools.count()
        self._compiling: dict[int, int] = {}  # per thread, so that no two threads write one number
        self._compiled = self._told = 0  # how many compiles have begun or ended, and how many when the last mark told
        self._late: dict[int, deque[Late]] = {}  # what was compiled after ready(), by thread, and is still to be told
        self._when_late: Callable[[LateCompile], object] | None = None
        self._raises_late = False
        self._late_said = 0
        self._said: set[str] = set()
        self._failed: dict[str, str] = {}
        self._inert: set[str] = set()  # collectors whose hooks do nothing any more
        self._blind: dict[str, list[str]] = {}
        self._attached: set[str] = set()
        self._attaching = Attaching()
        self._tracing: list[Callable[[], bool]] = []
        self._ahead: list[Callable[[FrameType, Any], list[Foreseen]]] = []
        self._coming: list[Coming] = []  # said, and not seen to come
        self._shows = False  # whether stderr is told anything meanwhile
        self._leave: list[Callable[[], None]] = []
        self._inferred: StepBegin | None = None  # the step under way where the program marks none
        self._inferred_unsettled = 0  # what `steps.unsettled` was as it began
        self._collectors: list[Collector] = []
        self._live: Callable[[UnderWay | None], object] | None = None
        self._garbage = GarbageWatch(self.emit)
        self.last_word = LastWord(self._exits)
        """What says how it ended where the process does not come to say it."""
        self._taken: list[Callable[[], object]] = []  # what gives back all that was taken so far of the process
        self._stopped: set[str] = set()  # collectors that have been
        self._abandoned = False  # it could not begin
        self._end_ns = 0

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of this trace: ours, and those of collectors of others."""
        return of_trace(self._words)

    @property
    def step_names(self) -> set[str]:
        """The names of the steps recorded so far."""
        return set(self.steps.ordinals)

    def report(self) -> str:
        """The text of `coldstep report` for this trace, once its block has ended.

        Where the trace is that of `coldstep run`, which ends with the script: a line with that notice.
        """
        if self._alive:
            if self.options.joinable:
                return f"The trace goes on until the script ends; then: coldstep report {self.path}"
            raise RuntimeError("report() reads the finished file: call it after the with block")
        from coldstep.loading import load

        return str(self._viewers["terminal"].load()(load(self._file)))

    def metrics(self) -> dict[str, float]:
        """What compiled so far, in numbers: `compiles`, `compile_s`, `recompiles`, `recompile_s`, `cache_hits`.

        It may be called at any time, from any thread, and after the block.
        """
        if self._alive:
            self._drain.flush()
        return counters(self._recorder.ended())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal; a notebook has the page."""
        printer.text(repr(self) if self._alive or in_notebook() else self.report())

    def _repr_html_(self) -> str | None:
        """What a notebook shows of this trace, once its block has ended."""
        if self._alive:
            return None
        from coldstep.loading import load

        return load(self._file)._repr_html_()

    @property
    def failures(self) -> list[str]:
        """What made a collector detach itself, in one sentence each."""
        return list(self._failed.values())

    def compiles(self) -> list[Retold]:
        """All that was compiled, once the trace has ended."""
        return self._recorder.compiles()

    def listen(self, callback: Callable[[Recompiled], object]) -> None:
        """Call `callback` for every recompile from now on, at the next mark after it."""
        if self.tells:
            self.tell(sys._getframe(2))
        self._drain.flush()
        self._recorder.take_recompiles()  # this listener is not told of those before
        self._told = self._work()
        self.listeners.append(callback)
        self.tells = True

    def unlisten(self, callback: Callable[[Recompiled], object]) -> None:
        """Undo `listen`."""
        self.listeners.remove(callback)
        self.tells = bool(self.listeners) or self._answers_late()

    def when_late(self, action: str | Callable[[LateCompile], object]) -> None:
        """What the program wants of a compile from now on: "note", "raise", or to be called."""
        self._raises_late = action == "raise"
        self._when_late = None if isinstance(action, str) else action
        self.tells = bool(self.listeners) or self._answers_late()

    def tell(self, frame: FrameType | None) -> None:
        """Report to whoever asked the compiles since the last mark, again or after `ready()`; `frame`, the user's own,
        made this one.

        Not in the hook that saw it: frameworks call hooks under their locks, in the middle of a compile, where nothing
        may be imported, printed, called or raised. At a mark the program runs its own code.
        """
        work = self._work()
        if (self._told == work and not self._late) or not self.in_own_process():
            return
        if self._told != work:
            self._told = work
            for recompiled in self._recompiled(frame):
                try:
                    for callback in list(self.listeners):
                        callback(recompiled)
                finally:
                    recompiled.frame = None  # to keep it would keep all of the user's variables alive
        if self._late and (late := self._late.get(threading.get_native_id())):
            self._tell_late(late, frame)

    def _recompiled(self, frame: FrameType | None) -> list[Recompiled]:
        """What was compiled again since the last mark, where anybody listens; all of it is on disk then."""
        with self._explaining():
            self._drain.flush()
            if self.listeners and (taken := self._recorder.take_recompiles()):
                from coldstep.notices.recompiled import explain

                root = project_root()
                return [explain(variants, root, step, frame, self._words) for variants, step in taken]
        return []

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Around what a mark finds out to tell the program: that time is coldstep's, and a failure of it a note."""
        ours = Begin(now(), "explain", "coldstep", "coldstep")
        self.emit(ours)
        try:
            yield
        except Exception as error:
            if interrupts(error):
                raise
            self.note(f"coldstep could not explain a compile to the program: {first_line(error)}")
        finally:
            self.emit(End(now(), ours))

    def _tell_late(self, late: deque[Late], frame: FrameType | None) -> None:
        """Answer what this thread has compiled after `ready()`, as the program asked for it."""
        if not self._answers_late():
            late.clear()
            return
        if self._raises_late and sys.exc_info()[1] is not None:
            return  # an error is on its way already: at the next mark
        from coldstep.notices.late import NotReadyError, explain

        compiles: list[LateCompile] = []
        with self._explaining():
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

    def foresee(self, name: str, frame: FrameType | None) -> None:
        """The first step of that name has ended, marked in `frame`: report what the next will compile again."""
        if frame is None or not self._ahead or not self._looks_ahead():
            return
        ours = Begin(now(), "look ahead", "coldstep", "coldstep")
        self.emit(ours)
        foreseen = [each for look in self._ahead for each in look(frame, None) or ()]
        coming: list[Coming] = []
        if foreseen:
            self._drain.flush()
            coming = self._explained(foreseen, name)
        self.emit(End(now(), ours))
        self._coming += coming
        self._announce(coming)
        for each in coming:
            for callback in list(self.forecast_listeners):
                callback(each)

    def _announce(self, coming: list[Coming]) -> None:
        if self._shows and coming:
            from coldstep.notices.coming import announce

            announce(coming)

    def _explained(self, foreseen: list[Foreseen], name: str) -> list[Coming]:
        """What is to be said of these; all before them is written."""
        try:
            from coldstep.notices.coming import explain

            root = project_root()
            each = (explain(row, *self._recorder.variants_of(row.compile), name, root, self._words) for row in foreseen)
            return [coming for coming in each if coming is not None]
        except Exception as error:  # the program must not end because we cannot say what comes
            if interrupts(error):
                raise
            self.note(f"coldstep could not forecast the compiles of the next step: {first_line(error)}")
            return []

    def _looks_ahead(self) -> bool:
        return self._shows or bool(self.forecast_listeners)

    def _answers_late(self) -> bool:
        return self._raises_late or self._when_late is not None

    def _work(self) -> int:
        """A number that is another one whenever a compile has begun, or has ended, since."""
        return self._compiled + self.steps.unsettled

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file and begin. Whoever asked for it abandons it where that fails, or is interrupted.

        Raises OSError when the file cannot be written, ValueError for an unknown collector, RuntimeError where no
        thread can begin.
        """
        started = clock.snapshot()
        self._started_ns = started.monotonic_ns
        age_ns = clock.process_age_ns()
        installed = offers()  # once: it looks at every distribution that is installed
        self._viewers = {offer.name: offer for offer in installed if offer.group == _VIEWERS}
        of_collectors = [offer for offer in installed if offer.group == COLLECTORS]
        collectors, problems = discover(self.options.collectors, of_collectors)
        collectors = [*filter(self._takes_part, collectors)]
        self._words, unreadable = _declared(collectors)
        problems += [*unreadable, *filter(None, (untried(),))]
        script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
        if not self.options.part:
            self.path = file_to_write(self.path, rank_of(collectors), script or "trace")
        self._file = os.path.abspath(self.path)  # the program may change its folder
        whole = self.options.whole_process
        own_ns = started.monotonic_ns - import_time.BEGAN_NS if whole else import_time.took_ns
        self._names = [collector.name for collector in collectors]
        rank = self._rank(collectors)
        self._introduce(started, rank, age_ns, own_ns)
        self._shows = self.options.live and rank in (None, 0)  # ranks may share a terminal
        hold_s = _SAYS_NOTHING_S if self.options.part else 0.0
        self._drain = self._new_drain(started, hold_s)
        self._taken.append(self._stop_drain)
        if self.options.part:
            self._drain.begin()
        else:
            self._drain.start()
        self._alive = True
        ours = Begin(started.monotonic_ns, "start", "coldstep", "coldstep")
        self.emit(ours)
        if self.displaced:
            problems.append(f"Another process is writing the file that was asked for: this trace is {self.path}.")
            say(problems[-1])
        for problem in problems:
            self.note(problem)
        self._taken += [self._stop_collectors, self.import_hook.remove]
        self.import_hook.install()
        for collector in collectors:
            self._collectors.append(collector)
            try:
                collector.start(self)
            except Exception as error:
                if interrupts(error):
                    raise
                self.fail(collector.name, error)
        self.emit(End(now(), ours))
        if not self.options.part:
            self._drain.flush()

    def _takes_part(self, collector: Collector) -> bool:
        asked = {
            "records_devices": self.window is not None,
            "samples_stacks": self.options.stacks,
            "infers_steps": self.options.infer,
        }
        return not any(getattr(collector, what, False) and not is_asked for what, is_asked in asked.items())

    def _new_drain(self, started: clock.Snapshot, hold_s: float = 0.0) -> Drain:
        return Drain(self._buffers, lambda: self._open(started), self._busy, self._written, self._cannot_go_on, hold_s)

    def _cannot_go_on(self, why: str) -> None:
        """The file takes no more: of a job, the processes below the first leave word, and it is said once for all."""
        job = self.options.job
        if job is None or job.is_root:
            say(f"cannot write the trace any more, the program goes on: {why}")
        else:
            from coldstep.job.lost import leave_word

            leave_word(job.id)

    def _rank(self, collectors: Iterable[Collector]) -> int | None:
        """The process's own rank: one that a rank has started inherits the variable, and is none."""
        job = self.options.job
        return None if job is not None and job.inherits_rank else rank_of(collectors)

    def _introduce(self, started: clock.Snapshot, rank: int | None, age_ns: int, own_ns: int) -> None:
        """Make the row of this process, whose thread here is the trace's."""
        self._home = Thread(threading.get_native_id(), threading.current_thread().name)
        job = self.options.job
        self._row = RunRow(
            root=project_root(),
            tid=self._home.tid,
            started=clock.time_of_day(started.realtime_ns),
            pid=self.pid,
            host=os.uname().nodename,
            boot=clock.boot_id(),
            born=clock.born(),
            rank=rank,
            before_trace_ns=age_ns,
            own_before_trace_ns=own_ns,
            versions={"python": sys.version.split()[0]},
            clock_uncertainty_ns=started.uncertainty_ns,
            collectors=self._names,
            vocabulary=self._words,
            labels=labels(self.options.labels, os.environ),
            ready_after=self.options.ready_after,
        )
        if job is not None:
            job.introduce(self._row, is_fork=self._is_fork)

    def settle(self) -> None:
        """Before a fork whose child is of the job: it must know all that was compiled here."""
        for name in _LOADED_AS_IT_OPENS:  # by the drain, maybe now: in the child such an import would never end
            if name in sys.modules:
                import_module(name)
        if self.is_written and any(buffer.ledger for buffer in list(self._buffers.all)):
            self._drain.flush()

    def begin_anew(self) -> None:
        """In a fork's child that is of the job: it has recorded nothing so far. No more is done here, since it may be
        about to run another program."""
        self.pid = getpid()
        self._is_fork = True
        self._held = [None]
        self._buffers = Buffers()
        self.append = self.emit
        self.steps, self._compiling, self._late = Steps(), {}, {}
        self._inferred, self._candidate_ids = None, itertools.count()
        self.window, self._shows, self._live = None, False, None
        self.options.judged, self.options.ready_after, self.options.stacks = False, None, False
        self._coming = []
        self._parents = getattr(self, "_recorder", None)
        started = clock.snapshot()
        self._forked, self._started_ns = started, started.monotonic_ns
        self._drain = self._new_drain(started)
        self._taken = [self._stop_drain]
        if self.options.job is not None:
            self.options.job.in_child()
        for collector in self._collectors:
            if (forked := getattr(collector, "forked", None)) is not None:
                with contained():
                    forked()

    def speak(self) -> None:
        """From here on all is written: a part of a job has something to record. In hooks, too: it does not wait."""
        try:
            self._held.pop()
        except IndexError:  # it has spoken already, or another thread is faster
            return
        self.append = self._buffers.append
        if not self._is_fork:
            self._drain.wake()
            return
        try:
            self._collectors = [*filter(self._takes_part, self._collectors)]
            self._names = [collector.name for collector in self._collectors]
            self._introduce(self._forked, self._rank(self._collectors), 0, 0)
            for state in self._states.values():
                if state.name in self._names:
                    self._buffers.append(replace(state, ns=self._forked.monotonic_ns))
            self._drain.begin()
            self._begin_in_fork()
        except Exception as error:
            if interrupts(error):
                raise
            self._alive = False  # no thread can begin: the program goes on without a trace
        else:
            if not is_forked_by_multiprocessing():
                atexit.register(lambda: self.finish(getattr(sys, "last_value", None)))

    def _begin_in_fork(self) -> None:
        """What of the collectors a fork does not copy."""
        self._attaching, self._stopped = Attaching(), {*self._names}  # no thread of the parent's attaches here
        self._taken.append(self._stop_collectors)
        for collector in self._collectors:
            if (begin := getattr(collector, "begin_in_fork", None)) is not None and collector.name not in self._inert:
                self._stopped.remove(collector.name)
                self.guarded(collector.name, begin)()

    @property
    def is_written(self) -> bool:
        """Whether there is a file, or will be."""
        return not self._held

    def _open(self, started: clock.Snapshot) -> Recorder:
        # most processes of a job have nothing to record
        from coldstep._util.command_secrets import hidden
        from coldstep.recording.recorder import Recorder

        self._row.command = hidden(self.options.command)
        fd = self._open_part() if self.options.part or self._is_fork else self._open_own()
        try:
            self._recorder = Recorder(fd, self._home, self._row.rank, started, self._row.at_begin(), self._parents)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._recorder.end_open()
                self.last_word.goes_on(self._file)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError) and (self.options.part or self._is_fork):
                self._alive = False
                self._cannot_go_on(error.strerror or str(error))
            raise
        return self._recorder

    def _open_own(self) -> int:
        try:
            return open_new(self._file)
        except Taken:  # a second worker of a service: it must start all the same
            self.displaced = True
            self.path, self._file = own_name(self.path), own_name(self._file)
            if self.options.job is not None:  # that other process has a job of its own
                self.options.job.file, self._row.file = self._file, os.path.basename(self._file)
            return open_new(self._file)

    def _open_part(self) -> int:
        """The file of a process that is a part of a job."""
        from coldstep.job.lost import leave_word
        from coldstep.job.parts import open_file

        is_silent = not self.is_written  # it has only lived long
        self._held.clear()
        self.append = self._buffers.append
        job = self.options.job
        assert job is not None
        self._row.rank = self._rank(self._collectors)  # the program may have made it one meanwhile
        job.call(self._row)
        try:
            self.path, fd = open_file(job, self._row.process_name or "python", self._row.rank, is_silent=is_silent)
        except OSError as error:
            self._alive = False
            if job.is_root:
                say(f"cannot write {self.path}: {error.strerror or error}")
            elif not is_silent:
                leave_word(job.id)
            raise
        self._file = self.path
        return fd

    def _exits(self, code: Any = 0) -> None:
        """The program leaves by `os._exit`, at once: only what is known already is written. Forks often end so."""
        if self.in_own_process() and self.is_written:
            self._row.ended, self._row.error = how_it_ended(SystemExit(code))
            self._end_ns = now()
            if self._is_fork:
                self._stop_collectors()
            self._drain.stop(self._write_row, _LEAVES_WITHIN_S)

    def finish(self, error: BaseException | None) -> None:
        """Stop the collectors and close the file; in a fork's child, which has no part in the trace, do nothing."""
        try:
            self._say_end(error)
        except BaseException as raised:  # by a listener, as an open step ends, or by a signal handler
            self._row.ended, self._row.error = how_it_ended(raised)
            raise
        finally:
            self.take_down()

    def _say_end(self, error: BaseException | None) -> None:
        row = self._row
        row.ended, row.error = how_it_ended(error)
        row.error_location = place_of(error)
        row.error_in_step = error is not None and self.steps.ends_in_step(error)
        for step in list(self.steps.open.values()):
            step.__exit__()
        if not self.in_parent():
            return
        for coming in self._coming:
            if self.steps.ordinals.get(coming.name) == coming.step:
                self.note(f"The trace ended before its next step; as things stood, {coming.line()}")
        for look in self.mark_hooks:  # what is found out late: the end is the last mark
            look(False)
        self._end_ns = now()
        row.rank = self._rank(self._collectors)  # a job may have begun inside the block

    def abandon(self) -> None:
        """Leave nothing of a trace whose block does not begin, nor its file."""
        self._abandoned = True
        self.take_down()

    def take_down(self, tries: int = _MOST_INTERRUPTIONS) -> None:
        """Give back all that the trace has taken of the process, the last first; the rest, too, where something of the
        program's interrupts that: a signal handler may raise between any two lines."""
        try:
            while self._taken and self.in_parent():
                self._taken[-1]()  # which may be called again where it was interrupted
                self._taken.pop()
        except BaseException:
            if tries:
                self.take_down(tries - 1)
            raise

    def _stop_collectors(self) -> None:
        ours = Begin(self._end_ns or now(), "stop", "coldstep", "coldstep")
        self.emit(ours)
        if not self._attaching.end():
            self.note("A collector still attached on another thread as the trace ended: hooks of it may stay, inert.")
        for collector in self._collectors:
            if collector.name not in self._stopped:
                self._stop(collector)
                self._stopped.add(collector.name)
        for name in (c.name for c in self._collectors if c.name not in self._attached and c.name not in self._failed):
            self.emit(CollectorState(now(), name, "absent", None, []))
        self.emit(End(now(), ours))
        self._alive = False
        self._garbage.remove()  # not before: a thread may still compile

    def _stop(self, collector: Collector) -> None:
        try:
            for left in collector.stop():
                self.note(f"{collector.name} leaves in the process, inert: {left}")
        except Exception as problem:
            if interrupts(problem):
                raise
            if not self._abandoned:  # it may not have begun
                self.fail(collector.name, problem)
        self._inert.add(collector.name)

    def _stop_drain(self) -> None:
        self._drain.stop(self._write_end)

    def _write_end(self) -> None:
        """Write how it ended, and what hindsight finds. On the drain thread, where nothing can interrupt it."""
        if not self.is_written:
            return
        self._show(None)
        try:
            if self._abandoned and os.path.isfile(self._file):
                os.unlink(self._file)
            elif not self._abandoned:
                self._tell_end()
        except Exception as problem:
            self.headline = f"incomplete: {first_line(problem)}"
        with contained():
            self.last_word.leave()
            self._recorder.cut()
        self._recorder.close()

    def _write_row(self) -> int:
        row = self._row
        row.dropped = Dropped(self._drain.lost, self._buffers.dropped_bulk + self._recorder.dropped)
        row.versions = versions(self._words)
        with contained():  # a shell of somebody's own
            row.cells = cells()
        row.peak_rss_bytes = peak_rss_bytes()
        end_ns = self._recorder.finish(self._end_ns, row.at_end())
        self._recorder.flush()
        return end_ns

    def _tell_end(self) -> None:
        row, end_ns = self._row, self._write_row()
        if row.ended == "ok" and not self._drain.lost and self._recorder.uneventful and not self._unwatched():
            self.headline = without_events(end_ns - self._started_ns)
        elif _is_pools():
            self.headline = "coldstep report shows its contents"
        elif self.options.judged:
            self._judge()

    def _judge(self) -> None:
        """What only hindsight knows: read the file back, append its findings to it, and put it in a line."""
        steps = self.steps.ended or max((row.written for row in self._buffers.candidates), default=0)
        if steps > _MAX_JUDGED_STEPS:
            # the program must not wait, nor need the memory
            what = "steps" if self.steps.ended else "calls that may be steps"
            self.headline = f"{steps} {what}; coldstep report shows the rest"
            return
        from coldstep.converting.write_findings import write_findings, write_steps
        from coldstep.loading import load

        trace = load(self._file, job=False)
        writer, track = self._recorder.findings
        write_steps(trace, self._file, writer, self._recorder.steps)
        write_findings(trace, writer, [track])
        if (viewer := self._viewers.get("headline")) is not None:
            self.headline = str(viewer.load()(trace))

    def _unwatched(self) -> bool:
        """Whether a framework is there whose compiles nobody watched."""
        stacks = self.vocabulary.stacks.values()
        return any(stack.packages[0] in sys.modules and stack.collector not in self._attached for stack in stacks)

    def _busy(self) -> bool:
        return bool(self.steps.open) or self._anything_compiles() or self._recorder.waits_on(now())

    def _written(self) -> None:
        """On the drain thread."""
        if self.window is not None and self._alive:
            self.window.look(list(self._buffers.candidates), self.steps.unsettled, compiles=self._anything_compiles())
        self._take_late()
        for step in list(self.steps.open.values()):
            if not step.thread.is_alive():
                step.end_with_thread()
        if self._shows:
            self._show(self._recorder.under_way(now()))

    def _take_late(self) -> None:
        """What the recorder has seen compile after `ready()`: a line of it, and kept for the mark that will tell it."""
        late = self._recorder.late
        while late:
            each = late.popleft()
            if self._answers_late():
                self._late.setdefault(each.tid, deque()).append(each)
            self._late_said += 1
            if self._shows and self._late_said <= _MOST_LATE_SAID:
                say(each.line())
            elif self._shows and self._late_said == _MOST_LATE_SAID + 1:
                say("more was compiled after ready(); coldstep report shows all")

    def _show(self, under_way: UnderWay | None) -> None:
        try:
            if self._live is None and under_way is not None and under_way.elapsed_ns >= _LONG_COMPILE_NS:
                self._live = self._viewers["live"].load()()
            if self._live is not None:
                self._live(under_way)
        except Exception as error:
            self._live = lambda _: None
            self.note(f"the live line ended: {first_line(error)}")

    def _anything_compiles(self) -> bool:
        return any(depth > 0 for depth in list(self._compiling.values()))

    # --- the sink that collectors see -------------------------------------------------------------------------

    @property
    def follows_children(self) -> bool:
        """See `coldstep.collector.Sink`, as for all below."""
        return self.options.job is not None

    def idle_since(self) -> int | None:
        recorder: Recorder | None = getattr(self, "_recorder", None)
        # of a part of a job that has recorded nothing so far all phases are still to be written
        return recorder.idle_since if recorder is not None and recorder is not self._parents else self._started_ns

    def emit(self, event: Event) -> None:
        if self._alive and self.in_own_process() and (not self._held or self._keeps(event)):
            self._buffers.append(event)

    def _keeps(self, event: Event) -> bool:
        """Whether to keep an event of a process that has said nothing so far. A fork's child may live long so."""
        if is_worth_a_file(event):
            self.speak()
        return not self._held or not self._is_fork

    def wake(self) -> None:
        if self._alive:
            self._drain.wake()

    def meanwhile(self, do: Callable[[], None]) -> None:
        if self._alive:
            self._drain.afterwards(do)

    def new_compile(self) -> str:
        self.steps.unsettled += 1
        return f"c{next(self._compile_ids)}"

    def unsettled(self) -> None:
        self.steps.unsettled += 1

    def count_dispatch(self) -> None:
        self.steps.dispatches += 1

    def compile_opened(self) -> None:
        thread = threading.get_ident()
        self._compiling[thread] = self._compiling.get(thread, 0) + 1
        if self._alive:
            self._garbage.install()
            if not self._alive:  # the trace has ended on another thread, perhaps before that
                self._garbage.remove()

    def compile_closed(self) -> None:
        thread = threading.get_ident()
        self._compiled += 1
        self._compiling[thread] = max(0, self._compiling.get(thread, 0) - 1)  # of a fork's the begin was its parent's
        if not self._anything_compiles():
            self._garbage.remove()
            # the line must go before the program writes; and Ray ends a worker as soon as its driver has the result
            if self._alive and (self._live is not None or self._row.how == "ray"):
                self._drain.wake()

    def note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.emit(Note(now(), text))

    def state(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        self._attached.add(collector)
        if state == "partial" and collector not in self.partial:
            self.partial.append(collector)
        if collector not in self._failed:
            self._blind[collector] = left_open(collector, state, missing)
            self._tell_state(CollectorState(now(), collector, state, version, missing, self._blind[collector]))

    def _tell_state(self, state: CollectorState) -> None:
        self._states[state.name] = state
        self.emit(state)

    def unseen(self, claim: str) -> list[str]:
        """The collectors by whose silence nothing of `claim`, of `blind_spots.CLAIMS`, may be concluded."""
        return [collector for collector, claims in self._blind.items() if claim in claims]

    def fail(self, collector: str, error: Exception) -> None:
        """A hook of `collector` raised: it is done for this trace, reported once in the trace and on stderr."""
        if collector in self._failed:
            return
        text = f"collector {collector} failed and was detached: {first_line(error)}"
        self._failed[collector] = text
        self._inert.add(collector)
        self._blind[collector] = left_open(collector, "failed", [text])
        self._tell_state(CollectorState(now(), collector, "failed", None, [text], self._blind[collector]))
        self.note(text)
        self._drain.say(text)

    def when_imported(self, module: str, callback: Callable[[Any], None]) -> None:
        def attach(module_: Any) -> None:
            try:
                self._attaching.run(lambda: callback(module_))
            except Exception as error:
                if interrupts(error):
                    raise
                text = f"attaching to {module} failed: {first_line(error)}"
                self.note(text)
                self._drain.say(text)

        self.import_hook.when_imported(module, attach)

    def guarded(self, collector: str, hook: Hook) -> Hook:
        @wraps(hook)
        def guard(*args: Any, **kwargs: Any) -> Any:
            if not self._alive or collector in self._inert:
                return None
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                if interrupts(error):
                    raise
                self.fail(collector, error)
                return None

        return cast(Hook, guard)

    def add_candidate(self, candidate: Candidate) -> bool:
        if not (self.infers and self.in_own_process()) or (number := next(self._candidate_ids)) >= _MOST_CANDIDATES:
            return False
        candidate.id = f"s{number}"
        self._buffers.candidates.append(candidate)
        return True

    def on_first_mark(self, leave: Callable[[], None]) -> None:
        self._leave.append(leave)

    def on_device_trace(
        self,
        run: Callable[[], None],
        rest: Callable[[], None],
        *,
        any_time: bool = False,
        run_within: Callable[[str | None], None] | None = None,
    ) -> None:
        if self.window is not None:
            attaching = self._attaching

            def ask(within: str | None) -> None:
                attaching.run(run if run_within is None else lambda: run_within(within))

            self.window.add(ask, lambda: attaching.run(rest), any_time=any_time)

    def between_calls(self, within: str | None = "") -> None:
        window = self.window
        if window is not None and window.due_ns and self.in_own_process() and not self._anything_compiles():
            window.between_calls(within)

    def keep_ir(self, compile: str, form: str, text: Callable[[], str | None]) -> None:
        if not (self.ir and self._alive):
            return
        ours = Begin(now(), form, "coldstep", "coldstep")
        self.emit(ours)
        try:
            program = text()
            if program is not None and len(program) > _MAX_IR_CHARS:
                self.note(
                    f"{form} of compile {compile} was not kept: {len(program):,} characters, over {_MAX_IR_CHARS:,}."
                )
            elif program is not None:
                self.emit(IR(now(), compile, form, program))
        except Exception as error:
            if interrupts(error):
                raise
            self.note(f"{form} of compile {compile} could not be taken: {first_line(error)}")
        finally:
            self.emit(End(now(), ours))

    def is_tracing(self, check: Callable[[], bool]) -> None:
        self._tracing.append(check)

    def on_wait(self, wait: Callable[[Any], None]) -> None:
        self.waiters.append(wait)

    def on_mark(self, look: Callable[[bool], None]) -> None:
        self.mark_hooks.append(look)

    def in_first_step(self) -> bool:
        if not self._looks_ahead():
            return False
        step = self.steps.open.get("step")
        if step is not None:
            return self.steps.ordinals.get(step.name) == 1
        calls = (row for row in list(self._buffers.candidates) if row.kind != "setup")
        return self.infers and not any(row.was_called_again for row in calls)

    def on_first_step(self, look: Callable[[FrameType, Any], list[Foreseen]]) -> None:
        self._ahead.append(look)

    def call_ended(self, frame: FrameType, result: Any) -> None:
        if not (self.infers and self._shows and self.in_own_process() and self.in_first_step()):
            return
        ours = Begin(now(), "look ahead", "coldstep", "coldstep")
        self.emit(ours)
        foreseen = [each for look in self._ahead for each in look(frame, result) or ()]
        self.emit(End(now(), ours))
        if foreseen:
            self._drain.afterwards(lambda: self._announce(self._explained(foreseen, "")))

    def step_boundary(self, ns: int, *, is_step: bool) -> None:
        if self.steps.ordinals:  # the program marks its steps itself
            return
        n = self._inferred.n if self._inferred is not None else 0
        if self._inferred is not None and is_step:
            self.emit(StepEnd(ns, self._inferred, self.steps.waited, 0))
            if self.window is not None:
                self.window.step_ended("step", self.steps.unsettled != self._inferred_unsettled)
            n += 1
        if self.window is not None and self.window.step_begins("step"):
            ns = now()
        self.steps.waited = False
        self._inferred_unsettled = self.steps.unsettled
        self._inferred = StepBegin(ns, "step", n, inferred=True)
        self.emit(self._inferred)

    # --- for the marks ----------------------------------------------------------------------------------------

    def first_mark(self) -> None:
        """The program marks its steps itself."""
        self.infers = False
        for leave in self._leave:
            leave()

    def before_mark(self, *, step_begins: bool = False) -> None:
        """The program is about to mark something: have the collectors look first."""
        for look in self.mark_hooks:
            look(step_begins)

    def flush(self) -> None:
        """Return when all that this thread has done so far is on disk; the time is coldstep's."""
        if self._alive:
            ours = Begin(now(), "flush", "coldstep", "coldstep")
            self.emit(ours)
            self._drain.flush()
            self.emit(End(now(), ours))

    def traced(self) -> bool:
        """Whether a framework is tracing this thread's Python right now."""
        for check in self._tracing:  # noqa: SIM110  # any() over a generator costs as much as a mark
            if check():
                return True
        return False

    def in_own_process(self) -> bool:
        """False in a fork's child, where this copy of the session becomes inert, and after the trace."""
        if getpid() != self.pid:
            self._alive = False
        return self._alive

    def in_parent(self) -> bool:
        """Whether this is the process that the trace is of, and no fork's child."""
        return getpid() == self.pid


def active() -> Session | None:
    """The trace that is active in this process."""
    session = _active
    return session if session is not None and session.in_own_process() else None


def _is_pools() -> bool:
    """Whether this process is a worker that its parent ends: it must not keep it waiting. Readers find what it did."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.current_process().daemon


def parents() -> Session | None:
    """In a fork's child: the trace that was active in its parent."""
    return _active


def take_place(session: Session) -> Session:
    """Whose the place of this process's one trace is: `session`'s from now on, unless it is another's already."""
    return _places.setdefault(getpid(), session)


def give_place_back() -> None:
    """The trace whose the place was has given back all else."""
    _places.pop(getpid(), None)


def activate(session: Session | None) -> None:
    """Make `session` the active one; None: there is none any more."""
    global _active
    _active = session


def _declared(collectors: Iterable[Collector]) -> tuple[dict[str, Any], list[str]]:
    """The words of collectors that coldstep has none for, and a sentence for each whose words are no `Words`."""
    words: dict[str, Any] = {}
    problems: list[str] = []
    for collector in collectors:
        declared = getattr(collector, "vocabulary", None)
        if isinstance(declared, Words):
            words[collector.name] = plain(declared)
        elif declared is not None:
            problems.append(f"collector {collector.name}: its vocabulary is no coldstep.vocabulary.Words")
    return words, problems
