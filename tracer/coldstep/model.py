"""The rows of a trace, as typed data: exactly what `coldstep report --json` prints (schema `coldstep/1`).

All times are integer nanoseconds; every `start_ns` counts from the entry of `trace()`. A value that cannot be
known is None, with the reason in the `missing` of a collector. `coldstep.loading` fills the rows that a file holds; the
functions in `coldstep.analysis` derive the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from coldstep._util.installed import in_notebook, offered
from coldstep._util.slotted import field, slotted
from coldstep.run_row import Dropped as Dropped
from coldstep.signature import Change as Change
from coldstep.signature import Signature as Signature
from coldstep.vocabulary import OURS, Vocabulary
from coldstep.vocabulary import UNATTRIBUTED as UNATTRIBUTED

JSON_SCHEMA = "coldstep/1"
"""Of `report --json` (docs/reference/format.md); a trace file has one of its own."""
SECTIONS = (
    "run", "processes", "collectors", "intervals", "cost", "compiles", "recompiles", "graph_breaks", "settling",
    "readiness", "job_ready", "findings", "answers", "memory", "builds", "autotuning", "transfers",
)  # fmt: skip
"""What such a document has, in this order."""
IR_FORMS = (
    "jaxpr", "stablehlo", "optimized_hlo", "fx", "aot_joint_graph", "aot_inference_graph", "inductor_code",
    "lazy_ir",
)  # fmt: skip
"""The forms in which a compile's program is kept where the trace asks for it."""

Ending = Literal["ok", "exception", "exit", "interrupted", "out_of_memory", "killed", "terminated", "running"]
CollectorState = Literal["attached", "late", "partial", "absent", "failed"]
IntervalKind = Literal["before", "step", "between", "after"]
StepSource = Literal["marked", "inferred"]
StepLabel = Literal["first", "settling", "compiled", "recompiled", "steady"]
Measures = Literal["complete", "dispatch"]
Origin = Literal["user", "library", "eager"]
Reason = Literal["first", "recompile"]
Outcome = Literal[
    "compiled", "cache_hit", "skipped", "discarded", "limit", "failed", "traced_only", "in_progress",
]  # fmt: skip
CacheState = Literal["hit", "guard_miss", "miss", "unreadable", "bypass", "off"]
Confidence = Literal["proven", "inferred"]
BreakKind = Literal[
    "data_dependent", "side_effect", "unsupported_call", "explicit", "skipped_frame", "host_read", "other",
]  # fmt: skip
WaitingHow = Literal["wait4", "recv", "join", "future", "poll", "sleep"]
ReadyBy = Literal["ready", "settled", "response"]
StepRule = Literal["other_tool", "trainer", "optimizer", "feedback", "call", "sync"]
JudgedBy = Literal["step", "function_call"]
Verdict = Literal["settled", "not_settled", "too_few_steps", "not_observable"]
Severity = Literal["error", "warning", "note"]
CudaGraphKind = Literal["warm-up", "recording"]
How = Literal["environment", "outside", "edit", "none"]
Put = Literal["above", "below", "instead"]
Changes = Literal["nothing", "rounding", "numerics", "data"]


@slotted
class Location:
    """A place in somebody's code; `file` is relative to `Run.root` where it lies below it."""

    file: str
    """Its path."""
    line: int
    """From 1; 0 where it is not known."""
    function: str
    """The function's name; "" outside of any."""


@slotted
class Run:
    """The traced program, as a whole."""

    command: list[str]
    """The words of the command line."""
    root: str
    """The folder to which paths are relative: git's top level, else the working folder."""
    started: str
    """ISO time, with its zone."""
    wall_ns: int
    """From the entry of `trace()` to its end; of a job, from the first entry to the last end."""
    ended: Ending
    """How; of a job, as the first process that did not end well."""
    error: str | None = None
    """The error that ended it, type and message; None where none did."""
    dropped: Dropped = field(default_factory=Dropped)
    """Events that are not in the file."""
    notes: list[str] = field(default_factory=list)
    """What a reader must know of how the trace was made, a sentence each."""
    labels: dict[str, str] = field(default_factory=dict)
    """What it is labelled with: the user's words, CI's, SLURM's …; of a job, what all processes have alike."""
    job: str | None = None
    """The job whose processes these are; None of a trace by itself."""


@slotted
class Process:
    """One process of the run. `before_trace_ns`: from its start (known to 10 ms) to the entry of `trace()`; of it,
    `own_before_trace_ns` is coldstep's own."""

    index: int
    """Its position in `Trace.processes`, by which other rows name it."""
    pid: int
    """The operating system's number."""
    host: str
    """The machine's name."""
    rank: int | None
    """Its rank in a job of several processes; None where it has none."""
    start_ns: int
    """The entry of its `trace()`."""
    wall_ns: int
    """From there to the end."""
    before_trace_ns: int
    """From the process's start to the entry of `trace()`."""
    ended: Ending
    """How."""
    versions: dict[str, str]
    """By package, Python's own included."""
    own_before_trace_ns: int = 0
    """Coldstep's own share of `before_trace_ns`."""
    parent: int | None = None
    """The index of the nearest process above it that the trace has; None of the first, and outside of a job."""
    name: str | None = None
    """What the program calls it: "EngineCore_0", "train"; None outside of a job."""
    command: list[str] = field(default_factory=list)
    """The words of its command line."""
    started_by: Location | None = None
    """The line that started it; None where nobody saw that."""
    how: str | None = None
    """root | spawn | fork | forkserver | subprocess | exec | ray; None outside of a job."""


@slotted
class CollectorRow:
    """How a collector was attached, and of what (`blind_spots.CLAIMS`) it may have missed some, so that having seen
    none proves nothing."""

    process: int
    """The process's index."""
    name: str
    """Its entry point's name."""
    state: CollectorState
    """How it was attached."""
    since_ns: int | None
    """When; None where it never was."""
    version: str | None
    """The framework's version; None where it is not known."""
    missing: list[str]
    """What it could not see, a sentence each."""
    blind: list[str] = field(default_factory=list)
    """Of what it may have missed some."""


@slotted
class Wait:
    """Work that ran elsewhere in parallel to an interval; adds to no phase."""

    phase: str
    """The phase of this work."""
    pid: int
    """The process that worked."""
    worker_ns: int
    """For how long."""


@slotted
class Waiting:
    """A wait that the interval's thread was seen in, as far as one process had one phase meanwhile."""

    process: int | None
    """The index of the process that it waited for, where the kernel has that (`wait4`); else of the only one below
    that worked meanwhile. None where neither is known, or that process has no trace."""
    ns: int
    """For how long."""
    how: WaitingHow
    """What the thread was seen in: waiting for a process's end, for data, for an end, for a result, for any event, or
    asleep."""
    meanwhile: str | None
    """The phase of that process, or of the only one below it that worked where it had none itself; `imports` for any
    import. None where it had none."""
    where: str = ""
    """The call that waits: "Connection.recv", "Popen.wait", "epoll_wait"."""
    pid: int | None = None
    """The process's number, whether it has a trace or not."""
    command: str | None = None
    """The name of a process without a trace."""
    working: int = 0
    """How many processes below worked meanwhile; 0 where the kernel has the one that it waited for."""


@slotted
class InferredBy:
    """What a step was inferred from, where the program marks none."""

    rule: StepRule
    """Another tool's mark; the trainer that runs the loop; an optimizer that stepped; calls whose results train, or are
    fed back into them; calls of which no more is known; a torch_xla sync."""
    of: str
    """The function called: "torch.optim.Adam.step", "transformers.Trainer", "update"."""
    location: Location | None
    """The user's line that calls it; None where it is not known."""


@slotted
class Inference:
    """The calls that a process without marked steps repeats, as far as seen. It is no row of the JSON."""

    process: int
    """The process's index."""
    steps: dict[str, InferredBy]
    """By the name of a kind of step: what it was inferred from."""
    also: dict[str, int]
    """What else was seen more than once, in words, and how often."""
    notes: list[str]
    """What a reader must know of the choice, a sentence each."""
    why: str | None
    """Why there is none; None where there is."""
    ask: str | None
    """What to give to --step where there is none: "__main__:train_step"; None where that is not known either."""


@slotted
class Interval:
    """A stretch of one process's time. Intervals follow each other without a gap; `phases` and
    `unattributed_ns` add up to `wall_ns` exactly."""

    index: int
    """Its position in `Trace.intervals`."""
    process: int
    """The process's index."""
    kind: IntervalKind
    """What it is."""
    step: int | None
    """The ordinal of the step, from 0; None where kind is not step."""
    name: str | None
    """The step's name; None where kind is not step."""
    source: StepSource
    """Whether the program marks its steps, or they were concluded."""
    inferred_by: InferredBy | None = field(default=None, kw_only=True)
    """What they were concluded from; None where it marks them, and between two steps."""
    label: StepLabel | None
    """What the step was like; None where kind is not step, or not known."""
    measures: Measures | None
    """Whether the step ended when its work was done, or when that was handed over; None where kind is not step."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """Its length."""
    compiles: list[str] = field(default_factory=list)
    """The ids of the compiles that count for it."""
    phases: dict[str, int] = field(default_factory=dict)
    """Nanoseconds of its owner thread by phase."""
    unattributed_ns: int = 0
    """Nanoseconds in which no phase was open."""
    python_dispatches: int | None = None
    """Calls that left JAX's fast path; None where they were not seen, or kind is not step."""
    sampled: dict[str, int] = field(default_factory=dict)
    """Unattributed nanoseconds by what samples of call stacks saw; a statistic."""
    read_bytes: dict[str, int] = field(default_factory=dict)
    """Of the user's lines in `sampled`: the bytes read from disk meanwhile, where weights had been mapped before."""
    waiting: list[Waiting] = field(default_factory=list)
    """Unattributed nanoseconds by what the thread was seen to wait for; a statistic."""
    inside: dict[str, int] = field(default_factory=dict)
    """Nanoseconds inside XLA and on devices, by what a profiler saw; adds to nothing."""
    waits: list[Wait] = field(default_factory=list)
    """What ran elsewhere meanwhile."""
    rss_bytes: int | None = None
    """Peak resident memory in it; None where not observed."""
    device_bytes: int | None = None
    """Peak device memory in it; None where not observed."""


@slotted
class PhaseShare:
    """One phase of a step: nanoseconds, and its unrounded share of the step's wall time."""

    phase: str
    """The phase's name."""
    ns: int
    """Nanoseconds."""
    share: float
    """From 0 to 1."""


@slotted
class FirstStep:
    """What the first step of a name went to; `attributed_share` is 1 less the unattributed share."""

    interval: int
    """Its index."""
    wall_ns: int
    """Its length."""
    attributed_share: float
    """From 0 to 1."""
    phases: list[PhaseShare]
    """The longest first."""


@slotted
class Cost:
    """First-run cost per process and step name; `time_to_*` count from the process's start."""

    process: int
    """The process's index."""
    name: str
    """The step's name."""
    time_to_first_step_ns: int
    """To the end of the first step."""
    time_to_settled_ns: int | None
    """To the begin of the settled step; None where it did not settle."""
    steady_step_ns: int | None
    """The median of the steady steps; None below three."""
    steady_spread_ns: int | None
    """Their interquartile range; None below three."""
    first_step: FirstStep
    """What it went to."""


@slotted
class Segment:
    """A stretch of a compile on one thread, nested compiles included."""

    part: str
    """Forward, backward, attempt, autotune, ahead (of its calls), load; of a collector of others, its own word."""
    interval: int
    """The index of the interval in which it began."""
    thread: str
    """The thread's name."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """Its length."""
    phases: dict[str, int]
    """Nanoseconds by innermost phase."""


@slotted
class Input:
    """One leaf of a compile's signature: the path as the user wrote it, and its abstract value."""

    argument: str
    """batch['tokens']."""
    type: str
    """i32[8,128]; of a Python value, its text."""


@slotted
class Component:
    """One part of what a cache keys a program with. Two are equal where their hashes are, whatever their texts are."""

    name: str
    """The framework's name for it: "XLA flags", "inductor_config[max_fusion_size]"."""
    hash: str
    """16 hex digits."""
    text: str | None
    """Its value in words, at most 1 KiB; None where it has no readable form."""


@slotted
class Cache:
    """A disk cache's answer to a compile. `layer`: one of `coldstep.vocabulary.CACHES`."""

    layer: str
    """Which cache."""
    state: CacheState
    """Its answer."""
    saved_ns: int | None
    """The compile time that a hit saved, as the framework has it; None where it gives none."""
    part: str | None = None
    """Forward or backward; None where the cache holds both, or knows no such parts."""
    count: int = 1
    """How many entries it was asked for."""
    hits: int = 0
    """How many of them it had."""
    key: str | None = None
    """What it was asked for; None where that was not seen, or is several."""
    components: list[Component] = field(default_factory=list)
    """What the key is made of; empty where that was not seen."""
    written: bool | None = None
    """Whether it stored what it lacked; None where it lacked nothing, or that was not seen."""
    why: str | None = None
    """Why it did not, or what else is wrong: one of `coldstep.vocabulary.UNWRITTEN`; None where nothing is known."""
    why_text: str = ""
    """The same in words."""
    load_ns: int | None = None
    """What reading took, and making a program of it; None where nothing was loaded, or it was not seen."""
    self_ns: int | None = None
    """What keys, reads in vain and writes took: the cache's own price; None where it was not seen."""


@slotted
class Variant:
    """The n-th compile (from 1) of one identity, and how many the framework allows."""

    n: int
    """From 1."""
    limit: int | None
    """None where there is no limit, or it is not known."""


@slotted
class Memory:
    """XLA's or torch's own figures for a compiled program; None where not observed."""

    argument_bytes: int | None = None
    """The arguments."""
    output_bytes: int | None = None
    """The results."""
    temp_bytes: int | None = None
    """What it needs besides while it runs."""
    reused_bytes: int | None = None
    """The part of the results that lies in place of donated arguments."""

    @property
    def whole_bytes(self) -> int:
        """All that it needs at once, as far as that is known."""
        needed = sum(bytes_ or 0 for bytes_ in (self.argument_bytes, self.output_bytes, self.temp_bytes))
        return needed - (self.reused_bytes or 0)


@slotted
class Compile:
    """One Dynamo frame compile, JAX compile or lazy graph; its parts are `segments`."""

    id: str
    """Its name in the trace: c0; p1c0 in a further process."""
    process: int
    """The process's index."""
    stack: str
    """The compiler: one of the trace's `vocabulary.stacks`."""
    function: str
    """The function's name as the framework has it."""
    origin: Origin | None
    """Whose it is; None where that is not known."""
    key: str
    """stack:file:qualname, the same in every run."""
    location: Location | None
    """Where the function is defined; None where it is not known."""
    caller: Location | None
    """The innermost of the user's lines that called it."""
    parent: str | None
    """The id of the compile during which it began."""
    caused_by: str | None
    """The id of the graph break that made it a compile of its own."""
    reason: Reason
    """Whether an earlier variant of its function was there."""
    variant: Variant
    """Which of its function's variants it is."""
    outcome: Outcome
    """How it ended."""
    wall_ns: int
    """The union of its segments: backward included, nothing twice."""
    segments: list[Segment]
    """In the order in which they began."""
    inputs: list[Input] | None
    """What it was specialised on; None where it was not seen."""
    caches: list[Cache]
    """The disk caches' answers to it."""
    fingerprint: str | None = None
    """The framework's own hash of the program; None where it was not seen."""
    ir: dict[str, dict[str, int]] | None = None
    """By form of the program: lines, where its text was kept, and operations."""
    memory: Memory | None = None
    """What the program needs; None where not observed."""
    program: str | None = None
    """A hash of the program itself, the same in every process, rank and place ("1:" and 16 hex digits); None where it
    was not seen."""
    components: dict[str, str | None] = field(default_factory=dict)
    """Flags, versions, options and devices, by name, where they are not what most of its process was compiled with."""


@slotted
class Remedy:
    """One thing to do about a finding: the variables to set, or the code to put at a line of the user's."""

    id: str
    """The same in each run of one program: "dynamo.shape:tokens"."""
    how: How
    """Set `environment`; edit, as `text` has it and, where that is more than "", `code`; or nothing at all."""
    text: str
    """What to do, in a sentence or two; where nothing, why."""
    environment: dict[str, str]
    """The variables to set before the program starts."""
    code: str
    """Whole lines, without the indentation of the user's line."""
    put: Put
    """Where the code goes: above the line, below it, or instead of it."""
    location: Location | None
    """That line; None where there is no code."""
    changes: Changes
    """What else the change does to the results."""
    lines: int = 1
    """How many lines, from that one on, the code replaces where it is put instead; all go in as far as the first."""


@slotted
class Recompile:
    """A further compile of one identity: what differs from the nearest earlier one, and what it cost."""

    id: str
    """r0, by which findings name it."""
    process: int
    """The process's index."""
    compile: str
    """The id of the new compile."""
    previous: str | None
    """The id of the earlier one; None where that is not in the trace."""
    interval: int
    """The index of the interval in which it began."""
    step: int | None
    """The ordinal of the step; None outside of steps."""
    cause: str
    """One of the trace's `vocabulary.causes`; unknown where none could be shown."""
    pattern: str | None
    """What it is an instance of (`analysis.patterns`); None where of none of these."""
    argument: str | None
    """The path of what differs first."""
    before: str | None
    """As it was."""
    after: str | None
    """As it is."""
    changes: list[Change]
    """All that differs."""
    evidence: list[str]
    """What shows it: the framework's own words, or what differed."""
    confidence: Confidence
    """Whether the framework reported the cause, or the signatures show it."""
    advice: str
    """What to change; "" where there is no advice."""
    cost_ns: int
    """The union of the new compile's segments."""
    remedies: list[Remedy] = field(default_factory=list)
    """The same, the best first, one by one."""


@slotted
class GraphBreak:
    """Graph breaks of one compiled identity at one user line and of one kind."""

    id: str
    """b0, by which findings and compiles name it."""
    process: int
    """The process's index."""
    kind: BreakKind
    """What broke it."""
    reason: str
    """The framework's own words."""
    function: str
    """The function that broke."""
    location: Location | None
    """The user's line; None where it is not known."""
    stack: list[Location]
    """The user's frames, outermost first."""
    compile: str | None
    """The id of the first compile that broke there."""
    interval: int
    """The index of the interval of the first break."""
    step: int | None
    """The ordinal of its step; None outside of steps."""
    count: int
    """How often."""
    compiles: list[str]
    """The ids of the compiles that it caused."""
    cost_ns: int
    """The union of their segments."""
    hints: list[str]
    """The framework's own."""
    advice: str
    """What to change."""
    remedies: list[Remedy] = field(default_factory=list)
    """The same, the best first, one by one."""


@slotted
class SettlingCause:
    """Why a step before the settled one compiled. `cause` is None for what compiled for the first time, and for what
    did not compile but was recorded as a CUDA graph, whose `compile` is None where that was not seen."""

    step: int | None
    """The ordinal of the step; None where no step is marked."""
    compile: str | None
    """The id of the compile."""
    cause: str | None
    """One of the trace's `vocabulary.causes`."""
    text: str
    """A sentence."""
    evidence: list[str]
    """What shows it."""
    advice: str
    """What to change."""


@slotted
class Settling:
    """Whether, and at which step, a kind of step stopped compiling."""

    process: int
    """The process's index."""
    name: str
    """The step's name, or the function's."""
    by: JudgedBy
    """The kind of thing judged."""
    verdict: Verdict
    """Whether it settled."""
    settled_at_step: int | None
    """The ordinal of the first step from which nothing compiled any more."""
    warm_at_step: int | None
    """The ordinal of the first step that was as fast as the rest."""
    causes: list[SettlingCause]
    """Why the steps before it compiled."""
    why: str | None = None
    """What kept it from being observed."""


@slotted
class Meanwhile:
    """What a process of a job did until the job was ready: from its own start, or to its own end, if that is so."""

    process: int
    """The process's index."""
    start_ns: int
    """When it began, from the start of the first on."""
    ns: int
    """For how long."""
    before_trace_ns: int
    """Of that, before it was traced: Python, imports, the program's code."""
    phases: dict[str, int]
    """Of that, in phases; all imports are one."""
    waiting: list[Waiting]
    """Of the rest, what it was seen to wait for."""


@slotted
class JobReady:
    """When a job of several processes was ready, from the start of the first of them on."""

    by: ReadyBy
    """What shows it: `coldstep.ready()` of each process that calls it; else the first step of each kind that had
    settled, the last of these; else the first response that uvicorn or gunicorn sent."""
    name: str
    """What the program calls it, or the kind of step, or `first response`."""
    process: int
    """The index of the process that was the last to be ready, or the first to respond."""
    ns: int
    """When."""
    processes: list[Meanwhile]
    """What each of those did that had begun by then."""


@slotted
class Ready:
    """A process was declared warmed up. It is no row of the JSON."""

    process: int
    """The process's index."""
    name: str
    """What the program calls it."""
    ns: int
    """When."""
    stack: list[Location] | None
    """Where in the user's functions it was, innermost first; None where that is not known."""


@slotted
class Violation:
    """A compile that the warm-up should have had."""

    compile: str
    """Its id."""
    cause: str
    """What no call of the warm-up had: one of the trace's `vocabulary.causes`, or `first` where nothing of its function
    was compiled before."""
    argument: str | None
    """The path of what differs first; None where that is no argument's."""
    nearest: str | None
    """The id of the warm-up's compile that differs least; None where there is none of its function."""
    differs: str
    """All that differs, in words."""
    cost_ns: int
    """How long it took, from `ready()` on."""


@slotted
class WarmUpCall:
    """What the warm-up lacks."""

    code: str | None
    """The call, to be put into the warm-up; None where it cannot be made up."""
    imports: list[str]
    """What that takes."""
    why: str
    """Why there is none."""
    covers: list[str]
    """The ids of the compiles that would have been there."""
    delay_ns: int
    """How long these took."""


@slotted
class Readiness:
    """The compiles after a process was declared warmed up, until it was so again."""

    process: int
    """The process's index."""
    name: str
    """What the program calls it."""
    ready_ns: int
    """When."""
    compiles_after: int
    """How many compiles there were."""
    loads_after: int
    """How many programs were loaded from a disk's cache instead."""
    violations: list[Violation]
    """The compiles, and the loads that took as long as one, in the order in which they began."""
    calls: list[WarmUpCall]
    """The fewest calls that cover them all, the costliest first."""
    loads: list[str]
    """The ids of the loads."""
    loads_ns: int
    """How long the loads took, from `ready()` on."""
    builds: list[str]
    """The ids of the builds that it did, or waited for."""
    why: str | None
    """Why more may have compiled than was seen; None where all was."""


@slotted
class Finding:
    """One thing worth a reader's attention; `refs` name the rows it speaks of."""

    id: str
    """f0."""
    process: int
    """The process's index."""
    kind: str
    """One of the trace's `vocabulary.findings`."""
    severity: Severity
    """How bad it is."""
    interval: int | None
    """The index of the interval that it speaks of; None where it speaks of the whole run."""
    step: int | None
    """The ordinal of its step."""
    cost_ns: int
    """What it cost; 0 where that is not known."""
    location: Location | None
    """The user's line to look at."""
    text: str
    """A sentence."""
    evidence: list[str]
    """What shows it."""
    advice: str
    """What to change."""
    refs: list[str]
    """Their ids."""
    remedies: list[Remedy] = field(default_factory=list)
    """The same, the best first, one by one."""


@slotted
class Answer:
    """One of the few things that a change of the user's would mend."""

    finding: str
    """The id of its finding."""
    cost_ns: int
    """A change would save this; where that is not known, this was paid."""
    saves: bool
    """Whether it is what a change would save."""
    text: str
    """What happened, in a sentence."""
    location: Location | None
    """The user's line to look at."""
    also: list[str]
    """The ids of further findings that the same change mends."""


@slotted
class MemoryPeak:
    """Peaks over the run, in bytes; None where not observed."""

    peak_rss_bytes: int | None = None
    """Resident memory."""
    device_peak_bytes: int | None = None
    """Memory of the fullest device."""


@slotted
class CudaGraph:
    """A run of a compiled graph that replayed no CUDA graph: it warmed up for one, or was recorded as one."""

    kind: CudaGraphKind
    """What it was."""
    compile: str | None
    """The id of the compile whose graph it ran; None where that was not seen."""
    part: str
    """Forward or backward."""
    interval: int
    """The index of the interval in which it began."""
    wall_ns: int
    """Its length."""
    sizes: list[int]
    """The sizes that the compiled graph leaves open: each has a CUDA graph of its own."""
    reason: str | None
    """Why an earlier recording could not be replayed, in the framework's words; None where there was none."""


BuildState = Literal["built", "loaded", "waited", "failed"]


@slotted
class Build:
    """Something that was built or compiled as the program ran, and that no framework's compiler had asked for."""

    id: str
    """b0."""
    process: int
    """The process's index."""
    name: str
    """The thing built: "fused_adam"."""
    tool: str
    """What builds it: "ninja", "g++", "nvcc", "triton"."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """How long the program waited for it."""
    state: BuildState
    """Whether it was built now, found as it was built before, waited for while another process built it, or failed."""
    location: Location | None
    """The user's line that asked for it."""
    interval: int
    """The interval in which it began."""


@slotted
class Autotuning:
    """A choice among several implementations of an operation, which are compiled and timed for it."""

    process: int
    """The process's index."""
    compile: str | None
    """The id of the compile that it is a part of."""
    operation: str
    """The operation and its sizes: "mm(64x192, 192x256)"."""
    choices: int
    """How many there were; 0 where that is not known."""
    compile_ns: int
    """How long it took to compile them."""
    timing_ns: int
    """How long it took to time them."""
    winner: str
    """The fastest."""
    gain_ns: int | None
    """How much less a call takes than with the untuned choice; None where that is not among them."""
    pays_after_calls: int | None
    """After how many calls that is more than the tuning took; None where it never is, or the gain is not known, or
    other work held the timing up for too long."""
    cached: bool
    """Whether the times came from an earlier process."""
    location: Location | None
    """The user's line that the compile is of."""
    interval: int
    """The interval in which it was done."""
    held_up_ns: int | None = None
    """How long the thread waited for a processor as it timed the choices; None where that was not seen."""


@slotted
class Transfer:
    """Weights that were read, a checkpoint that was written, or a file that was fetched."""

    process: int
    """The process's index."""
    phase: str
    """load.weights | checkpoint | download"""
    name: str
    """The file, folder or repository, or the deed, as "copies weights into GPT"; "" where it is not known."""
    bytes: int | None
    """Its size; None where it is not known."""
    mapped: bool
    """Whether the call only mapped it: its pages are read later, as they are first used."""
    read_later_bytes: int | None
    """Where it is mapped: the bytes that the process then read from disk, until its first step was over (without
    one, to the end); where weights are copied into a module, those that it read meanwhile; None where that was not
    seen."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """How long the program waited for it."""
    location: Location | None
    """The user's line that asked for it."""
    interval: int
    """The interval in which it began."""


@slotted
class Unplaced:
    """Compiling that is in no compile's row: a compiler's phase outside of all of them, or a compiler that ran below
    the process without one of them having asked for it. It is no row of the JSON."""

    process: int
    """The process's index."""
    what: str
    """The phase, or the name of the program: "g++"."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """Its length."""
    work_ns: int
    """What counts of it: the length of a phase, the processor time of a program."""
    below: int | None = None
    """The pid of the job's other process below which a program ran; None where that was the process itself."""


@slotted
class Child:
    """A process below one of the trace's that nothing traced, or not whole. It is no row of the JSON."""

    process: int
    """The index of the process that it ran below."""
    pid: int
    """The operating system's number."""
    name: str
    """What ran: "python3.11"."""
    command: str
    """Its command line; "" where it is not known."""
    start_ns: int
    """When it began."""
    wall_ns: int
    """How long it lived."""
    cpu_ns: int | None
    """The processor time that it used; None where it ended before it could be seen."""
    imported: str
    """The framework that it had imported: "torch"; "" where it ended before that could be seen."""
    lost: bool = False
    """It is of the job, and could not write its trace, or not all of it."""


@slotted
class Through:
    """The library's function that the user's line calls, where it is not the one that was compiled."""

    function: str
    """Its qualified name: "JAXTrainer.fit"."""
    arguments: list[Input]
    """What it was given: arrays, and of all else the name of the type."""


@slotted
class Unrolled:
    """A Python loop of which a program holds every turn."""

    location: Location
    """The loop's own line."""
    turns: int
    """How many the program holds."""
    operations: int
    """How many of its operations come from the loop."""
    of: int
    """All its operations that were looked at."""
    called: int = 0
    """How many of the loop's come from a function or module that a turn calls."""
    layers: bool = False
    """Whether each turn reads inputs of its own, as layers read their weights."""


@slotted
class Within:
    """The user's function in which an operation ran outside of compiled ones, or of which a line cut a lazy graph."""

    function: str
    """Its qualified name."""
    arguments: list[Input]
    """What it was given: arrays with whose they are, plain values, and of all else the name of the type."""
    location: Location | None
    """Where it is defined."""
    caller: Location | None
    """The user's line that called it; None where it is not known."""
    jittable: Location | None = None
    """The running line of the outermost function, it or one around it, that may be jitted as it is: it was given arrays
    or modules alone, read each time the same objects, and has no branches."""
    made_at: Location | None = None
    """Else the line, in no loop, that makes a module of Flax's or Equinox', or its weights."""
    made: str = ""
    """The name that this line calls for it: of a class, or `init`."""
    by: str = ""
    """What jits either, "jax.jit"."""
    looped_at: Location | None = None
    """Else the running line of the user's outermost loop around it."""


@slotted
class Details:
    """The known facts of a compile beyond its row."""

    identity: str = ""
    """A text that is equal for the compiles of one identity."""
    signature: Signature = field(default_factory=Signature)
    """What it was specialised on."""
    framework_id: str = ""
    """The framework's own id ("0/1") of it, "" where it has none."""
    before: Signature | None = None
    """For a recompile: what an earlier variant was specialised on, where the nearest is no compile of the trace."""
    previous: str | None = None
    """For a recompile: the id of the nearest earlier compile of its identity."""
    guard_failures: list[str] = field(default_factory=list)
    """The framework's own words on why it missed every earlier variant."""
    guarded: dict[str, dict[str, str]] = field(default_factory=dict)
    """The value at the place of each of those words, by the framework's expression for the place."""
    evidence: list[str] = field(default_factory=list)
    """What shows that it was compiled, where no signature does."""
    variables: list[str] = field(default_factory=list)
    """The variables that its first call made."""
    layout: str = ""
    """Of a Keras model's step: what the model is built of, as a hash; "" of anything else."""
    error: str = ""
    """Its message when it failed, "" where it did not."""
    programs: dict[str, str] = field(default_factory=dict)
    """Its programs as text, by form, where the trace kept them."""
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of components of its caches' keys that are a configuration as a whole, by hash: each option's value in words."""
    given_up: str | None = None
    """Why PyTorch will never look at this code again, in its words, "" where it gives none: all its variants are
    lost."""
    dynamic: dict[str, str] | None = None
    """What the graph leaves open, by argument: its dimensions ("0, 2"), "value" for a number."""
    static: bool | None = None
    """Whether `torch.compile` was given dynamic=False; None where that is not known."""
    sources: str = ""
    """What TORCH_COMPILE_DYNAMIC_SOURCES holds already."""
    through: Through | None = None
    """Of a library's function that counts as the user's: by way of what their line reached it; None where directly."""
    within: Within | None = None
    """The function to call for it, where it is none itself."""
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
    constants: dict[str, int] = field(default_factory=dict)
    """The bytes of large arrays that a JAX program holds as constants, by type."""
    unrolled: Unrolled | None = None
    """The Python loop of which it holds every turn."""
    known_by: str = ""
    """Of a function that another makes anew: that one, and by what they differ, "train(lr:text,body:object)"; "" where
    the first one may not take the place of the next."""
    cause_at: Location | None = None
    """The user's line that makes it what it is: of its callback, of the `with` whose mode it was compiled in, of the
    call that gave it its backend, of the compile() that has Keras trace it anew."""
    failure: GraphBreak | None = None
    """The graph break that it failed of, where there may be none."""


class DetailsById(dict[str, Details]):
    """The details of each compile, by its id; one without details is of no other's identity."""

    def __missing__(self, compile_id: str) -> Details:
        known = self[compile_id] = Details(identity=compile_id)
        return known


@slotted
class Failure:
    """The error that ended a process, and the innermost place in the user's files that it came through."""

    error: str
    """Type and message."""
    location: Location | None
    """None where it came through none of the user's files."""
    in_step: bool
    """Whether a step was open."""


@slotted
class Profiled:
    """What a framework's profiler gave: how many slices, how many more were dropped, how far its times can be off."""

    slices: int
    """How many came."""
    dropped: int
    """How many did not."""
    clock_bound_ns: int
    """How far their times can be off."""


@slotted
class Trace:
    """A trace file, loaded. The rows up to `graph_breaks` come from the file; the rest is derived from them."""

    run: Run
    """The program, as a whole."""
    processes: list[Process]
    """One, or those of a job."""
    collectors: list[CollectorRow]
    """What watched, and what it missed."""
    intervals: Sequence[Interval]
    """The time of every process, without a gap; of a long run not a list, so that steady steps take little room."""
    compiles: list[Compile]
    """All that compiled, in the order in which it began."""
    graph_breaks: list[GraphBreak]
    """Where graphs ended in the middle of a function."""
    memory: MemoryPeak
    """The peaks."""
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
    """The recordings inside XLA and on devices, by process and collector."""
    inferences: list[Inference] = field(default_factory=list)
    """What the steps of each process were inferred from, where it marks none and was watched for that."""
    reported: list[Finding] = field(default_factory=list)
    """What collectors of others found themselves; `findings` has them, too."""
    vocabulary: Vocabulary = OURS
    """The words of this trace: ours, and those of collectors of others."""
    code: dict[tuple[str, int], str] = field(default_factory=dict)
    """The source line at (file, line), as it read when the program ran."""
    blocks: dict[tuple[str, int], str] = field(default_factory=dict)
    """The source of some loops and functions of the user's, whole lines, by file and first line."""
    ready: list[Ready] = field(default_factory=list)
    """When each process was declared warmed up."""
    unplaced: list[Unplaced] = field(default_factory=list)
    """The compiling that is in no compile's row."""
    children: list[Child] = field(default_factory=list)
    """The processes below that may have compiled, and were not traced."""
    builds: list[Build] = field(default_factory=list)
    """The builds outside of the frameworks' compilers."""
    autotuning: list[Autotuning] = field(default_factory=list)
    """The choices that were made by timing them."""
    transfers: list[Transfer] = field(default_factory=list)
    """Weights, checkpoints and downloads."""
    ready_after: dict[int, int] = field(default_factory=dict)
    """After how many steps a process (by index) was to be, where that was asked for."""
    cost: list[Cost] = field(default_factory=list)
    """What the first run cost, by kind of step."""
    recompiles: list[Recompile] = field(default_factory=list)
    """What compiled again, and why."""
    settling: list[Settling] = field(default_factory=list)
    """When each kind of step stopped compiling."""
    readiness: list[Readiness] = field(default_factory=list)
    """What compiled after that."""
    job_ready: JobReady | None = None
    """When the job was ready; None of a process by itself, and where nothing shows it."""
    findings: list[Finding] = field(default_factory=list)
    """What deserves attention, the costliest first."""
    answers: list[Answer] = field(default_factory=list)
    """What to change, the dearest first: at most five."""

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

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal; a notebook has the page."""
        printer.text(repr(self) if in_notebook() else str(offered("coldstep.viewers", "terminal")(self)))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(offered("coldstep.viewers", "summary")(self))

    def to_json(self) -> dict[str, Any]:
        """The document that `coldstep report --json` prints."""
        return {"schema": JSON_SCHEMA} | {name: _plain(getattr(self, name)) for name in SECTIONS}


def _plain(value: Any) -> Any:
    """What `dataclasses.asdict` makes of rows, without a deep copy of each number and text."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if hasattr(value, "__slots__"):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
