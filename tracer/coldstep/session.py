"""What records one trace: starts and stops collectors, takes their events, knows the open step and how it all ended."""

from __future__ import annotations

import atexit
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from os import getpid
from typing import TYPE_CHECKING, Any

from coldstep import clock
from coldstep._util.installed import Offer, in_notebook, offers
from coldstep._util.labels import labels
from coldstep._util.pythons import untried
from coldstep._util.stderr import say
from coldstep.clock import now
from coldstep.collector import COLLECTORS, Collector, discover, own_time
from coldstep.errors import contained, first_line, our_errors
from coldstep.notices.listeners import Listeners
from coldstep.notices.look_ahead import LookAhead
from coldstep.notices.on_stderr import OnStderr
from coldstep.recording import import_time
from coldstep.recording.attached import Attached
from coldstep.recording.buffer import Buffers, Drain, Thread
from coldstep.recording.counters import counters
from coldstep.recording.device_window import OFF, Window
from coldstep.recording.ending import (
    cells,
    how_it_ended,
    is_forked_by_multiprocessing,
    peak_rss_bytes,
    place_of,
    versions,
    without_events,
)
from coldstep.recording.intake import Intake
from coldstep.recording.last_word import LastWord
from coldstep.recording.options import Options
from coldstep.recording.output import Taken, file_to_write, open_new, own_name, project_root, rank_of
from coldstep.recording.steps import Steps
from coldstep.run_row import Dropped, RunRow
from coldstep.vocabulary import Vocabulary, Words, of_trace, plain

if TYPE_CHECKING:
    from coldstep.recording.compiles_so_far import Retold
    from coldstep.recording.recorder import Recorder

_VIEWERS = "coldstep.viewers"  # the group of entry points
_MAX_JUDGED_STEPS = 20_000  # of a run that is read back as it ends: about a second's work
_SAYS_NOTHING_S = 10.0  # a part of a job that has lived so long is worth a file whatever it did
_LEAVES_WITHIN_S = 1.0  # a program that leaves by `os._exit`
_MOST_INTERRUPTIONS = 20  # of the end of a trace that the rest of it is still done after
_active: Session | None = None
_places: dict[int, Session] = {}  # by process, for a fork's child begins anew; `setdefault` lets one of two threads in


class Session:
    """One trace being recorded: what `with coldstep.trace(…) as run` binds, and marks look at."""

    def __init__(self, options: Options) -> None:
        self.options = options
        """What the trace was asked to do."""
        self.path = options.path
        """The file that is written; once the trace has begun, with all that its name leaves open filled in."""
        self.displaced = False
        """Whether another process is writing the file that was asked for, so that this is one beside it."""
        self.joined: list[str] = []
        """The files that traces which joined this one would have written."""
        self.headline = "nothing was written"
        """The trace in one line, once the block has ended."""
        self._words: dict[str, Any] = {}
        self._viewers: dict[str, Offer] = {}
        self._buffers = buffers = Buffers(self.speak, self.begin_anew, held=options.part)
        hold_s = _SAYS_NOTHING_S if options.part else 0.0
        self._drain = drain = Drain(buffers, self._open, self._busy, self._written, self._cannot_go_on, hold_s)
        self.steps = steps = Steps(buffers, options.infer)
        """What is known of the steps so far."""
        if options.device != OFF:
            follows = options.infer and options.whole_process
            steps.window = Window(options.device, buffers.emit, follows=follows)
        self.attached = Attached(drain)
        """The collectors, and how each stands."""
        self._stderr = OnStderr(buffers.note, self._viewers)
        self.ahead = LookAhead(drain, steps, self._stderr, self._words)
        """Who hears of the compiles that the second step will bring."""
        self.sink = sink = Intake(options, drain, steps, self.attached, self.ahead, self._idle_since)
        """What collectors see of it."""
        self.listeners = Listeners(drain, sink.work, self._words)
        """Who hears at marks of compiles."""
        self.last_word = LastWord(self._exits)
        """What says how it ended where the process does not come to say it."""
        self.partial = self.attached.partial
        """The collectors that could not be attached wholly."""
        # marks look all these up, and should find them at once
        self.emit, self.append, self.note, self.settle = buffers.emit, buffers.append, buffers.note, drain.settle
        self.in_own_process, self.in_parent = buffers.in_own_process, buffers.in_parent
        self.waiters, self.mark_hooks = sink.waiters, sink.mark_hooks
        self.before_mark, self.traced = sink.before_mark, sink.traced
        self.at_marks = self.listeners.at_marks
        """See `Listeners`."""
        self._parents: Recorder | None = None  # of the process that this one is a fork of
        self._taken: list[Callable[[], object]] = []  # what gives back all that was taken so far of the process
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
        """The text of `coldstep report`, once the block has ended; of `coldstep run`'s trace, when that will be."""
        if self.in_own_process():
            if self.options.joinable:
                return f"The trace goes on until the script ends; then: coldstep report {self.path}"
            raise RuntimeError("report() reads the finished file: call it after the with block")
        from coldstep.loading import load

        return str(self._viewers["terminal"].load()(load(self._file)))

    def metrics(self) -> dict[str, float]:
        """How many compiled so far, recompiled, came from a cache, and the seconds; at any time, on any thread."""
        if self._buffers.is_on:
            self._drain.flush()
        return counters(self._drain.recorder.compiles.ended())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal; a notebook has the page."""
        printer.text(repr(self) if self._buffers.is_on or in_notebook() else self.report())

    def _repr_html_(self) -> str | None:
        """What a notebook shows of this trace, once its block has ended."""
        if self._buffers.is_on:
            return None
        from coldstep.loading import load

        return load(self._file)._repr_html_()

    @property
    def failures(self) -> list[str]:
        """What made a collector detach itself, in one sentence each."""
        return list(self.attached.failed.values())

    def compiles(self) -> list[Retold]:
        """All that was compiled, once the trace has ended."""
        return list(self._drain.recorder.compiles)

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file and begin. Whoever asked for it abandons it where that fails, or is interrupted.

        Raises OSError when the file cannot be written, ValueError for an unknown collector, RuntimeError where no
        thread can begin.
        """
        self._started = clock.snapshot()
        began_ns, age_ns = self._started.monotonic_ns, clock.process_age_ns()
        installed = offers()  # once: it looks at every distribution that is installed
        self._viewers |= {offer.name: offer for offer in installed if offer.group == _VIEWERS}
        of_collectors = [offer for offer in installed if offer.group == COLLECTORS]
        collectors, problems = discover(self.options.collectors, of_collectors)
        collectors = [*filter(self.options.ask_for, collectors)]
        problems += [*_declared(collectors, self._words), *filter(None, (untried(),))]
        script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
        if not self.options.part:
            self.path = file_to_write(self.path, rank_of(collectors), script or "trace")
        self._file = os.path.abspath(self.path)  # the program may change its folder
        whole = self.options.whole_process
        own_ns = began_ns - import_time.BEGAN_NS if whole else import_time.took_ns
        self._introduce(collectors, age_ns, own_ns)
        self._stderr.is_shown = self.options.live and self._row.rank in (None, 0)  # ranks may share a terminal
        self._taken.append(self._stop_drain)
        if self.options.part:
            self._drain.begin()
        else:
            self._drain.start()
        self._buffers.is_on = True
        with own_time(self.emit, "start", began_ns):
            if self.displaced:
                problems.append(f"Another process is writing the file that was asked for: this trace is {self.path}.")
                say(problems[-1])
            for problem in problems:
                self.note(problem)
            self._taken += [self._stop_collectors, self.attached.import_hook.remove]
            self.attached.import_hook.install()
            for collector in collectors:
                self.attached.start(collector, self.sink)
        if not self.options.part:
            self._drain.flush()

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

    def _introduce(self, collectors: list[Collector], age_ns: int, own_ns: int) -> None:
        """Make the row of this process, whose thread here is the trace's."""
        self._home = Thread(threading.get_native_id(), threading.current_thread().name)
        self._row = row = _row_of(self.options, self._started, self._home.tid)
        row.rank, row.vocabulary = self._rank(collectors), self._words
        row.before_trace_ns, row.own_before_trace_ns = age_ns, own_ns
        row.collectors = [collector.name for collector in collectors]
        if self.options.job is not None:
            self.options.job.introduce(row, is_fork=self._buffers.is_fork)
        self.sink.hurries = row.how == "ray"  # which ends a worker as soon as its driver has the result

    def in_child(self) -> None:
        """In a fork's child, which may be about to run another program: only what cannot wait until it records."""
        self._buffers.fall_asleep(for_ever=self.options.job is None)
        self.last_word.in_child()
        self.steps.window, self.steps.open = None, {}  # a profiler, and steps, of its parent's

    def begin_anew(self, forked_ns: int) -> None:
        """In a fork's child that is of the job, before the first that may be recorded there."""
        self._parents = getattr(self._drain, "recorder", None)
        self._drain.begin_anew()
        for part in (self.steps, self.sink, self.listeners, self.ahead, self._stderr, self.last_word):
            part.begin_anew()
        options = self.options
        options.device, options.judged, options.ready_after, options.stacks = OFF, False, None, False
        self._started = clock.snapshot_of(forked_ns)
        self._taken = [self._stop_drain]
        if options.job is not None:
            options.job.in_child()
        self.attached.forked()
        take_place(self)

    def speak(self) -> None:
        """From here on all is written: a part of a job has something to record. In hooks, too: it does not wait."""
        if not self._buffers.release():
            return
        if not self._buffers.is_fork:
            self._drain.wake()
            return
        try:
            self.attached.keep(self.options.ask_for, self._started.monotonic_ns)
            self._introduce(self.attached.collectors, 0, 0)
            self._drain.begin()
            self._taken.append(self._stop_collectors)
            self.attached.begin_in_fork()
        except our_errors():
            self._buffers.is_on = False  # no thread can begin: the program goes on without a trace
        else:
            if not is_forked_by_multiprocessing():
                atexit.register(lambda: self.finish(getattr(sys, "last_value", None)))

    @property
    def is_written(self) -> bool:
        """Whether there is a file, or will be."""
        return not self._buffers.held

    def _open(self) -> Recorder:
        from coldstep._util.command_secrets import hidden  # most processes of a job have nothing to record
        from coldstep.recording.recorder import Recorder

        self._row.command = hidden(self.options.command)
        is_part = self.options.part or self._buffers.is_fork
        fd = self._open_part() if is_part else self._open_own()
        try:
            recorder = Recorder(fd, self._home, self._row.rank, self._started, self._row.at_begin(), self._parents)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                recorder.end_open()
                self.last_word.goes_on(self._file)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError) and is_part:
                self._cannot_go_on(error.strerror or str(error))
            raise
        return recorder

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
        from coldstep.job.parts import open_file

        is_silent = not self.is_written  # it has only lived long
        self._buffers.release()
        job = self.options.job
        assert job is not None
        self._row.rank = self._rank(self.attached.collectors)  # the program may have made it one meanwhile
        job.call(self._row)
        self.path, fd = open_file(job, self._row.process_name or "python", self._row.rank, is_silent=is_silent)
        self._file = self.path
        return fd

    def _exits(self, code: Any = 0) -> None:
        """The program leaves by `os._exit`, at once: only what is known already is written. Forks often end so."""
        if self._buffers.is_on and self.in_own_process() and self.is_written:
            self._row.ended, self._row.error = how_it_ended(SystemExit(code))
            self._end_ns = now()
            if self._buffers.is_fork:
                self._stop_collectors()
            self._drain.stop(self._write_row, _LEAVES_WITHIN_S)

    def finish(self, error: BaseException | None) -> None:
        """Stop the collectors and close the file; in a fork's child, which has no part in the trace, do nothing."""
        self._buffers.stay_asleep()
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
        for sentence in self.ahead.missed():
            self.note(sentence)
        self.before_mark()  # what is found out late: the end is the last mark
        self._end_ns = now()
        row.rank = self._rank(self.attached.collectors)  # a job may have begun inside the block

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
        self.attached.stop(self._end_ns, abandoned=self._abandoned)
        self.sink.garbage.remove()  # not before: a thread may still compile

    def _stop_drain(self) -> None:
        self._drain.stop(self._write_end)

    def _write_end(self) -> None:
        """Write how it ended, and what hindsight finds. On the drain thread, where nothing can interrupt it."""
        if not self.is_written:
            return
        self._stderr.show(None)
        try:
            if self._abandoned and os.path.isfile(self._file):
                os.unlink(self._file)
            elif not self._abandoned:
                self._tell_end()
        except our_errors() as problem:
            self.headline = f"incomplete: {first_line(problem)}"
        with contained():
            self.last_word.leave()
            self._drain.recorder.writer.cut()
        self._drain.recorder.writer.close()

    def _write_row(self) -> int:
        row = self._row
        row.dropped = Dropped(self._drain.lost, self._buffers.dropped_bulk + self._drain.recorder.dropped)
        row.versions = versions(self._words)
        with contained():  # a shell of somebody's own
            row.cells = cells()
        row.peak_rss_bytes = peak_rss_bytes()
        end_ns = self._drain.recorder.finish(self._end_ns, row.at_end())
        self._drain.recorder.flush()
        return end_ns

    def _tell_end(self) -> None:
        row, end_ns = self._row, self._write_row()
        seen = self._drain.recorder.uneventful and not self.attached.misses(self.vocabulary)
        if row.ended == "ok" and not self._drain.lost and seen:
            self.headline = without_events(end_ns - self._started.monotonic_ns)
            return
        self.headline = "coldstep report shows its contents"
        if self.options.judged and not _is_pools():
            self._judge()

    def _judge(self) -> None:
        """What only hindsight knows: read the file back, append its findings to it, and put it in a line."""
        steps = self.steps.ended or max((row.written for row in self._buffers.candidates), default=0)
        if steps > _MAX_JUDGED_STEPS:  # the program must not wait, nor need the memory
            what = "steps" if self.steps.ended else "calls that may be steps"
            self.headline = f"{steps} {what}; coldstep report shows the rest"
            return
        from coldstep.converting.write_findings import write_hindsight

        trace = write_hindsight(self._file, self._drain.recorder)
        if (viewer := self._viewers.get("headline")) is not None:
            self.headline = str(viewer.load()(trace))

    def _busy(self) -> bool:
        return bool(self.steps.open) or self.sink.is_compiling() or self._drain.recorder.waits_on(now())

    def _written(self) -> None:
        """On the drain thread."""
        steps, recorder = self.steps, self._drain.recorder
        if steps.window is not None and self._buffers.is_on:
            steps.window.look(list(self._buffers.candidates), steps.unsettled, compiles=self.sink.is_compiling())
        while recorder.compiles.late:
            late = recorder.compiles.late.popleft()
            self.listeners.keep(late)
            self._stderr.show_late(late)
        for step in list(steps.open.values()):
            if step.buffer is not None and not step.buffer.is_alive:
                step.end_with_thread()
        if self._stderr.is_shown:
            self._stderr.show(recorder.under_way(now()))
            self.sink.hurries |= self._stderr.live is not None

    def _idle_since(self) -> int | None:
        recorder = getattr(self._drain, "recorder", None)
        # of a part of a job that has recorded nothing so far all phases are still to be written
        return recorder.partition.idle_since if recorder not in (None, self._parents) else self._started.monotonic_ns

    def flush(self) -> None:
        """Return when all that this thread has done so far is on disk; the time is coldstep's."""
        if self._buffers.is_on:
            with own_time(self.emit, "flush"):
                self._drain.flush()


def active() -> Session | None:
    """The trace that is active in this process."""
    session = _active
    return session if session is not None and session.in_own_process() else None


def _row_of(options: Options, started: clock.Snapshot, tid: int) -> RunRow:
    """The row of this process, so far."""
    return RunRow(
        root=project_root(),
        tid=tid,
        started=clock.time_of_day(started.realtime_ns),
        pid=getpid(),
        host=os.uname().nodename,
        boot=clock.boot_id(),
        born=clock.born(),
        versions={"python": sys.version.split()[0]},
        clock_uncertainty_ns=started.uncertainty_ns,
        labels=labels(options.labels, os.environ),
        ready_after=options.ready_after,
    )


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


def has_place(session: Session) -> bool:
    """Whether it is `session`'s."""
    return _places.get(getpid()) is session


def give_place_back() -> None:
    """The trace whose the place was has given back all else."""
    _places.pop(getpid(), None)


def activate(session: Session | None) -> None:
    """Make `session` the active one; None: there is none any more."""
    global _active
    _active = session


def _declared(collectors: Iterable[Collector], words: dict[str, Any]) -> Iterator[str]:
    """Add the words of collectors that coldstep has none for; a sentence for each whose words are no `Words`."""
    for collector in collectors:
        declared = getattr(collector, "vocabulary", None)
        if isinstance(declared, Words):
            words[collector.name] = plain(declared)
        elif declared is not None:
            yield f"collector {collector.name}: its vocabulary is no coldstep.vocabulary.Words"
