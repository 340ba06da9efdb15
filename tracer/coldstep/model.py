"""The rows of a trace, as typed data: exactly what `coldstep report --json` prints (schema `coldstep/1`).

All times are integer nanoseconds; every `start_ns` counts from the entry of `trace()`. A value that cannot be
known is None, and the `missing` of a collector says why. `coldstep.loading` fills the rows that a file holds; the
functions in `coldstep.analysis` derive the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from coldstep.vocabulary import OURS, Vocabulary
from coldstep.vocabulary import UNATTRIBUTED as UNATTRIBUTED

SCHEMA = "coldstep/1"
"""Of `report --json` (docs/format.md); a trace file has one of its own."""
IR_FORMS = (
    "jaxpr", "stablehlo", "optimized_hlo", "fx", "aot_joint_graph", "aot_inference_graph", "inductor_code",
    "lazy_ir",
)  # fmt: skip
"""The forms in which a compile's program is kept where the trace asks for it."""


@dataclass(slots=True)
class Location:
    """A place in somebody's code; `file` is relative to `Run.root` where it lies below it."""

    file: str
    line: int
    function: str


@dataclass(slots=True)
class Dropped:
    """Events lost: `ledger` only after a write error, `bulk` by its bound."""

    ledger: int = 0
    bulk: int = 0


@dataclass(slots=True)
class Run:
    """The traced program, as a whole. `ended`: ok, exception, exit, interrupted, out_of_memory, killed."""

    command: list[str]
    root: str
    started: str
    wall_ns: int
    ended: str
    error: str | None = None
    dropped: Dropped = field(default_factory=Dropped)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Process:
    """One process of the run. `before_trace_ns`: from its start (known to 10 ms) to the entry of `trace()`; of it,
    `own_before_trace_ns` is coldstep's own."""

    index: int
    pid: int
    host: str
    rank: int | None
    start_ns: int
    wall_ns: int
    before_trace_ns: int
    ended: str
    versions: dict[str, str]
    own_before_trace_ns: int = 0


@dataclass(slots=True)
class CollectorRow:
    """How a collector was attached: attached, late, partial, absent, failed; and of what (`claims.CLAIMS`) it may have
    missed some, so that having seen none tells nothing."""

    process: int
    name: str
    state: str
    since_ns: int | None
    version: str | None
    missing: list[str]
    blind: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Wait:
    """Work that ran elsewhere in parallel to an interval; adds to no phase."""

    phase: str
    pid: int
    worker_ns: int


@dataclass(slots=True)
class Interval:
    """A stretch of one process's time. Intervals follow each other without a gap; `phases` and
    `unattributed_ns` add up to `wall_ns` exactly."""

    index: int
    process: int
    kind: str  # before | step | between | after
    step: int | None
    name: str | None
    source: str  # marked | inferred
    label: str | None  # first | settling | compiled | recompiled | steady; None where kind is not step, or not known
    measures: str | None  # complete | dispatch; None where kind is not step
    start_ns: int
    wall_ns: int
    compiles: list[str] = field(default_factory=list)
    phases: dict[str, int] = field(default_factory=dict)
    unattributed_ns: int = 0
    python_dispatches: int | None = None
    sampled: dict[str, int] = field(default_factory=dict)
    inside: dict[str, int] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    rss_bytes: int | None = None
    device_bytes: int | None = None


@dataclass(slots=True)
class PhaseShare:
    """One phase of a step: nanoseconds, and its unrounded share of the step's wall time."""

    phase: str
    ns: int
    share: float


@dataclass(slots=True)
class FirstStep:
    """What the first step of a name went to; `attributed_share` is 1 less the unattributed share."""

    interval: int
    wall_ns: int
    attributed_share: float
    phases: list[PhaseShare]


@dataclass(slots=True)
class Cost:
    """First-run cost per process and step name; `time_to_*` count from the process's start."""

    process: int
    name: str
    time_to_first_step_ns: int
    time_to_settled_ns: int | None
    steady_step_ns: int | None
    steady_spread_ns: int | None
    first_step: FirstStep


@dataclass(slots=True)
class Segment:
    """A stretch of a compile on one thread, nested compiles included."""

    part: str  # forward | backward | attempt | autotune
    interval: int
    thread: str
    start_ns: int
    wall_ns: int
    phases: dict[str, int]


@dataclass(slots=True)
class Input:
    """One leaf of a compile's signature: the path as the user wrote it, and its abstract value."""

    argument: str
    type: str


@dataclass(slots=True)
class Cache:
    """What a disk cache said of a compile. `layer`: xla.persistent, inductor.fx_graph, aot.autograd;
    `state`: hit, miss, bypass, off."""

    layer: str
    state: str
    saved_ns: int | None


@dataclass(slots=True)
class Variant:
    """The n-th compile (from 1) of one identity, and how many the framework allows."""

    n: int
    limit: int | None


@dataclass(slots=True)
class Memory:
    """XLA's or torch's own figures for a compiled program; None where not observed."""

    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None


@dataclass(slots=True)
class Compile:
    """One Dynamo frame compile, JAX compile or lazy graph; its parts are `segments`."""

    id: str
    process: int
    stack: str  # one of the trace's `vocabulary.stacks`
    function: str
    origin: str | None  # user | library | eager; None where it is not known whose it is
    key: str
    location: Location | None
    caller: Location | None
    parent: str | None
    caused_by: str | None
    reason: str  # first | recompile
    variant: Variant
    outcome: str  # compiled | cache_hit | skipped | discarded | limit | failed | traced_only | in_progress
    wall_ns: int
    segments: list[Segment]
    inputs: list[Input] | None
    caches: list[Cache]
    fingerprint: str | None = None
    ir: dict[str, dict[str, int]] | None = None
    memory: Memory | None = None


@dataclass(slots=True)
class Change:
    """One difference between two signatures; `mechanism` is a word of the taxonomy."""

    argument: str | None
    mechanism: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Recompile:
    """A further compile of one identity: what differs from the nearest earlier one, and what it cost."""

    id: str
    process: int
    compile: str
    previous: str | None
    interval: int
    step: int | None
    cause: str
    pattern: str | None
    argument: str | None
    before: str | None
    after: str | None
    changes: list[Change]
    evidence: list[str]
    confidence: str  # proven | inferred
    advice: str
    cost_ns: int


@dataclass(slots=True)
class GraphBreak:
    """Graph breaks of one compiled identity at one user line and of one kind."""

    id: str
    process: int
    kind: str  # data_dependent | side_effect | unsupported_call | explicit | skipped_frame | host_read | other
    reason: str
    function: str
    location: Location | None
    stack: list[Location]
    compile: str | None
    interval: int
    step: int | None
    count: int
    compiles: list[str]
    cost_ns: int
    hints: list[str]
    advice: str


@dataclass(slots=True)
class SettlingCause:
    """Why a step before the settled one compiled. `cause` is None for what compiled for the first time, and for what
    did not compile but was recorded as a CUDA graph, whose `compile` is None where that was not seen."""

    step: int | None
    compile: str | None
    cause: str | None
    text: str
    evidence: list[str]
    advice: str


@dataclass(slots=True)
class Settling:
    """Whether, and at which step, a kind of step stopped compiling."""

    process: int
    name: str
    by: str  # step | function_call
    verdict: str  # settled | not_settled | too_few_steps | not_observable
    settled_at_step: int | None
    warm_at_step: int | None
    causes: list[SettlingCause]
    why: str | None = None
    """What kept it from being observed."""


@dataclass(slots=True)
class Finding:
    """One thing worth a reader's attention; `refs` name the rows it speaks of."""

    id: str
    process: int
    kind: str
    severity: str  # error | warning | note
    interval: int | None
    step: int | None
    cost_ns: int
    location: Location | None
    text: str
    evidence: list[str]
    advice: str
    refs: list[str]


@dataclass(slots=True)
class MemoryPeak:
    """Peaks over the run, in bytes; None where not observed."""

    peak_rss_bytes: int | None = None
    device_peak_bytes: int | None = None


@dataclass(slots=True)
class Signature:
    """What a compile was specialised on: abstract values by argument path, and the rest by name."""

    inputs: dict[str, str] = field(default_factory=dict)
    context: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CudaGraph:
    """A run of a compiled graph that replayed no CUDA graph: it warmed up for one, or was recorded as one."""

    kind: str  # warm-up | recording
    compile: str | None
    part: str  # forward | backward
    interval: int
    wall_ns: int
    sizes: list[int]
    """The sizes that the compiled graph leaves open: each has a CUDA graph of its own."""
    reason: str | None
    """Why an earlier recording could not be replayed, in the framework's words; None where there was none."""


@dataclass(slots=True)
class Details:
    """What is known of a compile beyond its row."""

    identity: str = ""
    """A text that is equal for the compiles of one identity."""
    signature: Signature = field(default_factory=Signature)
    """What it was specialised on."""
    framework_id: str = ""
    """The framework's own id ("0/1") of it, "" where it has none."""
    previous: str | None = None
    """For a recompile: the id of the nearest earlier compile of its identity."""
    guard_failures: list[str] = field(default_factory=list)
    """The framework's own words on why it missed every earlier variant."""
    guarded: dict[str, dict[str, str]] = field(default_factory=dict)
    """What was where those words look, by the framework's expression for the place."""
    error: str = ""
    """What it said when it failed, "" where it did not."""
    programs: dict[str, str] = field(default_factory=dict)
    """Its programs as text, by form, where the trace kept them."""
    given_up: str | None = None
    """Why PyTorch will never look at this code again, in its words, "" where it does not say: all its variants are
    lost."""
    dynamic: dict[str, str] | None = None
    """What the graph leaves open, by argument: its dimensions ("0, 2"), "value" for a number."""
    entry: bool = False
    """Whether it is the very function that was given to torch.compile."""
    fullgraph: bool | None = None
    """Whether PyTorch raises where it would else go on eagerly; None where that is not known."""
    room: int | None = None
    """How many further variants the framework allows."""
    fed_back: list[str] = field(default_factory=list)
    """The arguments that a compiled function had returned."""
    effects: list[str] = field(default_factory=list)
    """What a JAX program does besides computing its results, by which every call takes the Python path."""
    failure: GraphBreak | None = None
    """The graph break that it failed of, where there may be none."""


class DetailsById(dict[str, Details]):
    """What is known of each compile, by its id; one of which nothing is known is of no other's identity."""

    def __missing__(self, compile_id: str) -> Details:
        known = self[compile_id] = Details(identity=compile_id)
        return known


@dataclass(slots=True)
class Failure:
    """The error that ended a process, and the innermost place in the user's files that it came through."""

    error: str
    location: Location | None
    in_step: bool


@dataclass(slots=True)
class Profiled:
    """What a framework's profiler gave: how many slices, how many more were dropped, how far its times can be off."""

    slices: int
    dropped: int
    clock_bound_ns: int


@dataclass(slots=True, repr=False)
class Trace:
    """A trace file, loaded. The rows up to `graph_breaks` come from the file; the rest is derived from them."""

    run: Run
    processes: list[Process]
    collectors: list[CollectorRow]
    intervals: list[Interval]
    compiles: list[Compile]
    graph_breaks: list[GraphBreak]
    memory: MemoryPeak
    origin_ns: int
    """The monotonic clock at the entry of `trace()`: what `start_ns` adds to in the trace's own time."""
    unfinished: int | None = None
    """The index of the interval of a step that was still open where the file ends; it counts for nothing."""
    details: dict[str, Details] = field(default_factory=DetailsById)
    """What else is known of each compile (by id)."""
    libraries: dict[str, str] = field(default_factory=dict)
    """The library module in which a graph broke, by the id of the graph break, or of the compile that failed of it."""
    below: dict[str, str] = field(default_factory=dict)
    """Where in that library it broke, likewise: "torch.optim.optimizer:79 in step: graph_break()"."""
    counters: dict[tuple[int, str], list[tuple[int, float]]] = field(default_factory=dict)
    """The points (nanoseconds, value) of each curve, by process and name."""
    failures: dict[int, Failure] = field(default_factory=dict)
    """What ended a process (by index) that an error ended."""
    cuda_graphs: list[CudaGraph] = field(default_factory=list)
    """The CUDA graphs that were recorded, and the runs that warmed up for them."""
    device_traces: dict[tuple[int, str], Profiled] = field(default_factory=dict)
    """What was recorded inside XLA and on devices, by process and collector."""
    reported: list[Finding] = field(default_factory=list)
    """What collectors of others found themselves; `findings` has them, too."""
    vocabulary: Vocabulary = OURS
    """The words of this trace: ours, and those of collectors of others."""
    code: dict[tuple[str, int], str] = field(default_factory=dict)
    """The source line at (file, line), as it read when the program ran."""
    cost: list[Cost] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    settling: list[Settling] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def keeps_programs(self) -> bool:
        """Whether the trace holds the programs of what compiled."""
        return any(known.programs for known in self.details.values())

    def __repr__(self) -> str:
        steps = sum(row.kind == "step" for row in self.intervals)
        return (
            f"<trace of {' '.join(self.run.command)!r}: {steps} steps, {len(self.compiles)} compiles, "
            f"{len(self.findings)} findings>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        (viewer,) = entry_points(group="coldstep.viewers", name="summary")
        return str(viewer.load()(self))

    def to_json(self) -> dict[str, Any]:
        """The document that `coldstep report --json` prints."""
        names = ("run", "processes", "collectors", "intervals", "cost", "compiles", "recompiles", "graph_breaks",
                 "settling", "findings", "memory")  # fmt: skip
        return {"schema": SCHEMA} | {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    """What `dataclasses.asdict` makes of rows, without a deep copy of each number and text."""
    if hasattr(value, "__slots__"):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
