"""Where things stand in the trace: the names of tracks, and of events on them; `vocabulary.track_order` orders them.

Perfetto's UI shows a process row collapsed and its children out of order, so everything hangs below one
ordinary root track per rank, whose children have explicit ranks.
"""

from __future__ import annotations

import re
from collections.abc import Container

from coldstep._util.expressions import expression
from coldstep.named_tuple import NamedTuple
from coldstep.vocabulary import OURS

FILE_SCHEMA = "coldstep/1"
"""The version of a trace's layout (docs/reference/format.md): it goes up when a reader of the last one would misread
it. The schema of `report --json` is another thing."""
# coldstep: "coldstep/1"
_SCHEMA = expression(r"coldstep/([0-9]{1,9})")
_READ = range(1, 2)  # the layouts that are read here

TRACE = "trace"  # on the coldstep track: the slice of the whole trace, whose arguments say what was run
STEP_BEGAN, STEP_ENDED, HEARTBEAT = "step began", "step ended", "heartbeat"  # instants there
NOTE, COLLECTOR = "note", "collector"
LINES = "lines"  # which of the user's lines were seen until the first step had ended
ENDED = "ended"  # in a copy: what only the file that was copied could tell of the end of its process
MERGED = "merged"  # a track, the first of a file that several were merged into, on which nothing is drawn
NOT_TRACED = "other Python process"  # what the note says of children, which no collector watches
FROM_LOG = "Made by coldstep log"  # what the note of each process says then: nobody watched the program
CANDIDATE = "candidate"  # an instant there: calls of what may be a step, where the program marks none
READY = "ready"  # category of an instant on the steps' track: from here on nothing may compile
RESPONSE = "first response"  # a slice beside the phases of outside: a server of the process has begun to answer
GRAPH_BREAK = "graph break"  # an instant on the PyTorch track
FINDING = "finding"  # category of an instant on the findings' track: what coldstep found in the trace
REPORTED = "reported"  # category of an instant: what a collector of others found itself

CLOCK = "device trace"  # an instant there: whose, how much of it, and how far its times can be off; a slice: its making
PROFILED = ("xla", "device")  # kinds of tracks whose slices come from a profiler: no phases, whatever their category

INFERRED = "inferred step"  # category of a slice on the steps' track: drawn as the trace ended, found anew by readers
STEP, COMPILE = "step", "compile"  # categories of slices; a phase's slices have the phase's name as category

_MOST_NAME = 1 << 12  # characters of a step's name

RSS = "RSS"  # curves: resident memory; device memory in use, its peak; and what is left "under …", per limit
READ = "read from disk"  # likewise: what the process has had read, pages of mapped files included
DEVICE, DEVICE_PEAK, AVAILABLE = "device memory ", "peak device memory ", "memory left "

COLLECTIVE = "device.collective."  # what starts the name of a collective's time in an interval's `inside`
# PyTorch 2.13: "gloo:all_reduce"
# NCCL: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
# XLA: "all-reduce-start.1"
_COLLECTIVE = expression(
    r"(?:gloo|ucc|mpi):_?(\w+)|"
    r"nccl\w*?Kernel_(?:Generic|([A-Za-z]+)).*|"  # what runs on a GPU; PyTorch's "nccl:…" only spans its launch
    r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast)"
    r"(?:-start|-done)?(?:\.\d+)?",
    re.DOTALL,
)
# XLA: "all-reduce"
# NCCL: "AllReduce"
_BETWEEN_WORDS = expression(r"-|(?<=[a-z])(?=[A-Z])")  # all-reduce, AllReduce
# coldstep: "Pipeline (rank 0)"
# coldstep: "Pipeline (process 1)"
_ROOT = expression(r"Pipeline \((?:rank|process|[\w.]+, process) \d+\)")
# coldstep: "jax of thread 31, MainThread"
_ABOUT = expression(r"(\w+) of thread (\d+), (.*)", re.DOTALL)


class Track(NamedTuple):
    """What a track shows: the kind (a key of a vocabulary's `tracks`) of events of one thread."""

    kind: str
    tid: int
    thread: str

    def about(self) -> str:
        """The track's description, in which `parse` finds it again."""
        return f"{self.kind} of thread {self.tid}, {self.thread}"


def parse(about: str, kinds: Container[str] = OURS.tracks) -> Track | None:
    """The track that a description speaks of; None when it is of none of these kinds."""
    match = _ABOUT.fullmatch(about)
    return Track(match[1], int(match[2]), match[3]) if match and match[1] in kinds else None


def inside(category: str, name: str) -> str | None:
    """What a profiler's slice counts as in an interval's `inside`; None for what only is drawn."""
    if category == "xla.pass":
        return f"{category}.{name}"
    if category.startswith("xla."):
        return category
    if category in ("kernel", "annotation") and (match := _COLLECTIVE.fullmatch(name)):
        which = match[match.lastindex] if match.lastindex else "nccl"
        return f"{COLLECTIVE}{_BETWEEN_WORDS.sub('_', which).lower()}"
    return f"device.{category}" if category in ("kernel", "copy") else None


def unreadable(schema: str) -> str | None:
    """Why a trace with this schema is not read here, and what to do about it; None where it is."""
    match = _SCHEMA.fullmatch(schema)
    if match is None:
        return f"has schema {schema[:40]!r}, which coldstep does not know: trace again"
    number = int(match[1])
    if number < _READ.start:
        reads = f"this one reads coldstep/{_READ.start} and later"
        return f"was made by an older coldstep ({schema}; {reads}): read it with that one, or trace again"
    if number >= _READ.stop:
        return f"was made by a newer coldstep ({schema}; this one reads up to {FILE_SCHEMA}): update coldstep"
    return None


def root_name(rank: int | None) -> str:
    """The root track of a process."""
    return f"Pipeline (rank {rank or 0})"


def is_root(name: str) -> bool:
    """Whether a track of this name is the root track of a process."""
    return _ROOT.fullmatch(name) is not None


def cut(name: str) -> str:
    """A step's name, of which so much is written: a reader cuts texts that are endless, and a step's number with it."""
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"


def cut_title(title: str) -> str:
    """What `step_name` made, of a name that was cut."""
    try:
        name, n, word = title.rsplit(" ", 2)
    except ValueError:  # of somebody else's
        return cut(title)
    return f"{cut(name)} {n} {word}"


def step_name(name: str, n: int, word: str) -> str:
    """A step's slice; `word` is first, compiled, clean or unknown, and gives the slice its colour."""
    return f"{name} {n} {word}"


def parse_step(title: str) -> tuple[str, int]:
    """The name and ordinal in what `step_name` made. Raises ValueError for anything else."""
    name, n, _ = title.rsplit(" ", 2)
    return name, int(n)
