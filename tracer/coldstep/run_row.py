"""A trace's row for its process: the arguments of the slice `trace`, some at its begin, the rest at its end.

A log has no process to ask: values that it lacks stay None, and are not written.
"""

from __future__ import annotations

from coldstep._util.arguments import number, text
from coldstep._util.labels import labels_in
from coldstep._util.slotted import field, slotted
from coldstep.events import Args
from coldstep.pftrace.layout import FILE_SCHEMA

_AT_BEGIN = ("schema", "command", "root", "started", "pid", "host", "boot", "born", "rank", "tid", "before_trace_ns",
             "own_before_trace_ns", "versions", "clock_uncertainty_ns", "collectors", "vocabulary", "labels",
             "ready_after", "job", "file", "process_name", "how")  # fmt: skip
_AT_END = (
    "ended",
    "error",
    "error_location",
    "error_in_step",
    "rank",
    "dropped",
    "versions",
    "cells",
    "peak_rss_bytes",
)


@slotted
class Dropped:
    """Events lost: `ledger` only after a write error, `bulk` by its bound."""

    ledger: int = 0
    """Steps, compiles, phases and notes."""
    bulk: int = 0
    """Everything else: single dispatches, samples, device slices."""


@slotted
class RunRow:
    """A process and its run; a killed run cannot record how it ended."""

    root: str
    """The folder that files are shown relative to: the top of the repository."""
    tid: int
    """The thread that entered the trace."""
    schema: str = FILE_SCHEMA
    """The file's."""
    command: list[str] = field(default_factory=list)
    """The command line; secrets in it are hidden."""
    started: str = ""
    """When, as ISO 8601 with the zone."""
    pid: int = 0
    """The operating system's number."""
    host: str = ""
    """The machine's name."""
    boot: str | None = None
    """The same for all processes that share a monotonic clock: the machine's start."""
    born: int | None = None
    """When the process was started, in the system's ticks: a later one of its number is another."""
    rank: int | None = None
    """Its number in its job; a job may begin inside the trace."""
    before_trace_ns: int = 0
    """How long the process had lived when its trace began."""
    own_before_trace_ns: int | None = None
    """How much of that coldstep took itself."""
    cells: dict[str, str] = field(default_factory=dict)
    """What a notebook calls its cells ("In[8]"), by the files that their code is of."""
    versions: dict[str, str] = field(default_factory=dict)
    """By package. At the begin Python's; at the end those of the frameworks, too."""
    clock_uncertainty_ns: int | None = None
    """How far the readings of the clocks may be apart."""
    collectors: list[str] = field(default_factory=list)
    """Those that were to watch, in order."""
    vocabulary: Args = field(default_factory=dict)
    """The words of collectors of others, by collector, as `coldstep.vocabulary.of_trace` reads them."""
    ended: str | None = None
    """ok | exception | interrupted | exit | out_of_memory | killed (of a cut log); None as long as it has not ended,
    and where it could no longer record that."""
    error: str | None = None
    """What ended it, in its own words."""
    error_location: Args | None = None
    """Where in the user's files: {"file": absolute path, "line": int, "function": str}."""
    error_in_step: bool | None = None
    """Whether a step was open."""
    dropped: Dropped | None = None
    """How many events had no room."""
    peak_rss_bytes: int | None = None
    """The most resident memory."""
    labels: dict[str, str] = field(default_factory=dict)
    """Its labels: words of the user's, and those from its environment."""
    ready_after: int | None = None
    """After how many steps nothing may compile any more; None where only the program decides that."""
    job: str | None = None
    """The job that the process is of; None of a trace by itself."""
    file: str | None = None
    """The name of that job's FILE."""
    process_name: str | None = None
    """What the program calls the process."""
    how: str | None = None
    """How it was started: root | spawn | fork | forkserver | subprocess."""
    ancestors: list[list[int]] = field(default_factory=list)
    """The processes above it, nearest first: pid, and when each was started."""

    def at_begin(self) -> Args:
        """The arguments written as the trace begins."""
        return {name: getattr(self, name) for name in _AT_BEGIN} | {"ancestors": self.ancestors or None}

    def at_end(self) -> Args:
        """The arguments written as it ends; to a reader they override those of the begin."""
        dropped = {"ledger": self.dropped.ledger, "bulk": self.dropped.bulk} if self.dropped is not None else None
        return {name: getattr(self, name) for name in _AT_END} | {"dropped": dropped}


def run_row(args: Args) -> RunRow:
    """A trace's row for its process, from both ends of its slice. Raises ValueError or TypeError for nonsense."""
    dropped = args.get("dropped")
    return RunRow(
        root=str(args.get("root", "")),
        tid=int(args.get("tid", 0)),
        schema=str(args.get("schema", "")),
        command=[str(word) for word in args.get("command") or ()],
        started=str(args.get("started", "")),
        pid=int(args.get("pid", 0)),
        host=str(args.get("host", "")),
        boot=text(args.get("boot")),
        born=number(args.get("born")),
        rank=number(args.get("rank")),
        before_trace_ns=int(args.get("before_trace_ns", 0)),
        own_before_trace_ns=number(args.get("own_before_trace_ns")),
        cells={str(file): str(cell) for file, cell in (args.get("cells") or {}).items()},
        versions={str(name): str(version) for name, version in (args.get("versions") or {}).items()},
        clock_uncertainty_ns=number(args.get("clock_uncertainty_ns")),
        collectors=[str(name) for name in args.get("collectors") or ()],
        vocabulary=args.get("vocabulary") or {},
        ready_after=number(args.get("ready_after")),
        ended=text(args.get("ended")),
        error=text(args.get("error")),
        error_location=place if isinstance(place := args.get("error_location"), dict) else None,
        error_in_step=bool(args["error_in_step"]) if "error_in_step" in args else None,
        dropped=Dropped(int(dropped.get("ledger", 0)), int(dropped.get("bulk", 0))) if dropped else None,
        peak_rss_bytes=number(args.get("peak_rss_bytes")),
        labels=labels_in(args.get("labels")),
        job=text(args.get("job")),
        file=text(args.get("file")),
        process_name=text(args.get("process_name")),
        how=text(args.get("how")),
        ancestors=[[int(number) for number in row] for row in args.get("ancestors") or ()],
    )
