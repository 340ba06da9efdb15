"""What a collector is, what it may do to a session, and how installed collectors are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coldstep._util.importhook import ImportHook
from coldstep._util.installed import Offer
from coldstep._util.slotted import slotted
from coldstep.clock import now
from coldstep.errors import first_line, our_errors
from coldstep.events import Args, Begin, End, Event

if TYPE_CHECKING:
    from coldstep.candidates import Candidate

COLLECTORS = "coldstep.collectors"
"""The group of entry points that they are installed under."""
Hook = TypeVar("Hook", bound=Callable[..., Any])


@slotted
class Foreseen:
    """A compile that the next step will bring, as things stand at the end of the first."""

    compile: str
    """The id of the one that it will be a further one of."""
    args: Args
    """Its arguments that differ from those of that one; of a `context` only keys that differ, None for a lost one."""


class Sink(Protocol):
    """A session, as every collector sees it. Everything here may be called from any thread, inside any hook."""

    def emit(self, event: Event) -> None:
        """Append to the calling thread's buffer: no lock, no I/O."""

    def note(self, text: str) -> None:
        """Say `text` once on the trace."""

    def state(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        """Report how `collector` attached; may be called again when that changes.

        A missing thing that hides no compiles is reported as `blind_spots.Unseen`: plain words leave everything open.
        """

    def when_imported(self, module: str, callback: Callable[[Any], None]) -> None:
        """Call `callback(module)` when `module` is imported: at once if it already is, else as its import ends.

        The callback runs under the module's import lock: it may import nothing but modules of the collector's own that
        import no framework. Callbacks end with the trace.
        """

    def guarded(self, collector: str, hook: Hook) -> Hook:
        """`hook` behind the circuit breaker: an Exception in it never reaches the framework.

        The first one marks the collector failed, with one note; from then on, and after the trace, the hook
        returns None at once. BaseException (Ctrl-C) passes.
        """

    def new_compile(self) -> str:
        """A compile id, unique in this process's trace: "c0", "c1", …"""

    def compile_opened(self) -> None:
        """A compile began on this thread (heartbeats and garbage collections are recorded while one is open)."""

    def compile_closed(self) -> None:
        """The end of what `compile_opened` announced."""

    def wake(self) -> None:
        """Ask the drain to write its buffers at once, not with its next turn (when a compile begins)."""

    def meanwhile(self, do: Callable[[], None]) -> None:
        """Have `do()`, which must not raise, called on coldstep's own thread: for what takes a while and can be asked
        for later. Not called once the trace has ended."""

    def on_wait(self, wait: Callable[[Any], None]) -> None:
        """Register a function that blocks until what the value it is given stands for has really run."""

    def on_mark(self, look: Callable[[bool], None]) -> None:
        """Register a function called before each mark of the program's is recorded, with whether it begins a step.

        For late observations: events that it emits come before the mark's own.
        """

    ir: bool
    """Whether the programs themselves were asked for."""

    def keep_ir(self, compile: str, form: str, text: Callable[[], str | None]) -> None:
        """Where they were: keep the result of `text()` as a compile's program in `form` (one of `IR_FORMS`).

        What that takes is coldstep's time. A text that is beyond the limit or out of reach is left out, with a note.
        """


class StepSink(Sink, Protocol):
    """For collectors that know of the program's steps, or of calls that may be steps."""

    def awake(self) -> bool:
        """Whether the trace is on. Asked first in a hook that is not `guarded`: in a fork's child all that the hook
        knows is its parent's until then."""

    @property
    def infers(self) -> bool:
        """Whether calls that may be the program's steps are to be seen: it may mark none, and has marked none so
        far."""

    whole_process: bool
    """Whether nothing has been compiled before the trace, nor will be after it: the process was begun for it, or is
    watched from a framework's import on."""

    def add_candidate(self, candidate: Candidate) -> bool:
        """Have the calls that are noted in `candidate` written from now on; False where there are too many already."""

    def on_first_mark(self, leave: Callable[[], None]) -> None:
        """Have `leave()` called when the program marks its first step: from then on nothing is to be inferred."""

    def step_boundary(self, ns: int, *, is_step: bool) -> None:
        """Where the program marks no steps: a framework is between two, since `ns` and until this returns. `is_step`:
        whether the time since the last boundary was a step."""

    def is_tracing(self, check: Callable[[], bool]) -> None:
        """Register a check whether a framework's tracer is running this thread's Python right now."""

    def unsettled(self) -> None:
        """The step that is open has not settled, though nothing may compile in it: a CUDA graph is recorded."""

    def count_dispatch(self) -> None:
        """One Python dispatch of a compiled function that may or may not compile (JAX's C++ cache miss)."""


class AheadSink(StepSink, Protocol):
    """For collectors that foresee, as the first step ends, the compiles of the next."""

    def in_first_step(self) -> bool:
        """Whether the step that is open is the first of its name, or nothing has been called twice where steps are to
        be inferred, and it is wanted to know what the next will compile: what a look ahead needs is taken down now, or
        never."""

    def on_first_step(self, look: Callable[[FrameType, Any], list[Foreseen]]) -> None:
        """Register a function that is called when the first step of each name has ended, with the user's frame that
        marked it and None: what will be compiled again in the next, if nothing changes before it. Where steps are to
        be inferred it is called from `call_ended`, with what that is given."""

    def call_ended(self, frame: FrameType, result: Any) -> None:
        """A call from `frame`, the user's, that may be the first step ends and is about to return `result`; None where
        the program feeds results back only through its own state."""


class DeviceSink(Sink, Protocol):
    """For collectors that record devices by a framework's own profiler."""

    def on_device_trace(
        self,
        run: Callable[[], None],
        rest: Callable[[], None],
        *,
        any_time: bool = False,
        run_within: Callable[[str | None], None] | None = None,
    ) -> None:
        """Where device traces were asked for: have `run()` called before every step that they are wanted of, and
        `rest()` when they no longer are. Neither is called where none were asked for, nor at the trace's end.

        Both are called between steps, on the thread that marks them; with "all", also from here. Where steps are to be
        inferred: if they may be called at `any_time`, whatever the program does meanwhile, from here and from a
        thread of coldstep; else from `between_calls`, and where the program does not come to that, `rest()` from there.
        """

    def between_calls(self, within: str | None = "") -> None:
        """This thread is the program's, and between two calls that may be its steps: what records devices may end
        here, and begin anew. It is asked by `run_within(within)`, else `run()`: where its
        profiler sees this point `within` a span of that name, which is about to end, not both; and where
        it is None, as a call begins, only begin."""


class ProcessSink(Sink, Protocol):
    """For collectors that watch the process itself: its imports, its children, what it waits for."""

    import_hook: ImportHook
    """The session's own meta-path finder; it is in place before the first collector starts."""

    follows_children: bool
    """Whether the processes that this one starts have traces of their own, as parts of one job."""

    looks_at_waits: bool
    """Whether what the program waits for is to be looked at."""

    def idle_since(self) -> int | None:
        """Since when the thread that began the trace has no phase, nor begun or ended a step, as far as that is
        written; None where it has one."""


class SessionSink(AheadSink, DeviceSink, ProcessSink, Protocol):
    """All of these: a session gives each collector the same sink."""


class Collector(Protocol):
    """Hooks one framework or one kind of event. A module-level factory without arguments is the entry point.

    One whose `records_devices` is true takes part only in a trace for which device traces were asked, one whose
    `samples_stacks` is true only where stacks were, one whose `infers_steps` is true only where steps are to be
    inferred.
    One whose words coldstep does not have (a stack, tracks, phases, causes, findings of its own) declares them as the
    attribute `vocabulary`, a `coldstep.vocabulary.Words`: they go into the trace, and whoever reads it has them.
    One that must know of a fork has a method `forked()`, called in a fork's child that is of a job, before the first
    guarded hook that runs there: it only forgets what is of its parent alone. One with threads of its own has
    `begin_in_fork()`, called there once there is something to record, on the thread that the child's trace is of. Of
    a child's only these are stopped.
    One that knows this process's rank in a job has a method `rank() -> int | None`, asked before `start` and again
    after the block.
    """

    name: str
    """The name of its entry point."""

    def start(self, sink: SessionSink) -> None:
        """Called once, as the trace begins: attach now, or `sink.when_imported(…)`. Must not import a framework.

        A collector gives its `sink` the type of as much of it as it needs: `Sink`, mostly."""

    def stop(self) -> list[str]:
        """Restore every hook that is still ours; return, in words, what stays in the process (inert)."""


class own_time:
    """Around what takes time of coldstep's own, from `since` on, if not from now."""

    __slots__ = ("_emit", "_name", "_ours", "_since")

    def __init__(self, emit: Callable[[Event], None], on: str, since: int = 0) -> None:
        self._emit, self._name, self._since = emit, on, since

    def __enter__(self) -> None:
        """Begin."""
        self._ours = Begin(self._since or now(), self._name, "coldstep", "coldstep")
        self._emit(self._ours)

    def __exit__(self, *_: object) -> None:
        """End, whatever has happened."""
        self._emit(End(now(), self._ours))


def discover(names: list[str] | None, installed: Sequence[Offer]) -> tuple[list[Collector], list[str]]:
    """The installed collectors, or those named; and a sentence for each that could not be loaded.

    Raises ValueError for a name that no installed distribution provides.
    """
    by_name = {offer.name: offer for offer in installed}
    unknown = [name for name in names or () if name not in by_name]
    if unknown:
        raise ValueError(f"no collector named {', '.join(unknown)}; installed: {', '.join(sorted(by_name))}")
    collectors: list[Collector] = []
    problems: list[str] = []
    for name in names if names is not None else sorted(by_name):
        try:
            collectors.append(by_name[name].load()())
        except our_errors() as error:
            problems.append(f"collector {name} could not be loaded: {first_line(error)}")
    return collectors, problems
