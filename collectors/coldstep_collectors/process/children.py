"""Watches the processes below this one: what compiles for it, and what may compile without being traced."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from coldstep._util.command_secrets import hidden
from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.clock import now
from coldstep.collector import Hook, ProcessSink
from coldstep.events import Args, Begin, End, Work
from coldstep.pftrace.layout import NOT_TRACED
from coldstep.places import Places
from coldstep_collectors.process import memory
from coldstep_collectors.support import SUPPORT
from coldstep_shim import RAYS_HELPERS

if TYPE_CHECKING:
    import subprocess

_BUSY_CORES = 0.1  # of a processor: from there on a pool's worker is at work
_MAX_COMMAND_CHARS = 500
# Debian 12: "x86_64-linux-gnu-g++-12"
_CPP = expression(r"(?:.*-)?(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?|icpx|nvcc)(?:-[\d.]+)?")
_INDUCTOR, _TRITON = "torch._inductor", "triton."  # modules, by how their names begin
_BUILDERS = ("ninja", "hipcc", "rustc", "cc1plus")
_ASKS = ("--version", "-v", "-V", "--help", "-dumpversion", "-dumpfullversion", "-dumpmachine")
"""Options by which a compiler describes itself, and compiles nothing."""
_GPU = ("ptxas", "ptxas-blackwell", "nvlink", "cicc", "fatbinary", "cuobjdump", "lld", "ld.lld")
_POOL = "compile_worker"  # in the command of the pool in which Inductor has Triton's kernels compiled
_FORKSERVER = "multiprocessing.forkserver"
_HELPERS = (
    "multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", _FORKSERVER, "backend.resource_tracker",
    _POOL, "__autotune_main__", *RAYS_HELPERS, "ray::DashboardAgent", "ray::RuntimeEnvAgent",
)  # fmt: skip
"""In the command of a Python that runs no code of the program's: multiprocessing's, joblib's, Inductor's, Ray's own."""
_TRACKERS = ("resource_tracker", "semaphore_tracker")
_LOADER = "torch.utils.data."  # the module of what a DataLoader's worker runs
_LEAST_LIFE_NS = 100_000_000  # a new Python that ends sooner had no time to import a framework
_LEAST_WORK_NS = 100_000_000  # of processor time: what was there before the trace and used less did nothing in it
_OWN_COMMAND_NS = 1_000_000_000  # by then a process that is started runs its own command; until then it is a copy
_LOOKS = 16  # into what a process has imported, in the time in which it becomes twice as old
_MOST_FORKS = 100  # that ended before anybody looked, and are told of


@slotted
class _Child:
    """A process below this one, while it runs."""

    pid: int
    begin_ns: int
    name: str
    phase: str | None
    command: str | None
    parent: int
    pool: bool = False
    direct: bool = False  # started here, and looked at with each sample
    python: bool = False
    helper: bool = False  # runs no code of the program's, or only loads data
    forkserver: bool = False
    serves: bool = False  # does nothing for the program by itself
    imported: str | None = None  # the framework; "" where there was none, None where nobody has looked
    started_by: Args | None = None  # the user's line
    process: weakref.ref[Any] | None = None  # multiprocessing's own object
    followed: bool = False  # it is of the job, so that its trace is its own: none, where it has nothing to say
    below: int | None = None  # the followed process that started it, or one above it: what it compiles is that one's
    cpu_ns: int | None = None
    own_cpu_ns: int = 0  # without those that it has waited for
    first_cpu_ns: int = 0
    busy_since: int | None = None  # of a pool's worker: since when it has been using its processor
    busy_cpu_ns: int = 0
    seen_ns: int = 0
    next_look_ns: int = 0  # into what it has imported


class Children:
    """All of them, reported as `Work` when they end."""

    def __init__(self, sink: ProcessSink, collector: str) -> None:
        self._sink = sink
        self._collector = collector
        self._since_ns = now()
        self._known: dict[int, _Child] = {}
        self._places = Places()
        self._processes = memory.Processes()
        self._pythons = 0  # those that run the user's own Python
        self._forks: list[tuple[int, str]] = []  # of which the process is not known yet: when, what it had imported
        self._forks_told = 0
        self._framework = ""  # what this process has imported, once a fork has asked
        self._undo: list[Callable[[], str | None]] = []
        self._has_door: Callable[[int], bool] | None = None

    def watch(self) -> None:
        """Notice processes that start from here on."""
        if self._sink.follows_children:
            from coldstep.job.reach import has_door  # only of a job

            self._has_door = has_door
        self._sink.when_imported("subprocess", self._watch_popen)
        self._sink.when_imported("multiprocessing.process", self._watch_start)
        self._undo.append(after_forks(self._guarded(self._forked)))

    def begin_anew(self) -> None:
        """In a fork's child: below it is only what it has started itself."""
        own = os.getpid()
        self._since_ns, self._pythons, self._forks = now(), 0, []
        self._known = {child.pid: child for child in list(self._known.values()) if child.parent == own}

    def unwatch(self) -> list[str]:
        """Let go of all that is hooked; what stays, in words."""
        return [words for undo in self._undo if (words := undo()) is not None]

    def _guarded(self, hook: Hook) -> Hook:
        return self._sink.guarded(self._collector, hook)

    def _watch_popen(self, module: ModuleType) -> None:
        guarded = self._guarded
        hooks = guarded(self._began), guarded(self._ended), guarded(self._waits), guarded(self._waited)
        self._undo.append(around_popen(module.Popen, *hooks))

    def _watch_start(self, module: ModuleType) -> None:
        self._undo.append(around_start(module.BaseProcess, self._guarded(self._started)))

    # --- what is started here ---------------------------------------------------------------------------------

    def _began(self, popen: subprocess.Popen[Any], args: object, begin_ns: int, frame: FrameType) -> None:
        words = _words(args)
        name = os.path.basename(words[0]) if words else "process"
        compiler = _compiler_above(frame)
        inductor = compiler == _INDUCTOR
        pool = inductor and any(_POOL in word for word in words)
        phase = None if pool or not inductor else "inductor.triton" if name in _GPU else "inductor.cpp"
        if compiler == _TRITON and (name in _GPU or _CPP.fullmatch(name) is not None):
            phase = "kernel.jit"
        child = _Child(popen.pid, begin_ns, "worker pool" if pool else name, phase, _told(words), os.getpid())
        child.direct, child.pool, child.helper = True, pool, compiler is not None or _is_helper(words)
        child.started_by = self._places.users_line(frame)
        child.python = name.startswith("python") and not child.helper
        seen = self._known.get(popen.pid)  # by a look, before it ran its own command
        self._pythons += child.python - (seen is not None and seen.python)
        self._known[popen.pid] = child

    def _ended(self, popen: subprocess.Popen[Any], cpu_ns: int) -> None:
        if (child := self._known.pop(popen.pid, None)) is not None:
            ns = now()
            most_ns = (ns - child.begin_ns) * (os.cpu_count() or 1)  # what else ended meanwhile is counted, too
            child.cpu_ns = max(child.cpu_ns or 0, min(cpu_ns, most_ns))
            self._tell(child, ns, popen.returncode)

    def _waits(self, popen: subprocess.Popen[Any]) -> Begin | None:
        """The program waits for a compiler that no framework started: that is a build."""
        child = self._known.get(popen.pid)
        if child is None or child.phase is not None or child.helper:
            return None
        if _CPP.fullmatch(child.name) is None and child.name not in (*_GPU, *_BUILDERS):
            return None
        caller = {"caller": child.started_by} if child.started_by is not None else {}
        words = _words(popen.args)
        if any(word in _ASKS or word.startswith("-print-") for word in words):
            return None
        args: Args = {"build": _built(words) or child.name, "tool": child.name, "pid": child.pid}
        begin = Begin(now(), "native build", "outside", "build.native", None, args | caller)
        self._sink.emit(begin)
        return begin

    def _waited(self, popen: subprocess.Popen[Any], begin: Begin) -> None:
        state = {} if popen.returncode is None else {"state": "failed" if popen.returncode else "built"}
        self._sink.emit(End(now(), begin, state))

    def _started(self, process: Any, target: object, begin_ns: int, frame: FrameType) -> None:
        """A process of multiprocessing's: a fork has imported what this process has."""
        if process.pid in self._known:
            return
        module, function = (str(getattr(target, name, "")) for name in ("__module__", "__qualname__"))
        forked = getattr(getattr(process, "_popen", None), "method", None) == "fork"
        runs = f"{process.name} ({module}.{function})" if function else process.name
        child = _Child(process.pid, begin_ns, os.path.basename(sys.executable), None, _told([runs]), os.getpid())
        child.direct = child.python = True
        child.started_by, child.followed = self._places.users_line(frame), forked and self._sink.follows_children
        child.process = weakref.ref(process)
        only_loads = forked and module.startswith(_LOADER)
        child.helper = only_loads or module == "multiprocessing.managers" or _compiler_above(frame) is not None
        child.imported = _own_framework() if forked else None
        self._pythons += 1
        self._known[process.pid] = child

    def _forked(self, frame: FrameType) -> None:
        self._framework = self._framework or _own_framework()
        if self._framework and _compiler_above(frame) is None:
            self._forks.append((now(), self._framework))

    # --- looks ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at those that were started here: they may end at any time."""
        for child in list(self._known.values()):
            if child.direct or child.pool:
                with contextlib.suppress(OSError):  # gone already
                    self._measure(child, memory.stat(child.pid))
                if child.python:
                    self._look_into(child)

    def scan(self) -> None:
        """Look at all that run below, and report those that have ended."""
        began = now()
        try:
            # fails where there is no child at all, which is much quicker than a look at every process
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            below = self._processes.below(os.getpid())
        except ChildProcessError:
            below = []
        alive = {row.pid for row in below}
        for row in below:
            if row.pid not in self._known:
                self._discover(row)
            elif (known := self._known.get(row.pid)) is not None and not known.direct:
                self._measure(known, row)
            if (known := self._known.get(row.pid)) is not None:
                self._look_into(known)
        for child in list(self._known.values()):
            # gone, unseen by Popen: an end known to within a look
            if child.pid not in alive and child.begin_ns < began and self._known.pop(child.pid, None) is not None:
                self._tell(child, began, _exit_code(child))
        self._tell_forks(began)

    def _discover(self, row: memory.Stat) -> None:
        above = self._known.get(row.parent)
        in_pool = above is not None and above.pool
        below = None if above is None else above.pid if above.followed and above.python else above.below
        begin_ns = now() - row.age_ns
        try:
            name, words = memory.whole_name(row), memory.words(row.pid)
            copied = words == memory.words(row.parent)
        except OSError:
            return  # gone already
        if copied and row.age_ns < _OWN_COMMAND_NS and not (self._forks and row.parent == os.getpid()):
            return  # it may not run its own command yet
        compiler = _CPP.fullmatch(name) is not None or name in _GPU
        pool = any(_POOL in word for word in words) if compiler else in_pool and name.startswith("python")
        phase = None
        if compiler and words and not pool and below is None:
            gpu = "inductor.triton" if in_pool else "xla.compile"
            phase = gpu if name in _GPU else "inductor.cpp" if in_pool else None
        child = _Child(row.pid, begin_ns, "pool worker" if pool else name, phase, _told(words), row.parent, pool)
        child.below = below
        forked = above is not None and above.forkserver  # runs the program's code, with the server's command
        child.helper = in_pool or (_is_helper(words) and not forked)
        child.forkserver = _FORKSERVER in " ".join(words) and not forked
        child.serves = child.forkserver or any(tracker in word for tracker in _TRACKERS for word in words)
        child.python = not child.helper and _is_python(words)
        # what a fork of a fork runs is in its command, and that it is of the job nowhere
        child.first_cpu_ns, child.followed = row.cpu_ns, above is not None and above.followed and copied
        if self._known.setdefault(row.pid, child) is not child:
            return  # its Popen told of it meanwhile, and knows more
        try:
            memory.stat(row.pid)
        except OSError:  # or of its end
            self._known.pop(row.pid, None)
            return
        self._pythons += child.python
        if row.parent == os.getpid() and self._forks and self._forks[0][0] <= now():
            child.imported = self._forks.pop(0)[1] if child.python else child.imported
            child.followed = child.python and self._sink.follows_children
        self._measure(child, row)

    def _look_into(self, child: _Child) -> None:
        """Whether it has imported a framework, and is of the job: looked for the more seldom the longer it has run."""
        ns = now()
        if ns < child.next_look_ns:
            return
        child.next_look_ns = ns + (ns - child.begin_ns) // _LOOKS
        if not child.helper and not child.imported and (framework := memory.framework(child.pid)) is not None:
            child.imported = framework
        if self._has_door is not None and not child.followed:
            child.followed = self._has_door(child.pid)

    def cpu(self) -> dict[int, int]:
        """What each process that runs below has used itself, by pid, as of the last look at it; but for those that
        only start others, or wait for their end."""
        return {child.pid: child.own_cpu_ns for child in list(self._known.values()) if not child.serves}

    def _measure(self, child: _Child, row: memory.Stat) -> None:
        ns, cpu = now(), row.cpu_ns
        if child.pool and child.cpu_ns is not None and child.seen_ns:
            busy = cpu - child.cpu_ns >= _BUSY_CORES * (ns - child.seen_ns)
            if busy and child.busy_since is None:
                child.busy_since, child.busy_cpu_ns = child.seen_ns, child.cpu_ns
            elif not busy and child.busy_since is not None:
                self._tell_busy(child, child.seen_ns)
        child.cpu_ns, child.own_cpu_ns, child.seen_ns = cpu, row.own_cpu_ns, ns

    # --- what is told -----------------------------------------------------------------------------------------

    def _tell(self, child: _Child, end_ns: int, exit_code: int | None) -> None:
        if (above := self._known.get(child.parent)) is not None and above.phase is not None:
            return  # a compiler's own helper: its time is the compiler's
        if child.pool:
            if child.busy_since is not None:
                self._tell_busy(child, end_ns)
            if exit_code in (None, 0):
                return  # it slept in between
        untraced = self._untraced(child, end_ns)
        is_compiler = child.phase is not None or child.pool or _CPP.fullmatch(child.name) is not None
        command = child.command if is_compiler or untraced is not None else None
        args: Args = {"command": command, "cpu_ns": child.cpu_ns, "exit_code": exit_code}
        lost = child.followed and self._left_word(child.pid)
        if lost or (untraced is not None and not child.followed):
            args["untraced"] = untraced or ""
        elif child.python and child.followed:
            args["followed"] = True
        if lost:
            args["lost"] = True
        if child.below is not None and not child.python:
            args["below"] = child.below
        if child.started_by is not None:
            args["started_by"] = child.started_by
        self._sink.emit(Work(child.begin_ns, end_ns, child.pid, child.name, None if child.pool else child.phase, args))
        if exit_code is not None and exit_code < 0 and (child.phase or child.pool):
            self._sink.note(f"{child.name} (process {child.pid}) was killed by signal {-exit_code}")

    def _left_word(self, pid: int | None = None) -> list[int]:
        """The processes of the job, or that one, that could not write a trace."""
        if not self._sink.follows_children:
            return []
        from coldstep.job.lost import take_word

        return take_word(pid=pid)

    def _untraced(self, child: _Child, end_ns: int) -> str | None:
        """The framework with which it may have compiled, "" where that is not known; None where it cannot have."""
        if child.helper or child.phase is not None:
            return None
        if child.begin_ns < self._since_ns and (child.cpu_ns or 0) - child.first_cpu_ns < _LEAST_WORK_NS:
            return None
        unknown = child.imported is None and child.python and end_ns - child.begin_ns >= _LEAST_LIFE_NS
        return child.imported or ("" if unknown else None)

    def _tell_busy(self, child: _Child, end_ns: int) -> None:
        if child.busy_since is not None:
            args: Args = {"cpu_ns": (child.cpu_ns or 0) - child.busy_cpu_ns}
            self._sink.emit(Work(child.busy_since, end_ns, child.pid, child.name, "inductor.triton", args))
            child.busy_since = None

    def _tell_forks(self, ns: int) -> None:
        """Of the forks that had ended before this look."""
        gone = [fork for fork in self._forks if fork[0] < ns]
        self._forks = self._forks[len(gone) :]
        untraced = [] if self._sink.follows_children else gone  # of a job a fork's child is a part itself
        for begin_ns, framework in untraced[: _MOST_FORKS - self._forks_told]:
            args: Args = {"command": "a fork that ended within a look", "untraced": framework}
            self._sink.emit(Work(begin_ns, ns, 0, os.path.basename(sys.executable), None, args))
        self._forks_told += len(gone)
        self._pythons += len(gone)

    def finish(self) -> None:
        """Tell of those that still run."""
        ns = now()
        self._tell_forks(ns)
        if self._pythons and not self._sink.follows_children:
            ran = " ran below this one and is" if self._pythons == 1 else "es ran below this one and are"
            self._sink.note(f"{self._pythons} {NOT_TRACED}{ran} not traced: what a wait for it was for is not known.")
        for child in list(self._known.values()):
            child.next_look_ns = 0
            self._look_into(child)
            self._tell(child, ns, _exit_code(child))
        self._known.clear()
        for pid in self._left_word():  # below a process that has no trace
            args: Args = {"command": "a process that could not write its trace", "untraced": "", "lost": True}
            self._sink.emit(Work(ns, ns, pid, os.path.basename(sys.executable), None, args))


def _own_framework() -> str:
    """The framework that this process has imported; "" where there is none."""
    return next((row.package for row in SUPPORT if row.library and row.package in sys.modules), "")


def _words(args: object) -> list[str]:
    """A command as Popen takes it, as texts."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return os.fsdecode(args).split()
    if isinstance(args, Sequence):
        return [os.fsdecode(word) for word in args if isinstance(word, (str, bytes, os.PathLike))]
    return []


def _built(words: Sequence[str]) -> str:
    """What a compiler's command makes: the file after -o; of ninja's, the folder that it works in."""
    if os.path.basename(words[0] if words else "") == "ninja":
        folder = words[words.index("-C") + 1] if "-C" in words[:-1] else os.getcwd()
        return os.path.basename(os.path.abspath(folder))
    return os.path.basename(words[words.index("-o") + 1]) if "-o" in words[:-1] else ""


def _exit_code(child: _Child) -> int | None:
    """With what a process of multiprocessing's ended, once the program has asked: whoever asks takes it away."""
    process = child.process() if child.process is not None else None
    return getattr(getattr(process, "_popen", None), "returncode", None)


def _told(words: Sequence[str]) -> str | None:
    """A command as a trace may hold it: of a long one, such as a compiler's, as much as is shown."""
    shown = bisect([*accumulate(len(word) + 1 for word in words)], _MAX_COMMAND_CHARS) + 1
    return " ".join(hidden(words[:shown]))[:_MAX_COMMAND_CHARS] or None


def _is_python(words: Sequence[str]) -> bool:
    return bool(words) and os.path.basename(words[0]).startswith(("python", "ray::"))


def _is_helper(words: Sequence[str]) -> bool:
    return any(helper in word for helper in _HELPERS for word in words)


def _compiler_above(frame: FrameType | None) -> str | None:
    """Which compiler starts a process: Triton where a program's own kernel asks for it, and no graph of Inductor's."""
    compiler = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_INDUCTOR):
            return _INDUCTOR
        if module.startswith(_TRITON):
            compiler = _TRITON
        frame = frame.f_back
    return compiler


# --- notices each process that this one starts -----------------------------------------------------------------------


_EXEC = ("os", "pty", "subprocess")  # modules that fork to run another program at once
_forked: list[Callable[[FrameType], None]] = []
_watches_forks = False


def around_popen(
    popen: Any,
    began: Callable[[Any, object, int, FrameType], None],
    ended: Callable[[Any, int], None],
    waits: Callable[[Any], Begin | None],
    has_waited: Callable[[Any, Begin], None],
) -> Callable[[], str | None]:
    """Call `began` for every process started through `subprocess.Popen`, and `ended` when its end is known there, with
    the processor time in ns that the kernel then adds to that of this process' ended children. Around each wait for
    one call `waits` and, with what that returned, `has_waited`."""
    init, poll, wait, communicate = popen.__init__, popen.poll, popen.wait, popen.communicate

    @wraps(init)
    def started(self: Any, args: object, *rest: Any, **options: Any) -> None:
        ns = now()
        init(self, args, *rest, **options)
        began(self, args, ns, sys._getframe(1))

    @wraps(poll)
    def polled(self: Any) -> Any:
        if self.returncode is not None:
            return poll(self)
        before = memory.children_cpu_ns()
        if (result := poll(self)) is not None:
            ended(self, memory.children_cpu_ns() - before)
        return result

    @wraps(wait)
    def waited(self: Any, *args: Any, **options: Any) -> Any:
        if self.returncode is not None:
            return wait(self, *args, **options)
        begin, before = waits(self), memory.children_cpu_ns()
        try:
            result = wait(self, *args, **options)
        finally:
            if begin is not None:
                has_waited(self, begin)
        if result is not None:
            ended(self, memory.children_cpu_ns() - before)
        return result

    @wraps(communicate)
    def communicated(self: Any, *args: Any, **options: Any) -> Any:
        begin = waits(self) if self.returncode is None else None
        try:
            return communicate(self, *args, **options)
        finally:
            if begin is not None:
                has_waited(self, begin)

    return _replace(popen, {"__init__": started, "poll": polled, "wait": waited, "communicate": communicated})


def around_start(process: Any, began: Callable[[Any, object, int, FrameType], None]) -> Callable[[], str | None]:
    """Call `began` for every process started through `multiprocessing`, whichever its start method, with the function
    that it runs."""
    start = process.start

    @wraps(start)
    def started(self: Any) -> None:
        ns, target = now(), getattr(self, "_target", None)  # which the process forgets as it starts
        start(self)
        began(self, target, ns, sys._getframe(1))

    return _replace(process, {"start": started})


def after_forks(forked: Callable[[FrameType], None]) -> Callable[[], str | None]:
    """Call `forked` in this process after each fork of its program's own, but for those that run another program."""
    global _watches_forks
    if not _watches_forks:  # which cannot be undone
        _watches_forks = True
        os.register_at_fork(after_in_parent=_after_fork)
    _forked.append(forked)
    return lambda: _forked.remove(forked)


def _after_fork() -> None:
    frame = sys._getframe(1)
    module = str(frame.f_globals.get("__name__", ""))
    if module not in _EXEC and not module.startswith("multiprocessing."):
        for forked in _forked:
            forked(frame)


def _replace(owner: Any, ours: dict[str, Any]) -> Callable[[], str | None]:
    """Put these methods in the place of a class's own; what takes them away again, where they are still there."""
    real = {name: getattr(owner, name) for name in ours}

    def undo() -> str | None:
        kept = [name for name, hook in ours.items() if getattr(owner, name) is not hook]
        for name in ours.keys() - kept:
            setattr(owner, name, real[name])
        called = f", {owner.__name__}.".join(kept)
        return f"wrappers of {owner.__name__}.{called}, which other wrappers call" if kept else None

    try:
        for name, hook in ours.items():
            setattr(owner, name, hook)
    except BaseException:  # a signal's handler raised
        undo()
        raise
    return undo
