"""The typed events that collectors emit; a session appends them, a recorder writes them out.

Within one thread, `Begin` and `End` nest like calls, whatever track they are drawn on: the innermost open
`Begin` that names a phase is what that thread is doing. All stamps are `clock.now()` nanoseconds, read in
the hook that saw the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coldstep._util.slotted import field, slotted

if TYPE_CHECKING:
    from collections.abc import Callable

    from coldstep.candidates import Candidate

Args = dict[str, Any]
"""What a slice or instant holds beyond its name: text keys; values are str, int, float, bool, None, or lists
and dicts of such. Never one of the user's own live objects: strings, shapes and hashes only."""

NOTHING = "nothing"
"""The value of an argument in the place of an empty dict, which a trace does not hold."""
UNKNOWN = "unknown"
"""The argument that names those of a compile's which are None: a trace holds none."""
KERNELS = "kernels"
"""The argument of a `Begin` that waits for a pool of compilers: how many kernels these build."""

CHOICES = "compiles_choices"
"""The argument of a `Begin` in which the choices of an autotuning are compiled; the rest of it times them."""
HELD_UP = "held_up_ns"
"""The argument of an `End` of what times the choices of an autotuning: how long the thread meanwhile waited for a
processor."""
TUNED = "autotuned"
"""The argument of a `Begin` that holds the outcome of an autotuning: operation ("mm(64x192, 192x256)"), choices (how
many), winner, best_ns, and untuned_ns, which the choice takes that is made without autotuning, or
None; and cached, whether it was tuned earlier, where what it took does not show that."""
CUDA_GRAPH = "cuda_graph"
"""The argument of a `Begin` whose compiled graph runs to warm up for its CUDA graph, or is recorded as one ("warm-up",
"recording"): the step has not settled. With it: of (id of the compile), part, sizes (a list of int), reason (the
framework's words on why an earlier recording did not do, or None)."""


class CompileArgs:
    """By name, the arguments of a compile's segments, on their `Begin` or `End`; of one compile's the later counts.
    No object of this is made (a `TypedDict` takes each traced process 1.5 ms)."""

    part: str
    """One of forward | backward | attempt | autotune | ahead | load."""
    function: str
    """The user's name for it: "train_step", "<lambda>", "GPT.forward"."""
    origin: str | None
    """One of user | library | eager (the program's, by the rule of `coldstep.places`; a helper that a framework or a
    library compiles for itself, of JAX's none; one of the framework's own eager operations); None where it is not
    known which: it then counts as the user's own."""
    key: str
    """As "stack:file:qualname"."""
    earlier: bool
    """True where the framework had compiled this function before the trace: a recompile, too, of which the earlier
    variants are not known, but for those of `before`."""
    before: list[Args]
    """The signatures of variants that are no compiles of this trace: [{"inputs": [...], "context": {...}}]."""
    variant: int
    """For one with `earlier`: which of its function's variants it is, by the framework's count."""
    identity: str
    """A text equal exactly when two compiles are of one identity (code object, module instance, which arguments are
    static): a further compile of it is a recompile; empty where that is not known."""
    location: Args | None
    """Where the function is defined: {"file": absolute path, "line": int, "function": str}."""
    module: str | None
    """The name of the module that it is defined in, as `import` takes it."""
    caller: Args | None
    """The innermost frame in the user's files that called it, likewise."""
    through: Args | None
    """The library's function that this line calls, which calls the one compiled, and what it was given:
    {"function": "JAXTrainer.fit", "arguments": [{"argument": "x", "type": "f32[1000,8]"}, ...]}."""
    within: Args | None
    """The user's function in which an operation ran outside of compiled ones, or of which a line cut a lazy graph:
    {"function": "serve", "arguments": [{"argument": "tokens", "type": "list of 317 int"}], "location": where it is
    defined, "caller": the user's line that called it, "jittable": the running line of the function, it or one around
    it, that may be given to a compiler as it is; else "made_at", the line that makes a module, and "made", the name
    that it calls for that; "by": what jits either; else "looped_at", the line of the outermost loop}."""
    inputs: list[dict[str, str]] | None
    """The signature: [{"argument": "batch['tokens']", "type": "i32[8,128]"}, ...]; None where not seen."""
    context: dict[str, str]
    """The rest of the signature: {"donated": "x", "grad_mode": "on", ...}, all text, under the keys that
    `coldstep.context` declares; a third party's collector puts under "cause <cause> <place>" a text whose
    difference is that cause."""
    guard_failures: list[str] | None
    """The framework's own words, newest variant first."""
    guarded: dict[str, dict[str, str]] | None
    """The value now where those words look, by the framework's expression for the place: {"L['x'].n": {"argument":
    "x.n", "place": "attribute", "value": "3"}, ...}."""
    limit: int | None
    """How many variants the framework allows."""
    room: int | None
    """How many further ones after this."""
    dynamic: dict[str, str] | str
    """What the graph leaves open: {"x": "0, 2" (dimensions), "n": "value"}, or NOTHING."""
    fed_back: list[str]
    """The arguments that a compiled function had returned: ["params['w']", ...]."""
    effects: list[str]
    """What a JAX program does besides computing its results, in words."""
    constants: dict[str, int]
    """The bytes of large arrays that a JAX program holds as constants, by type: {"f32[500,1000]": 2000000}."""
    unrolled: Args | None
    """The Python loop of which it holds every turn: {"location": its line, "turns": 12, "operations": 96 of them,
    "of": 110 in all, "layers": where each turn reads inputs of its own}, or None."""
    evidence: list[str]
    """What shows that it was compiled, where no signature does."""
    variables: list[str]
    """Those that a function's first call made: ["dense/kernel", ...]."""
    given_up: str
    """Why the framework will never look at this code again, in its words, "" where it gives none."""
    entry: bool
    """Whether it is the very function that was given to the framework to compile."""
    static: bool
    """Whether the program asked for every size to be compiled in (dynamic=False)."""
    sources: str
    """The arguments that a variable of the environment has made dynamic, with commas."""
    fullgraph: bool
    """Whether it may only be one graph: the framework raises where it would else go on eagerly."""
    parent: str | None
    """Id of the compile that this one is nested in."""
    caused_by: str | None
    """Id of the `GraphBreak` whose resume frame this compile is."""
    program: str | None
    """A hash of the program itself, equal in every process, rank and place: "1:" and 16 hex digits."""
    caches: list[Args]
    """The fields of `coldstep.model.Cache`, [{"layer": "xla.persistent", "state": "hit", "saved_ns": 123, ...}, ...];
    of "components", [{"name": ..., "hash": ..., "text": ...}, ...], a text stands only where the process gives it for
    the first time; there one that is a whole configuration, as in logs, may have "options", {"epilogue_fusion": "True",
    ...}."""
    outcome: str
    """One of compiled | cache_hit | skipped | discarded | limit | failed | traced_only: on the last segment's `End`."""
    framework_id: str
    """The framework's own id ("0/1")."""
    fingerprint: str
    """The framework's own hash of the graph."""
    operations: dict[str, int]
    """How many operations its graph has, by form: {"fx": 12}, {"jaxpr": 9}."""
    memory: dict[str, int | None]
    """The compiler's own figures: {"argument_bytes": 4096, "output_bytes": 512, "temp_bytes": 8192, "reused_bytes":
    512}: so much of the results lies in place of arguments."""
    error: str
    """Its message when it failed."""
    failure: Args
    """The graph break that it failed of, where none may be: the arguments of a `GraphBreak`."""
    failed_in: Args
    """The function that failed to compile, with its source as `block`; the recorder adds it."""


@slotted
class Begin:
    """Something began on this thread: a phase, a compile's segment, or an annotation.

    `track` is one of `coldstep.vocabulary.track_order.TRACKS`, or a track of the collector's own `vocabulary`.
    `phase` is the ledger's name for the time that follows (`inductor.cpp`); None leaves the time to the
    enclosing phase and only draws a slice. `compile` ties the slice to a compile (an id from
    `Sink.new_compile()`): the slice is then one *segment* of that compile, and `args["part"]` names it
    ("forward", "backward", "attempt", "autotune", "ahead" of its calls, "load" of a program compiled ahead).
    """

    ns: int
    """When."""
    name: str
    """The slice's, short and stable."""
    track: str
    """Where it is drawn."""
    phase: str | None = None
    """What the time goes to."""
    compile: str | None = None
    """Whose segment it is."""
    args: Args | None = None
    """What varies: shown with the slice."""


@slotted
class End:
    """The end of `begin`; all that is open inside it on this thread ends with it. `args` are added to its slice."""

    ns: int
    """When."""
    begin: Begin
    """What ends."""
    args: Args | None = None
    """Those known only now."""
    later: Callable[[], Args] | None = None
    """What takes long to find out, and lets other threads run meanwhile: more of `args`, which the drain asks for. It
    raises nothing, and holds nothing that the program would miss until then."""


def emit_whole(emit: Callable[[Event], object], begin: Begin, end_ns: int, args: Args | None = None) -> None:
    """Emit the begin and the end of a slice that became known after its end, with nothing within."""
    emit(begin)
    emit(End(end_ns, begin, args))


@slotted
class Within:
    """What went on within the innermost slice that is open on this thread, which its end does not know yet: the drain
    asks for it, and puts them in its place. `events` holds nothing that the program would miss until then."""

    ns: int
    """When that slice began, or later."""
    events: Callable[[], list[Begin | End]]
    """In the order of time."""


@slotted
class Slice:
    """A slice known only when it is over (a heavy submodule's import): drawn, never a phase.

    Of the bulk class, as `Counter` and the slices of a `DeviceTrace`: bounded in number, the oldest are dropped whole
    and counted. All others are the ledger's and are never dropped.
    """

    ns: int
    """When it began."""
    end_ns: int
    """When it ended."""
    name: str
    """The slice's, short and stable."""
    track: str
    """Where it is drawn, as of a `Begin`."""
    args: Args | None = None
    """What varies: shown with the slice."""


@slotted
class Counter:
    """A quantity at one moment: a point of the curve `name`. `unit` is "bytes", or what the value counts."""

    ns: int
    """When."""
    name: str
    """The curve's."""
    value: float
    """How much, in `unit`."""
    unit: str
    """The unit: "bytes", or things of a kind."""


@slotted
class Work:
    """What another process did for this one (a compiler, a pool's worker), reported when it is over.

    `phase` is its time's name in the ledger's `waits`; None only draws it. `args`: command, cpu_ns, exit_code.
    """

    ns: int
    """When it began."""
    end_ns: int
    """When it ended."""
    pid: int
    """Whose work it was."""
    name: str
    """What worked: "g++"."""
    phase: str | None
    """What it worked on."""
    args: Args
    """What varies: shown with the slice."""


@slotted
class ThreadCallStacks:
    """The frames of one thread, in the order in which they began, outermost first: (begin, end, function, module,
    file, line), in our nanoseconds. They nest."""

    tid: int
    """The operating system's number of the thread."""
    thread: str
    """Its name."""
    frames: list[tuple[int, int, str, str, str, int]]
    """In the order in which they began."""


@slotted
class CallStacks:
    """All that a sampler saw of the threads' Python, handed over when the block has ended.

    It is of the bulk class: whoever makes it keeps to a bound, drops the oldest frames whole, and counts them.
    """

    ns: int
    """When they were handed over."""
    clock_bound_ns: int
    """How far their times can be off."""
    threads: list[ThreadCallStacks]
    """The sampled ones."""
    dropped: int
    """How many frames had no room."""


@slotted
class Lines:
    """Which of the user's lines a thread was seen at, until the first step had ended."""

    ns: int
    """When they were handed over."""
    held_ns: int
    """How long nobody could look, as a call into C kept the interpreter's lock."""
    stacks: list[tuple[list[Args], list[tuple[int, int]]]]
    """The user's lines that called each other, outermost first; when they were seen, and for how long each time
    counts."""


@slotted
class Waits:
    """From here on, until the next of these, the thread that began the trace is seen to wait."""

    ns: int
    """From when on."""
    name: str | None
    """The call that waits; None: it no longer does, or nobody looks."""
    args: Args
    """How it waits (`model.WaitingHow`), and the `pid` of the process that the kernel was asked to wait for."""
    before: Args
    """Of the wait that ends here: how many `looks` saw it, `cpu`, the processor time of the processes below
    `within_ns` of it, and `reach_ns`, for how long after it the thread may have waited on."""


@slotted
class GraphBreak:
    """Dynamo gave up on a graph. `id` is the collector's own ("g0", …), `compile` the id of the compile that broke.

    `args`: reason (the framework's words), kind (a word of the report's schema), function, location, stack
    (user frames, outermost first), hints (PyTorch's own); where it broke below the user's code: library (the module
    that broke it), below (the innermost place, with its module).
    """

    ns: int
    """When."""
    id: str
    """The collector's own."""
    compile: str | None
    """The one that broke, where that is known."""
    args: Args
    """Why, and where."""


@slotted
class Finding:
    """A finding of a third party's collector, of a kind in its own `vocabulary`: the report shows it like ours.

    `severity` is "error", "warning" or "note"; `compile` the id of the compile that it is about, if it is about one.
    """

    ns: int
    """When: it stands in that interval."""
    kind: str
    """One of its `vocabulary.findings`."""
    severity: str
    """How bad it is."""
    text: str
    """A sentence."""
    track: str
    """Where it is drawn."""
    compile: str | None = None
    """What it is about."""
    evidence: list[str] = field(default_factory=list)
    """What shows it."""
    advice: str = ""
    """What to change."""
    location: Args | None = None
    """The user's line that it is about, where that is not the compile's, as a compile's `location`."""


@slotted
class IR:
    """A compile's program as text, where the trace asks for it. `form` is one of `coldstep.model.IR_FORMS`."""

    ns: int
    """When it was taken."""
    compile: str
    """Whose program it is."""
    form: str
    """Which form of it."""
    text: str
    """The program."""


@slotted
class StepBegin:
    """A step began, marked by the program or `inferred` from a framework; `n` counts from 0 per name and process."""

    ns: int
    """When."""
    name: str
    """The kind of step: "step", "val"."""
    n: int
    """Its ordinal."""
    inferred: bool = False
    """Whether nothing in the program marks it."""


@slotted
class StepEnd:
    """The end of `begin`; `complete`: whether `coldstep.wait` was called in it."""

    ns: int
    """When."""
    begin: StepBegin
    """The step that ends."""
    complete: bool
    """Whether its work was done then, not only handed to the device."""
    python_dispatches: int
    """How many calls of compiled functions in it went through Python (`Sink.count_dispatch`)."""


@slotted
class Calls:
    """Calls of a candidate for a step, each by its begin (0 where that was not seen) and end; the drain makes it of
    what the hooks have noted in the candidate itself.

    It is of the bulk class: of each candidate the first calls are kept, of the rest only how many they were.
    """

    ns: int
    """When they were handed over."""
    candidate: Candidate
    """The thing called."""
    spans: list[tuple[int, int]]
    """(begin, end) each, in our nanoseconds."""


@slotted
class Ready:
    """The program is declared warmed up: from here on nothing may compile."""

    ns: int
    """When."""
    name: str
    """What it calls it."""
    stack: list[Args] | None = None
    """The user's functions that were running, innermost first; None where that was not seen."""


@slotted
class Note:
    """Something that whoever reads the trace must know, in one sentence."""

    ns: int
    """When it turned out."""
    text: str
    """The sentence."""


@slotted
class CollectorState:
    """A collector attached, came late, lacks hooks, or failed. `missing` names, in words, what it cannot see; `blind`,
    of `blind_spots.CLAIMS`, what nobody may conclude from its having seen nothing."""

    ns: int
    """When."""
    name: str
    """The collector's."""
    state: str
    """attached | late | partial | absent | failed"""
    version: str | None
    """The framework's; None where it is not known."""
    missing: list[str]
    """A sentence each."""
    blind: list[str] = field(default_factory=list)
    """What its silence does not prove."""


@slotted
class DeviceWindow:
    """From here on the profilers behind device traces record, or do so no longer."""

    ns: int
    """When."""
    open: bool
    """Whether they record from here on."""


@slotted
class DeviceSlice:
    """What a profiler saw: a compiler's pass, an operator, a kernel. Its times are the profiler's, mapped to ours.

    `category` is one of "xla.compile", "xla.pass", "xla.codegen", "xla.link" on a line of the compiler's; else
    "kernel" or "copy" (work of a device), "operator", "runtime" (a call that hands work to a device), or
    "annotation". `flow`, where not 0, is carried by slices of one `DeviceTrace` that belong together, a launch and its
    kernels: an arrow leads from the launch to the first of them.
    `args["framework_id"]` and `args["module"]` name the compile that made what runs here, in the framework's words.
    """

    ns: int
    """When it began."""
    end_ns: int
    """When it ended."""
    name: str
    """As the profiler has it."""
    category: str
    """What kind of thing it is."""
    args: Args | None = None
    """What varies: shown with the slice."""
    flow: int = 0
    """What ties it to others."""


@slotted
class DeviceLine:
    """Slices of one thread or one stream. `kind`: "xla" (inside the compiler) or "device"."""

    kind: str
    """On which track it is drawn."""
    name: str
    """The thread's or stream's."""
    slices: list[DeviceSlice]
    """In the order in which they began."""


@slotted
class DeviceTrace:
    """All that one profiler recorded, handed over when the traced block has ended.

    It is of the bulk class: whoever makes it keeps to a bound, drops the oldest slices whole, and counts them in
    `dropped`. `clock_bound_ns` is how far its times can be off. `executed` is when the device, or the kernels of a
    CPU, ran: spans that the ledger takes for `execute` where it has no other phase.
    """

    ns: int
    """When it was handed over."""
    source: str
    """The collector."""
    clock_bound_ns: int
    """How far its times can be off."""
    lines: list[DeviceLine]
    """The threads and streams."""
    executed: list[tuple[int, int]]
    """(begin, end) each, in our nanoseconds."""
    dropped: int = 0
    """How many slices had no room."""


Event = (
    Begin
    | End
    | Within
    | Slice
    | Counter
    | Work
    | CallStacks
    | Lines
    | Waits
    | GraphBreak
    | Finding
    | IR
    | StepBegin
    | StepEnd
    | Calls
    | Ready
    | Note
    | CollectorState
    | DeviceWindow
    | DeviceTrace
)


def is_worth_a_file(event: Event) -> bool:
    """Whether a process that is a part of a job gets a file for it: a compile, a mark, a collector's own
    finding or failure."""
    if isinstance(event, Begin):
        return event.compile is not None or event.track == "annotations"
    if isinstance(event, CollectorState):
        return event.state == "failed"
    return isinstance(event, (StepBegin, Ready, GraphBreak, Finding))
