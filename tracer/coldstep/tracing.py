"""`trace()`, and the traces that others than the user begin: `coldstep run`, and blocks that only look."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from coldstep._util.stderr import say
from coldstep.places import absolute
from coldstep.recording.device_window import OFF, UNTIL_SETTLED
from coldstep.recording.garbage import none_collected
from coldstep.recording.options import Options
from coldstep.session import Session, activate, active, give_place_back, has_place, parents, take_place

if TYPE_CHECKING:
    from coldstep.job.job import Job
    from coldstep.job.root import Follows
    from coldstep.notices.coming import Coming
    from coldstep.notices.recompiled import Recompiled

_PATIENCE_S = 10.0
_watches_forks = False


class Block:
    """A block that is recorded by its options; one inside `coldstep run`'s joins that trace."""

    def __init__(
        self,
        options: Options,
        on_recompile: Callable[[Recompiled], object] | None = None,
        on_forecast: Callable[[Coming], object] | None = None,
        *,
        children: bool = False,
    ) -> None:
        self._options = options
        self._on_recompile = on_recompile
        self._on_forecast = on_forecast
        self._joined = False
        self._children = children
        self._follows: Follows | None = None

    def __enter__(self) -> Session:
        if self._children and active() is None:
            self._begin_job()
        session = Session(self._options)
        try:
            outer = _place_of(session)
            self._session = self._begin(session) if outer is session else self._join(outer)
            if self._on_recompile is not None:
                self._session.listeners.listen(self._on_recompile)
            if self._on_forecast is not None:
                self._session.ahead.listeners.append(self._on_forecast)
        except BaseException:  # a signal handler's, perhaps: no block, so no `__exit__`
            if has_place(session):
                session.abandon()
            self._give_back(session)
            raise
        return self._session

    def _begin(self, session: Session) -> Session:
        with none_collected():
            session.start()
        _watch_forks()
        activate(session)
        if self._children and session.options.job is not None:
            from coldstep.job.root import Follows

            self._follows = Follows(session.options.job)
        return session

    def _begin_job(self) -> None:
        from coldstep.job.job import program_name
        from coldstep.job.root import place

        options = self._options
        name = program_name(sys.orig_argv[1:])
        options.path, options.job = place(options.path, name, asked=True, children=True)

    def _join(self, outer: Session) -> Session:
        self._joined = True
        options = self._options
        outer.sink.ir |= options.ir
        outer.joined.append(absolute(options.path))
        outer.note(f"trace({options.path!r}) joined the trace of `coldstep run`: that path is not written.")
        given = {"collectors": options.collectors is not None, "device": options.device != UNTIL_SETTLED,
                 "stacks": options.stacks, "live": not options.live, "waits": not options.waits,
                 "children": self._children and not outer.sink.follows_children}  # fmt: skip
        if ignored := [option for option, setting in given.items() if setting]:
            outer.note(f"Its {', '.join(ignored)} did not count: give them to `coldstep run`.")
        return outer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._tell_last(sys._getframe(1))
        except BaseException as raised:  # by the program's own listener: it ends the block
            error = raised
            raise
        finally:
            if not self._joined:
                try:
                    self._end(error)
                except BaseException:
                    self._give_back(self._session)  # where it was interrupted itself
                    raise

    def _tell_last(self, frame: FrameType) -> None:
        if self._session.at_marks:
            self._session.listeners.tell(frame)
        if self._on_recompile is not None:
            self._session.listeners.unlisten(self._on_recompile)
        if self._on_forecast is not None:
            self._session.ahead.listeners.remove(self._on_forecast)

    def _end(self, error: BaseException | None) -> None:
        try:
            activate(None)
            with none_collected():
                self._session.finish(error)
        finally:
            self._give_back(self._session)  # what interrupted that has left the rest
        if not self._options.joinable and self._session.in_parent() and self._session.is_written:
            say(f"{self._session.path}: {self._line()}")

    def _give_back(self, session: Session) -> None:
        """Leave the process as it was; may be called again where it was interrupted."""
        if self._follows is not None:
            self._follows.end()
        if has_place(session):
            activate(None)
            session.take_down()
            give_place_back()

    def _line(self) -> str:
        headline = self._session.headline
        if self._follows is None:
            return headline
        from coldstep.job.root import with_parts

        return with_parts(self._options.job, headline)


class trace(Block):  # reads as the verb it is: with coldstep.trace(…)
    """Record everything until the block ends into a native Perfetto trace.

    path          the file to write; `{rank}` and `{pid}` are filled in. A folder gets a file per process. If another
                  process is writing the file, the trace goes to a file beside it, which a line on stderr names
    collectors    the names of the collectors to attach; "auto": all installed ones, once their framework is imported
    device        when the frameworks' own profilers run: "until-settled+2", "all" or "off"
    stacks        have py-spy sample the Python code of every thread
    live          show on stderr each compile longer than 3 s, and what the second step will compile again
    ir            store the program of each compile of the user's functions
    on_recompile  a function; coldstep calls it with a `Recompiled` for each recompile
    on_forecast   a function; coldstep calls it with a `Coming` for each recompile expected in the second step
    children      also trace the processes that the block starts: each that compiles writes a file beside `path`
    waits         record what the thread that enters the block waits for while it is in no phase

        with coldstep.trace("run.pftrace") as run:
            for batch in batches:
                with coldstep.step():
                    coldstep.wait(train_step(batch))
        print(run.report())

    If the block marks no steps, coldstep infers them from what the block repeats, as under `coldstep run`.

    `device` controls what coldstep sees inside XLA and on the device. With "until-settled+2", the frameworks' profilers
    run, for each name of step, from step 0 until two steps in a row compiled nothing and recorded no CUDA graph. If a
    program under `coldstep run` has no marks, XLA's profiler runs from the start, and PyTorch's from the first call of
    a compiled function, batch of a trainer or step of an optimizer. They end when the apparent step was called three
    times in a row without a compile, or when nothing compiled for 30 s. coldstep keeps their results in memory, and
    writes them after the block; beyond a limit it drops the oldest. If the program itself starts a profiler, coldstep's
    ends.

    `stacks` takes 100 samples a second for at most ten minutes. They name what no hook sees: the `sampled` of the
    intervals. If py-spy cannot run (not installed, no ptrace), a note reports that.

    `live` shows a line on a terminal until the compile ends. Elsewhere it prints a line every 30 s.

    coldstep calls `on_recompile` with the cause, both values and the user's frame, at the first mark after the
    recompile (`wait`, the end of a step or of the block). The function may print, stop in a debugger, or raise to end
    the program there.

    coldstep calls `on_forecast` when the first marked step of a name has ended, if the next step is certain to compile
    again unless something changes before: because a result has another type than the argument that it becomes (JAX),
    because of an optimizer's state (torch_xla, PyTorch), or because of attributes that the first call of a compiled
    module created (PyTorch). The function may raise to end the program there. Without marks, coldstep does not call it,
    but prints the forecast on stderr.

    `children` sets environment variables, and restores them at the end of the block. (`coldstep run` and COLDSTEP=FILE
    trace children by default.) `coldstep.load(path)` and every command read all files together.

    `ir` stores each form of a program that the frameworks provide, up to 8 MiB each. It leaves out a larger one, with a
    note. The time that this takes is in the phase `coldstep`.

    Raises OSError if the file cannot be written, ValueError for an unknown collector or `device`, and RuntimeError
    inside another trace. But under `coldstep run` the trace joins that command's trace, and `run.path` is the file that
    is really written.
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
        on_forecast: Callable[[Coming], object] | None = None,
        children: bool = False,
        waits: bool = True,
    ) -> None:
        if isinstance(collectors, str):
            names = None if collectors == "auto" else collectors.split(",")
        else:
            names = list(collectors)
        options = Options(os.fsdecode(path), names, device, stacks=stacks, live=live, ir=ir, waits=waits, infer=True)
        super().__init__(options, on_recompile, on_forecast, children=children)


def quiet_trace(path: str, collectors: list[str] | None = None, *, judged: bool = True) -> Block:
    """A trace that a trace inside it joins, and that prints nothing at its end. One that nobody keeps, of compiles that
    are only tried, is not `judged`."""
    return Block(Options(path, collectors, OFF, joinable=True, judged=judged))


def part_trace(job: Job) -> Block:
    """The trace of a process that a job has come to: its file is made once there is something to record, and only the
    root makes anything of it at its end."""
    return Block(
        Options(job.file, device=OFF, live=False, joinable=True, judged=job.is_root, infer=True, job=job, part=True)
    )


def _place_of(session: Session) -> Session:
    """Whose trace goes on: `session`'s, which may begin, or the one that it can join.

    Raises RuntimeError inside a trace that nothing joins.
    """
    deadline = time.monotonic() + _PATIENCE_S
    active()  # a fork's child, whose place is its parent's trace's, knows that only from here on
    while (outer := take_place(session)) is not session:
        if outer.options.joinable and outer is active():
            break
        if not outer.options.joinable or time.monotonic() > deadline:
            raise RuntimeError("a coldstep trace is already active in this process: end it first")
        time.sleep(0.001)  # another thread is about to begin it, or to end it
    return outer


def _watch_forks() -> None:
    """Have no profiler run in a child: there it would go on for ever, and keep all that it sees."""
    global _watches_forks
    if not _watches_forks:  # which cannot be undone
        _watches_forks = True
        os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def _before_fork() -> None:
    """No profiler may run in a child, and one of the job must know all that was compiled here."""
    if (session := parents()) is None:
        return
    job, window = session.options.job, session.steps.window
    if job is not None:
        job.before_fork()
    if not session.in_parent():
        return  # a fork's child that has recorded nothing
    if window is not None:
        window.pause()
    if job is not None:
        session.settle()


def _in_child() -> None:
    if (session := parents()) is not None:
        session.in_child()
