"""`trace()` and the marks inside it: starts and stops collectors, knows the open step, says how it all ended."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import wraps
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, TypeVar, cast

from coldstep import clock
from coldstep.buffer import Buffers, Drain
from coldstep.clock import now
from coldstep.collector import Collector, Hook, discover
from coldstep.events import Begin, CollectorState, End, Event, Note, StepBegin, StepEnd
from coldstep.garbage import GarbageWatch
from coldstep.importhook import ImportHook
from coldstep.model import SCHEMA
from coldstep.recorder import Recorder, Thread
from coldstep.say import say

T = TypeVar("T")

_JUDGED_AT_ONCE = 20_000  # steps of a run that is read back as it ends: about a second's work
_WRITTEN_AT_ONCE = 32  # steps whose exit returns only when they are on disk
_NO_MARK = contextlib.nullcontext()
_active: Session | None = None
_modules = sys.modules


class Session:
    """One trace being recorded: what `with coldstep.trace(…) as run` binds.

    Collectors see it as their `Sink`.
    """

    def __init__(self, path: str, collectors: Sequence[str] | None, command: Sequence[str]) -> None:
        self.path = path
        self._file = os.path.abspath(path)  # the program may change its folder
        self.under_run = False
        self._names = list(collectors) if collectors is not None else None
        self._command = list(command)
        self._buffers = Buffers()
        self._alive = False
        self.pid = os.getpid()
        self._ordinals: dict[str, int] = {}
        self._open_step: dict[str, _Step] = {}
        self._steps = 0
        self._waited = False
        self._compile_ids = itertools.count()
        self._compiles = 0
        self._compiling: dict[int, int] = {}  # per thread, so that no two threads write one number
        self._dispatches = 0
        self._said: set[str] = set()
        self._failed: dict[str, str] = {}
        self._attached: set[str] = set()
        self._tracing: list[Callable[[], bool]] = []
        self._waiters: list[Callable[[Any], None]] = []
        self._collectors: list[Collector] = []
        self.headline = "nothing was written"
        """The trace in one line, once the block has ended."""
        self._garbage = GarbageWatch(self.emit)
        self.import_hook = ImportHook()

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
        from coldstep.loader import load

        (viewer,) = entry_points(group="coldstep.viewers", name="terminal")
        return str(viewer.load()(load(self._file)))

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file and begin.

        Raises OSError when the file cannot be written, ValueError for an unknown collector.
        """
        started = clock.snapshot()
        age_ns = clock.process_age_ns()
        collectors, problems = discover(self._names)
        self._fd = _open(self._file)
        self._home = Thread(threading.get_native_id(), threading.current_thread().name)
        rank = os.environ.get("RANK", "")
        about = {
            "schema": SCHEMA,
            "command": self._command,
            "root": _root(),
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "pid": self.pid,
            "host": socket.gethostname(),
            "rank": int(rank) if rank.isdigit() else None,
            "tid": self._home.tid,
            "before_trace_ns": age_ns,
            "versions": {"python": sys.version.split()[0]},
            "clock_uncertainty_ns": started.uncertainty_ns,
            "collectors": [collector.name for collector in collectors],
        }
        recorder = Recorder(self._fd, self._home, about["rank"], started, about)  # type: ignore[arg-type]
        self._recorder = recorder
        self._alive = True
        ours = Begin(started.monotonic_ns, "start", "coldstep", "coldstep")
        self.emit(ours)
        self._drain = Drain(self._buffers, recorder, lambda: bool(self._open_step) or self._anything_compiles())
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
        for step in list(self._open_step.values()):
            step.__exit__()
        if not self.in_parent():
            return
        ended, text = _ended(error)
        end_ns = now()
        self._garbage.remove()
        self.import_hook.remove()
        for collector in self._collectors:
            try:
                for left in collector.stop():
                    self.note(f"{collector.name} leaves in the process, inert: {left}")
            except Exception as problem:
                self.fail(collector.name, problem)
        for name in (c.name for c in self._collectors if c.name not in self._attached and c.name not in self._failed):
            self.emit(CollectorState(now(), name, "absent", None, []))
        self._alive = False
        self._drain.stop()
        about = {
            "ended": ended,
            "error": text,
            "dropped": {"ledger": self._drain.lost, "bulk": self._buffers.dropped_bulk},
            "versions": _versions(),
            "peak_rss_bytes": _peak_rss(),
        }
        try:
            self._recorder.finish(end_ns, about)
            self._recorder.flush()
            self._judge(end_ns)
        except Exception as problem:
            self.headline = f"incomplete: {type(problem).__name__}: {problem}"
        os.close(self._fd)

    def _judge(self, ns: int) -> None:
        """What only hindsight knows: read the file back, append its findings to it, and put it in a line."""
        if self._steps > _JUDGED_AT_ONCE:
            # the program must not wait, nor need the memory
            self.headline = f"{self._steps} steps; coldstep report tells the rest"
            return
        from coldstep.loader import load

        trace = load(self._file)
        for finding in trace.findings:
            at = trace.intervals[finding.interval].start_ns + trace.origin_ns if finding.interval is not None else ns
            args = {"text": finding.text, "advice": finding.advice, "evidence": finding.evidence, "id": finding.id}
            self._recorder.finding(at, finding.kind, args)
        self._recorder.flush()
        for viewer in entry_points(group="coldstep.viewers", name="headline"):
            self.headline = str(viewer.load()(trace))

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
        number = next(self._compile_ids)
        self._compiles = number + 1
        return f"c{number}"

    def count_dispatch(self) -> None:
        self._dispatches += 1

    def compile_opened(self) -> None:
        thread = threading.get_ident()
        self._compiling[thread] = self._compiling.get(thread, 0) + 1
        if self._alive:
            self._garbage.install()

    def compile_closed(self) -> None:
        thread = threading.get_ident()
        self._compiling[thread] = self._compiling.get(thread, 0) - 1
        if not self._anything_compiles():
            self._garbage.remove()

    def note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.emit(Note(now(), text))

    def state(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        self._attached.add(collector)
        if collector not in self._failed:
            self.emit(CollectorState(now(), collector, state, version, missing))

    def fail(self, collector: str, error: Exception) -> None:
        """A hook of `collector` raised: it is done for this trace, said once on the trace and on stderr."""
        if collector in self._failed:
            return
        text = f"collector {collector} failed and was detached: {type(error).__name__}: {error}"
        self._failed[collector] = text
        self.emit(CollectorState(now(), collector, "failed", None, [text]))
        self.note(text)
        self._drain.say(text)

    def when_imported(self, module: str, callback: Callable[[Any], None]) -> None:
        def attach(found: Any) -> None:
            try:
                callback(found)
            except Exception as error:
                text = f"attaching to {module} failed: {type(error).__name__}: {error}"
                self.note(text)
                self._drain.say(text)

        self.import_hook.when_imported(module, attach)

    def guarded(self, collector: str, hook: Hook) -> Hook:
        @wraps(hook)
        def guard(*args: Any, **kwargs: Any) -> Any:
            if not self._alive or collector in self._failed:
                return None
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                self.fail(collector, error)
                return None

        return cast(Hook, guard)

    def is_tracing(self, check: Callable[[], bool]) -> None:
        self._tracing.append(check)

    def on_wait(self, wait: Callable[[Any], None]) -> None:
        self._waiters.append(wait)

    # --- for the marks ----------------------------------------------------------------------------------------

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

    __slots__ = ("_begin", "_compiles", "_dispatches", "_name", "_nested", "_session")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._begin: StepBegin | None = None
        self._nested: _Annotation | None = None

    # Ctrl-C can come between any two lines below: what has been emitted counts, and `finish` ends an open step

    def __enter__(self) -> None:
        session = self._session
        # setdefault is one bytecode: of two threads at once, one has the step
        if session._open_step.setdefault("step", self) is not self:
            session.note("A step was opened while another was open: it is recorded as an annotation.")
            self._nested = _Annotation(session, self._name)
            self._nested.__enter__()
            return
        n = session._ordinals.get(self._name, 0)
        session._ordinals[self._name] = n + 1
        session._waited = False
        self._compiles = session._compiles
        self._dispatches = session._dispatches
        begin = StepBegin(now(), self._name, n)
        session.emit(begin)
        self._begin = begin

    def __exit__(self, *_: object) -> None:
        session = self._session
        if self._nested is not None:
            self._nested.__exit__()
            return
        if session._open_step.get("step") is not self:
            return  # the trace has ended inside this step, and closed it
        ended = now()
        if self._begin is None:
            session._open_step.clear()
            return
        session.emit(StepEnd(ended, self._begin, session._waited, session._dispatches - self._dispatches))
        session._open_step.clear()
        session._steps += 1
        if (session._steps <= _WRITTEN_AT_ONCE or session._compiles != self._compiles) and session._alive:
            ours = Begin(now(), "flush", "coldstep", "coldstep")
            session.emit(ours)
            session._drain.flush()
            session.emit(End(now(), ours))


class _Annotation:
    """A named stretch of the user's own."""

    __slots__ = ("_begin", "_name", "_session")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    def __enter__(self) -> None:
        self._begin = Begin(now(), self._name, "annotations")
        self._session.emit(self._begin)

    def __exit__(self, *_: object) -> None:
        self._session.emit(End(now(), self._begin))


class trace:  # reads as the verb it is: with coldstep.trace(…)
    """Record everything until the block ends into `path`, a native Perfetto trace.

    `collectors` names the collectors to attach; "auto" is all that are installed, each attaching when its
    framework is there. `{rank}` and `{pid}` in `path` are filled in. Binds a `Session` with `.path` and `.report()`.

    Raises OSError when the file cannot be written, ValueError for an unknown collector, and RuntimeError inside
    another trace, except under `coldstep run`: there it joins that trace, and `run.path` is the file that is
    really written.
    """

    def __init__(self, path: str | os.PathLike[str], *, collectors: str | Sequence[str] = "auto") -> None:
        self._path = fill(os.fsdecode(path))
        if isinstance(collectors, str):
            self._collectors = None if collectors == "auto" else collectors.split(",")
        else:
            self._collectors = list(collectors)
        self._command = sys.orig_argv
        self._under_run = False
        self._joined = False

    def __enter__(self) -> Session:
        global _active
        outer = _current()
        if outer is not None:
            if not outer.under_run:
                raise RuntimeError("a coldstep trace is already active in this process: end it first")
            self._joined = True
            outer.note(f"trace({self._path!r}) joined the trace of `coldstep run`: that path is not written.")
            return outer
        session = Session(self._path, self._collectors, self._command)
        session.under_run = self._under_run
        session.start()
        _active = self._session = session
        return session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        if self._joined:
            return
        _active = None
        self._session.finish(error)
        if not self._under_run and self._session.in_parent():
            say(f"{self._session.path}: {self._session.headline}")


def run_trace(path: str, command: Sequence[str], collectors: Sequence[str] | None) -> trace:
    """The trace of `coldstep run`: a trace inside it joins it, and the command prints the headline itself."""
    outer = trace(path, collectors="auto" if collectors is None else collectors)
    outer._command = list(command)
    outer._under_run = True
    return outer


def fill(path: str) -> str:
    """`path` with `{rank}` (the environment's RANK, else 0) and `{pid}` filled in."""
    return path.replace("{rank}", os.environ.get("RANK", "0")).replace("{pid}", str(os.getpid()))


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

    JAX arrays, CUDA tensors, and dicts, lists and tuples of them. An error of the computation is raised here.
    Without an active trace, `x` is returned at once.
    """
    if _compiling():
        return x
    session = _current()
    if session is None or session.traced():
        return x
    begin = Begin(now(), "wait", "execute", "execute")
    session.emit(begin)
    try:
        for waiter in session._waiters:
            waiter(x)
    finally:
        session.emit(End(now(), begin))
        session._waited = True
    return x


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
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or "RESOURCE_EXHAUSTED" in text:
        return "out_of_memory", said
    return "exception", said


def _open(file: str) -> int:
    """The new, empty trace; never as descriptor 0 to 2, which C code writes to whatever they are."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _root() -> str:
    """Git's top level of the working folder, else that folder."""
    folder = os.getcwd()
    at = folder
    while not os.path.exists(os.path.join(at, ".git")):
        parent = os.path.dirname(at)
        if parent == at:
            return folder
        at = parent
    return at


def _versions() -> dict[str, str]:
    names = ("jax", "jaxlib", "torch", "torch_xla", "numpy")
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {"python": sys.version.split()[0]} | {name: str(version) for name, version in found.items() if version}


def _peak_rss() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
