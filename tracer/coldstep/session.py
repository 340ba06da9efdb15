"""`trace()` and the marks inside it: starts and stops collectors, knows the open step, says how it all ended."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import wraps
from importlib.metadata import entry_points
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from coldstep import began, clock
from coldstep.attaching import Attaching
from coldstep.buffer import Buffers, Drain
from coldstep.claims import left_open
from coldstep.clock import now
from coldstep.collector import Collector, Hook, discover
from coldstep.device import CHOICES, OFF, UNTIL_SETTLED, Window
from coldstep.events import IR, Begin, CollectorState, End, Event, Note, StepBegin, StepEnd
from coldstep.garbage import GarbageWatch
from coldstep.hidden import hidden
from coldstep.importhook import ImportHook
from coldstep.pftrace.layout import SCHEMA
from coldstep.recorder import Recorder, Thread, UnderWay
from coldstep.say import say
from coldstep.vocabulary import Vocabulary, Words, of_trace, plain

if TYPE_CHECKING:
    from coldstep.on_recompile import Recompiled

T = TypeVar("T")

_JUDGED_AT_ONCE = 20_000  # steps of a run that is read back as it ends: about a second's work
_LONG_NS = 3_000_000_000  # a compile that takes longer is told of while it lasts
_WRITTEN_AT_ONCE = 32  # steps whose exit returns only when they are on disk
_NO_MEMORY = ("RESOURCE_EXHAUSTED", "DefaultCPUAllocator: can't allocate", "std::bad_alloc", "out of memory allocating")
_MADE = re.compile(r"(?:site|dist)-packages|torchinductor|coldstep_(?:collectors|viewers)")
_AT_ONCE_NS = 10_000_000  # an error that ends the block so soon after a loop over `steps` was left has left it
_NOT_THE_USERS = (os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)))
_LARGEST_IR = 1 << 23  # characters of one program's text that are kept
_NO_MARK = contextlib.nullcontext()
_active: Session | None = None
_watches_forks = False
_modules = sys.modules


class Session:
    """One trace being recorded: what `with coldstep.trace(…) as run` binds.

    Collectors see it as their `Sink`.
    """

    def __init__(self, path: str, collectors: Sequence[str] | None, command: Sequence[str], device: str) -> None:
        self.path = path
        self.under_run = False
        self.whole_process = False
        self.ir = False
        self.stacks = False
        self.live = False
        self._names = list(collectors) if collectors is not None else None
        self._command = list(command)
        self._buffers = Buffers()
        self._alive = False
        self.pid = os.getpid()
        self._ordinals: dict[str, int] = {}
        self._open_step: dict[str, _Step] = {}
        self._nested = False  # whether a step was opened inside another
        self._steps = 0
        self._waited = False
        self._erred = 0  # id of the error that the last step ended with, or when a loop over `steps` was left
        self._window = Window(device, self.emit) if device != OFF else None
        self._compile_ids = itertools.count()
        self._unsettled = 0  # goes up with all that a settled step does not do
        self._compiling: dict[int, int] = {}  # per thread, so that no two threads write one number
        self._compiled = self._told = 0  # how many compiles have ended, and how many when the listeners were last told
        self._listeners: list[Callable[[Recompiled], object]] = []
        self._dispatches = 0
        self._said: set[str] = set()
        self._failed: dict[str, str] = {}
        self._inert: set[str] = set()  # collectors whose hooks do nothing any more
        self._blind: dict[str, list[str]] = {}
        self._attached: set[str] = set()
        self._attaching = Attaching()
        self._tracing: list[Callable[[], bool]] = []
        self._waiters: list[Callable[[Any], None]] = []
        self._lookers: list[Callable[[bool], None]] = []
        self._inferred: StepBegin | None = None  # the step under way where the program marks none
        self._inferred_unsettled = 0  # what that was as it began
        self._collectors: list[Collector] = []
        self._live: Callable[[UnderWay | None], object] | None = None
        self.joined: list[str] = []
        """The files that traces which joined this one would have written."""
        self.headline = "nothing was written"
        """The trace in one line, once the block has ended."""
        self._garbage = GarbageWatch(self.emit)
        self.import_hook = ImportHook()

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of this trace: ours, and those of collectors of others."""
        return of_trace(self._words)

    @property
    def step_names(self) -> set[str]:
        """The names of the steps recorded so far."""
        return set(self._ordinals)

    def report(self) -> str:
        """The text of `coldstep report` for this trace, once its block has ended.

        Where the trace is that of `coldstep run`, which ends with the script: a line that says so.
        """
        if self._alive:
            if self.under_run:
                return f"The trace goes on until the script ends; then: coldstep report {self.path}"
            raise RuntimeError("report() reads the finished file: call it after the with block")
        from coldstep.loading import load

        (viewer,) = entry_points(group="coldstep.viewers", name="terminal")
        return str(viewer.load()(load(self._file)))

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

    def listen(self, callback: Callable[[Recompiled], object]) -> None:
        """Call `callback` for every recompile from now on, at the next mark after it."""
        self.tell_recompiles(sys._getframe(2))
        self._drain.flush()
        self._recorder.take_recompiles()  # those before are nobody's
        self._told = self._compiled
        self._listeners.append(callback)

    def unlisten(self, callback: Callable[[Recompiled], object]) -> None:
        """Undo `listen`."""
        self._listeners.remove(callback)

    def tell_recompiles(self, frame: FrameType | None) -> None:
        """Tell the listeners what was compiled again since the last mark; `frame` is the user's, which made this one.

        Not in the hook that saw it: frameworks call hooks under their locks, in the middle of a compile, where nothing
        may be imported, printed, called or raised. At a mark the program runs its own code.
        """
        if not self._listeners or self._told == self._compiled or not self.in_own_process():
            return
        self._told = self._compiled
        ours = Begin(now(), "explain", "coldstep", "coldstep")
        self.emit(ours)
        self._drain.flush()
        found: list[Recompiled] = []
        if taken := self._recorder.take_recompiles():
            from coldstep.on_recompile import explain

            root = project_root()
            found = [explain(variants, root, step, frame, self._words) for variants, step in taken]
        self.emit(End(now(), ours))
        for recompiled in found:
            try:
                for callback in list(self._listeners):
                    callback(recompiled)
            finally:
                recompiled.frame = None  # to keep it would keep all of the user's variables alive

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file and begin.

        Raises OSError when the file cannot be written, ValueError for an unknown collector.
        """
        started = clock.snapshot()
        age_ns = clock.process_age_ns()
        collectors, problems = discover(self._names)
        if self._window is None:
            collectors = [collector for collector in collectors if not getattr(collector, "records_devices", False)]
        if not self.stacks:
            collectors = [collector for collector in collectors if not getattr(collector, "samples_stacks", False)]
        self._words, unreadable = _declared(collectors)
        problems += unreadable
        rank = _rank(collectors)
        script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
        self.path = output(self.path, rank, script or "trace")
        self._file = os.path.abspath(self.path)  # the program may change its folder
        self._fd = _open(self._file)
        self._home = Thread(threading.get_native_id(), threading.current_thread().name)
        about = {
            "schema": SCHEMA,
            "command": hidden(self._command),
            "root": project_root(),
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "pid": self.pid,
            "host": socket.gethostname(),
            "boot": clock.boot_id(),
            "rank": rank,
            "tid": self._home.tid,
            "before_trace_ns": age_ns,
            "own_before_trace_ns": started.monotonic_ns - began.AT_NS if self.whole_process else began.took_ns,
            "versions": {"python": sys.version.split()[0]},
            "clock_uncertainty_ns": started.uncertainty_ns,
            "collectors": [collector.name for collector in collectors],
            "vocabulary": self._words,
        }
        recorder = Recorder(self._fd, self._home, rank, started, about)
        self._recorder = recorder
        self._alive = True
        ours = Begin(started.monotonic_ns, "start", "coldstep", "coldstep")
        self.emit(ours)
        look = self._look if self.live and rank in (None, 0) else lambda: None  # ranks may share a terminal
        self._drain = Drain(self._buffers, recorder, self._busy, look)
        for problem in problems:
            self.note(problem)
        self.import_hook.install()
        for collector in collectors:
            self._collectors.append(collector)
            try:
                collector.start(self)
            except Exception as error:
                self.fail(collector.name, error)
        self.emit(End(now(), ours))
        self._drain.flush()

    def finish(self, error: BaseException | None) -> None:
        """Stop the collectors and close the file; in a fork's child, which has no part in the trace, do nothing."""
        in_step = bool(self._open_step) or id(error) == self._erred or 0 <= now() - self._erred < _AT_ONCE_NS
        for step in list(self._open_step.values()):
            step.__exit__()
        if not self.in_parent():
            return
        ended, text = _ended(error)
        end_ns = now()
        rank = _rank(self._collectors)  # a job may have begun inside the block
        self.import_hook.remove()
        ours = Begin(end_ns, "stop", "coldstep", "coldstep")
        self.emit(ours)
        if not self._attaching.end():
            self.note("A collector still attached on another thread as the trace ended: hooks of it may stay, inert.")
        for collector in self._collectors:
            try:
                for left in collector.stop():
                    self.note(f"{collector.name} leaves in the process, inert: {left}")
            except Exception as problem:
                self.fail(collector.name, problem)
            self._inert.add(collector.name)
        for name in (c.name for c in self._collectors if c.name not in self._attached and c.name not in self._failed):
            self.emit(CollectorState(now(), name, "absent", None, []))
        self.emit(End(now(), ours))
        self._alive = False
        self._garbage.remove()  # not before: a thread may still compile
        self._drain.stop()
        self._show(None)
        about = {
            "ended": ended,
            "error": text,
            "error_location": _place(error),
            "error_in_step": in_step and error is not None,
            "rank": rank,
            "dropped": {"ledger": self._drain.lost, "bulk": self._buffers.dropped_bulk + self._recorder.dropped},
            "versions": _versions(self._words),
            "peak_rss_bytes": _peak_rss(),
        }
        try:
            self._recorder.finish(end_ns, about)
            self._recorder.flush()
            self._judge(end_ns)
        except Exception as problem:
            self.headline = f"incomplete: {type(problem).__name__}: {problem}"
        self._recorder.close()

    def _judge(self, ns: int) -> None:
        """What only hindsight knows: read the file back, append its findings to it, and put it in a line."""
        if self._steps > _JUDGED_AT_ONCE:
            # the program must not wait, nor need the memory
            self.headline = f"{self._steps} steps; coldstep report tells the rest"
            return
        from coldstep.loading import load

        trace = load(self._file)
        for finding in trace.findings:
            at = trace.intervals[finding.interval].start_ns + trace.origin_ns if finding.interval is not None else ns
            args = {"text": finding.text, "advice": finding.advice, "evidence": finding.evidence, "id": finding.id}
            self._recorder.finding(at, finding.kind, args)
        self._recorder.flush()
        for viewer in entry_points(group="coldstep.viewers", name="headline"):
            self.headline = str(viewer.load()(trace))

    def _busy(self) -> bool:
        return bool(self._open_step) or self._anything_compiles()

    def _look(self) -> None:
        """On the drain thread: show what has been compiling for long."""
        self._show(self._recorder.under_way(now()))

    def _show(self, under_way: UnderWay | None) -> None:
        try:
            if self._live is None and under_way is not None and under_way.elapsed_ns >= _LONG_NS:
                (viewer,) = entry_points(group="coldstep.viewers", name="live")
                self._live = viewer.load()()
            if self._live is not None:
                self._live(under_way)
        except Exception as error:
            self._live = lambda _: None
            self.note(f"the live line ended: {type(error).__name__}: {error}")

    def _anything_compiles(self) -> bool:
        return any(depth > 0 for depth in list(self._compiling.values()))

    # --- the sink that collectors see -------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """See `coldstep.collector.Sink`, as for all below."""
        if self._alive and self.in_own_process():
            self._buffers.append(event)

    def wake(self) -> None:
        if self._alive:
            self._drain.wake()

    def new_compile(self) -> str:
        self._unsettled += 1
        return f"c{next(self._compile_ids)}"

    def unsettled(self) -> None:
        self._unsettled += 1

    def count_dispatch(self) -> None:
        self._dispatches += 1

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
        self._compiling[thread] = self._compiling.get(thread, 0) - 1
        if not self._anything_compiles():
            self._garbage.remove()
            if self._live is not None and self._alive:
                self._drain.wake()  # the line must go before the program writes

    def note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.emit(Note(now(), text))

    def state(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        self._attached.add(collector)
        if collector not in self._failed:
            self._blind[collector] = left_open(collector, state, missing)
            self.emit(CollectorState(now(), collector, state, version, missing, self._blind[collector]))

    def unseen(self, claim: str) -> list[str]:
        """The collectors by whose silence nothing of `claim`, of `claims.CLAIMS`, may be concluded."""
        return [collector for collector, claims in self._blind.items() if claim in claims]

    def fail(self, collector: str, error: Exception) -> None:
        """A hook of `collector` raised: it is done for this trace, said once on the trace and on stderr."""
        if collector in self._failed:
            return
        text = f"collector {collector} failed and was detached: {type(error).__name__}: {error}"
        self._failed[collector] = text
        self._inert.add(collector)
        self._blind[collector] = left_open(collector, "failed", [text])
        self.emit(CollectorState(now(), collector, "failed", None, [text], self._blind[collector]))
        self.note(text)
        self._drain.say(text)

    def when_imported(self, module: str, callback: Callable[[Any], None]) -> None:
        def attach(found: Any) -> None:
            try:
                self._attaching.run(lambda: callback(found))
            except Exception as error:
                text = f"attaching to {module} failed: {type(error).__name__}: {error}"
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
                self.fail(collector, error)
                return None

        return cast(Hook, guard)

    def on_device_trace(self, run: Callable[[], None], rest: Callable[[], None]) -> None:
        if self._window is not None:
            attaching = self._attaching
            self._window.add(lambda: attaching.run(run), lambda: attaching.run(rest))

    def keep_ir(self, compile: str, form: str, text: Callable[[], str | None]) -> None:
        if not (self.ir and self._alive):
            return
        ours = Begin(now(), form, "coldstep", "coldstep")
        self.emit(ours)
        try:
            said = text()
            if said is not None and len(said) > _LARGEST_IR:
                self.note(f"{form} of compile {compile} was not kept: {len(said):,} characters, over {_LARGEST_IR:,}.")
            elif said is not None:
                self.emit(IR(now(), compile, form, said))
        except Exception as error:
            self.note(f"{form} of compile {compile} could not be had: {type(error).__name__}: {error}")
        finally:
            self.emit(End(now(), ours))

    def is_tracing(self, check: Callable[[], bool]) -> None:
        self._tracing.append(check)

    def on_wait(self, wait: Callable[[Any], None]) -> None:
        self._waiters.append(wait)

    def on_mark(self, look: Callable[[bool], None]) -> None:
        self._lookers.append(look)

    def step_boundary(self, ns: int, *, is_step: bool) -> None:
        if self._ordinals:  # the program marks its steps itself
            return
        n = self._inferred.n if self._inferred is not None else 0
        if self._inferred is not None and is_step:
            self.emit(StepEnd(ns, self._inferred, self._waited, 0))
            if self._window is not None:
                self._window.step_ended("step", self._unsettled != self._inferred_unsettled)
            n += 1
        if self._window is not None and self._window.step_begins("step"):
            ns = now()
        self._waited = False
        self._inferred_unsettled = self._unsettled
        self._inferred = StepBegin(ns, "step", n, inferred=True)
        self.emit(self._inferred)

    # --- for the marks ----------------------------------------------------------------------------------------

    def look(self, *, step_begins: bool = False) -> None:
        """The program is about to mark something."""
        for look in self._lookers:
            look(step_begins)

    def traced(self) -> bool:
        """Whether a framework is tracing this thread's Python right now."""
        for check in self._tracing:  # noqa: SIM110  # any() over a generator costs as much as a mark
            if check():
                return True
        return False

    def in_own_process(self) -> bool:
        """False in a fork's child, where this copy of the session becomes inert, and after the trace."""
        if not self.in_parent():
            self._alive = False
        return self._alive

    def in_parent(self) -> bool:
        """Whether this is the process that the trace is of, and no fork's child."""
        return os.getpid() == self.pid


class _Step:
    """One marked step: two stamps, appended."""

    __slots__ = ("_begin", "_dispatches", "_name", "_nested", "_session", "_unsettled")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._begin: StepBegin | None = None
        self._nested: _Annotation | None = None

    # Ctrl-C can come between any two lines below: what has been emitted counts, and `finish` ends an open step

    def __enter__(self) -> None:
        session = self._session
        # setdefault is one bytecode: of two threads at once, one has the step
        outer = session._open_step.setdefault("step", self)
        if outer is not self:
            if not session._nested:
                session._nested = True
                session.note(f"Step {self._name!r} was opened while step {outer._name!r} was open: it became an "
                             "annotation, as does every step inside another.")  # fmt: skip
            self._nested = _Annotation(session, self._name)
            self._nested.__enter__()
            return
        if session._window is not None:
            session._window.step_begins(self._name)
        session.look(step_begins=True)
        n = session._ordinals.get(self._name, 0)
        session._ordinals[self._name] = n + 1
        session._waited = False
        self._unsettled = session._unsettled
        self._dispatches = session._dispatches
        begin = StepBegin(now(), self._name, n)
        session.emit(begin)
        self._begin = begin

    def __exit__(self, _: object = None, error: BaseException | None = None, *__: object) -> None:
        session = self._session
        if error is not None:
            # a loop over `steps` is left by closing its generator, whatever left it
            session._erred = now() if isinstance(error, GeneratorExit) else id(error)
        if self._nested is not None:
            self._nested.__exit__()
            return
        if session._open_step.get("step") is not self:
            return  # the trace has ended inside this step, and closed it
        ended = now()
        if self._begin is None:
            session._open_step.clear()
            return
        session.look()
        session.emit(StepEnd(ended, self._begin, session._waited, session._dispatches - self._dispatches))
        session._open_step.clear()
        if session._window is not None:
            session._window.step_ended(self._name, session._unsettled != self._unsettled)
        session._steps += 1
        if (session._steps <= _WRITTEN_AT_ONCE or session._unsettled != self._unsettled) and session._alive:
            ours = Begin(now(), "flush", "coldstep", "coldstep")
            session.emit(ours)
            session._drain.flush()
            session.emit(End(now(), ours))
        if session._listeners:
            session.tell_recompiles(_users(sys._getframe(1)))


class _Annotation:
    """A named stretch of the user's own."""

    __slots__ = ("_begin", "_name", "_session")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    def __enter__(self) -> None:
        self._session.look()
        self._begin = Begin(now(), self._name, "annotations")
        self._session.emit(self._begin)

    def __exit__(self, *_: object) -> None:
        self._session.look()
        self._session.emit(End(now(), self._begin))


class trace:  # reads as the verb it is: with coldstep.trace(…)
    """Record everything until the block ends into `path`, a native Perfetto trace.

    `collectors` names the collectors to attach; "auto" is all that are installed, each attaching when its
    framework is there. `{rank}` and `{pid}` in `path` are filled in; a folder gets a file per process. Binds a
    `Session` with `.path` and `.report()`.

    `device` says when the frameworks' own profilers run, for what happens inside XLA and on the device:
    "until-settled+2", of each name of step from step 0 until two steps in a row compiled nothing and recorded no CUDA
    graph; "all"; "off". Their results are held in memory, within a bound that drops the oldest, and written when the
    block has ended. A profiler that the program itself uses goes before ours, which then ends.

    `stacks` has py-spy sample every thread's Python, 100 times a second for at most ten minutes, which names what no
    hook sees: the `sampled` of the intervals. Where it cannot (no py-spy, no ptrace), a note says so.

    `live` shows, on stderr, what has been compiling for more than 3 s: a line on a terminal that goes when the
    compile ends, elsewhere a line every 30 s.

    `on_recompile` is called with a `Recompiled` for everything that was compiled again, with cause, both values and
    the user's frame: at the first mark after it (`wait`, the end of a step or of the block), where it may print, stop
    in a debugger, or raise to end the program there.

    `ir` keeps the programs themselves, of every compile of the user's functions, in the forms that the frameworks give
    them, each of up to 8 MiB; a larger one is left out, with a note. What that takes is the phase `coldstep`.

    Raises OSError when the file cannot be written, ValueError for an unknown collector or `device`, and RuntimeError
    inside another trace, except under `coldstep run`: there it joins that trace, and `run.path` is the file that is
    really written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        collectors: str | Sequence[str] = "auto",
        device: str = UNTIL_SETTLED,
        stacks: bool = False,
        live: bool = True,
        ir: bool = False,
        on_recompile: Callable[[Recompiled], object] | None = None,
    ) -> None:
        self._path = os.fsdecode(path)
        if device not in CHOICES:
            raise ValueError(f"device={device!r} is none of {', '.join(map(repr, CHOICES))}")
        self._device = device
        self._stacks = stacks
        self._live = live
        self._ir = ir
        if isinstance(collectors, str):
            self._collectors = None if collectors == "auto" else collectors.split(",")
        else:
            self._collectors = list(collectors)
        self._on_recompile = on_recompile
        self._command = sys.orig_argv
        self._under_run = False
        self._whole_process = False
        self._joined = False

    def __enter__(self) -> Session:
        session = self._enter()
        if self._on_recompile is not None:
            session.listen(self._on_recompile)
        return session

    def _enter(self) -> Session:
        global _active
        outer = _current()
        if outer is not None:
            if not outer.under_run:
                raise RuntimeError("a coldstep trace is already active in this process: end it first")
            self._joined = True
            self._session = outer
            outer.ir |= self._ir
            outer.joined.append(os.path.abspath(self._path))
            outer.note(f"trace({self._path!r}) joined the trace of `coldstep run`: that path is not written.")
            given = {"collectors": self._collectors is not None, "device": self._device != UNTIL_SETTLED,
                     "stacks": self._stacks, "live": not self._live}  # fmt: skip
            if ignored := [option for option, said in given.items() if said]:
                outer.note(f"Its {', '.join(ignored)} did not count: give them to `coldstep run`.")
            return outer
        session = Session(self._path, self._collectors, self._command, self._device)
        session.under_run, session.whole_process = self._under_run, self._whole_process
        session.ir, session.stacks, session.live = self._ir, self._stacks, self._live
        session.start()
        _watch_forks()
        _active = self._session = session
        return session

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        global _active
        try:
            if self._on_recompile is not None:
                self._session.tell_recompiles(sys._getframe(1))
                self._session.unlisten(self._on_recompile)
        finally:
            if not self._joined:
                _active = None
                self._session.finish(error)
        if self._joined:
            return
        if not self._under_run and self._session.in_parent():
            say(f"{self._session.path}: {self._session.headline}")


def quiet_trace(path: str) -> trace:
    """A trace that a trace inside it joins, and that says nothing at its end."""
    quiet = trace(path, device=OFF)
    quiet._under_run = True
    return quiet


def run_trace(path: str, command: Sequence[str], collectors: Sequence[str] | None, **options: Any) -> trace:
    """The trace of `coldstep run`: a trace inside it joins it, and the command prints the headline itself."""
    outer = trace(path, collectors="auto" if collectors is None else collectors, **options)
    outer._command = list(command)
    outer._under_run = outer._whole_process = True
    return outer


def environment_rank() -> int | None:
    """The rank that torchrun, or whoever launched this process, gave it."""
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else None


def _rank(collectors: Iterable[Collector]) -> int | None:
    """The rank of this process in its job: the environment's, else what a collector knows of the framework's."""
    rank = environment_rank()
    for collector in collectors if rank is None else ():
        with contextlib.suppress(Exception):
            if rank is None and (find := getattr(collector, "rank", None)) is not None:
                rank = find()
    return rank


def output(path: str, rank: int | None, script: str) -> str:
    """The file to write: `path` with `{rank}` (0 where it is not known) and `{pid}` filled in; in a folder, one named
    after the script and the rank or process. Raises OSError when the folder cannot be made."""
    path = path.replace("{rank}", str(rank or 0)).replace("{pid}", str(os.getpid()))
    if not is_folder(path):
        return path
    os.makedirs(path, exist_ok=True)
    return os.path.join(path, f"{script}-{f'rank{rank}' if rank is not None else os.getpid()}.pftrace")


def is_folder(path: str) -> bool:
    """Whether `path` means a folder: by its last character, or because it is one."""
    return path.endswith(os.sep) or os.path.isdir(path)


def step(name: str = "step") -> contextlib.AbstractContextManager[None]:
    """Mark one training step: `with coldstep.step(): …`. Steps are counted, and settling is judged, per name.

    Without an active trace, and while a compiler traces the code it stands in, it does nothing.
    """
    if _compiling():
        return contextlib.nullcontext()
    session = _current()
    if session is None:
        return _NO_MARK
    if session.traced():
        return contextlib.nullcontext()
    return _Step(session, str(name))


def steps(iterable: Iterable[T], name: str = "step") -> Iterator[T]:
    """Each turn of the loop over `iterable` is a step; `next()` is called in the interval before it."""
    for item in iterable:
        with step(name):
            yield item


def annotate(name: str) -> contextlib.AbstractContextManager[None]:
    """Draw a slice called `name` around the block; it never counts as a phase. Does nothing where `step` does."""
    if _compiling():
        return contextlib.nullcontext()
    session = _current()
    if session is None:
        return _NO_MARK
    if session.traced():
        return contextlib.nullcontext()
    return _Annotation(session, str(name))


def wait(x: T) -> T:
    """Return `x` once what it stands for has really run on its device; the time is the step's `execute`.

    JAX arrays, CUDA tensors, torch_xla's tensors, and dicts, lists and tuples of them. An error of the computation is
    raised here. Without an active trace, `x` is returned at once.
    """
    if _compiling():
        return x
    session = _current()
    if session is None or session.traced():
        return x
    session.look()
    begin = Begin(now(), "wait", "execute", "execute")
    session.emit(begin)
    try:
        for waiter in session._waiters:
            waiter(x)
    finally:
        session.emit(End(now(), begin))
        session._waited = True
    if session._listeners:
        session.tell_recompiles(sys._getframe(1))
    return x


def _watch_forks() -> None:
    """Have no profiler run in a child: there it would go on for ever, and keep all that it sees."""
    global _watches_forks
    if not _watches_forks:  # which cannot be undone
        _watches_forks = True
        os.register_at_fork(before=_before_fork)


def _before_fork() -> None:
    session = _active
    if session is not None and session._window is not None and session.in_parent():
        session._window.pause()


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not of this module."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def active() -> Session | None:
    """The trace that is active in this process."""
    return _current()


def _compiling() -> bool:
    # Dynamo reads this function too, and remembers what it looked at: only torch's own answer may decide, for a
    # look at anything of ours that changes would be a guard that fails
    compiler = _modules.get("torch.compiler")
    return compiler is not None and bool(compiler.is_compiling())


def _current() -> Session | None:
    """The trace that is active in this process."""
    session = _active
    return session if session is not None and session.in_own_process() else None


def _ended(error: BaseException | None) -> tuple[str, str | None]:
    """What ended the block, in a word of the schema, and the error's text."""
    if error is None:
        return "ok", None
    kind = type(error).__name__
    text = str(error).strip()
    said = f"{kind}: {text.splitlines()[0][:500]}" if text else kind
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", said
    if isinstance(error, SystemExit):
        return ("ok", None) if error.code in (None, 0) else ("exit", f"SystemExit: {error.code}")
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or any(words in text for words in _NO_MEMORY):
        return "out_of_memory", said
    return "exception", said


def _place(error: BaseException | None) -> dict[str, object] | None:
    """The innermost place in the user's files that an error came through; no library's, nor Inductor's own code."""
    found = None
    at = error.__traceback__ if error is not None else None
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(("<", *_NOT_THE_USERS)) and not _MADE.search(code.co_filename):
            found = {"file": os.path.abspath(code.co_filename), "line": at.tb_lineno, "function": code.co_qualname}
        at = at.tb_next
    return found


def _open(file: str) -> int:
    """The new, empty trace; never as descriptor 0 to 2, which C code writes to whatever they are; its owner's alone,
    for it holds a command line.

    Raises OSError when it cannot be written, or another process is writing it: the ranks of a job know no other's name.
    """
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if fd <= 2:
        low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            _lock(fd)
            os.ftruncate(fd, 0)
    except OSError:
        os.close(fd)
        raise
    return fd


def _lock(fd: int) -> None:
    """Until this process closes the file, or ends; a file system that knows no locks does without."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise OSError(error.errno, "another process is writing it: put {rank} or {pid} into its name") from None


def project_root() -> str:
    """Git's top level of the working folder, else that folder."""
    folder = os.getcwd()
    at = folder
    while not os.path.exists(os.path.join(at, ".git")):
        parent = os.path.dirname(at)
        if parent == at:
            return folder
        at = parent
    return at


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


def _versions(words: dict[str, Any]) -> dict[str, str]:
    names = of_trace(words).packages()
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {"python": sys.version.split()[0]} | {name: str(version) for name, version in found.items() if version}


def _peak_rss() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
