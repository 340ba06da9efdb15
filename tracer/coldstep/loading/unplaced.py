"""Finds the compiling that is in no compile's row, and the processes below that nothing traced."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from coldstep._util.expressions import expression
from coldstep.events import Args
from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Stretch
from coldstep.model import Child, Location, Unplaced
from coldstep.pftrace import layout
from coldstep.vocabulary import AUTOTUNE, BUILDS, STARTS

# Debian 12: "x86_64-linux-gnu-g++-12"
_COMPILER = expression(
    r"(?:.*-)?(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?|icpx|hipcc|nvcc)(?:-[\d.]+)?|"
    r"cc1(?:plus)?|cicc|ptxas(?:-blackwell)?|ninja|rustc"
)

_POOL = "worker pool"  # hands out what its workers compile, and is at work, too, while it begins and ends
_TICK_NS = 10_000_000  # by which the kernel's word on when a process began may be too early

_NO_COMPILE = {
    *STARTS, *BUILDS, AUTOTUNE, "inductor.cache", "inductor.cudagraphs", "torch_xla.trace", "torch_xla.lower",
}  # fmt: skip
"""Phases that need no compile: a device starts; builds, autotuning and CUDA graphs have rows of their own; Inductor
hashes all of Triton for its caches' keys, whenever it is first asked; torch_xla traces and lowers what it has compiled
before, too."""


def unplaced(rows: Rows, stretches: list[Stretch]) -> list[Unplaced]:
    """All compiling outside of the compiles of a process, in the order of its file."""
    compiles = _Spans((piece.start, piece.end) for piece in rows.slices if _is_of_a_compile(piece))
    return [*_phases(rows, stretches, compiles), *_inside(rows, compiles), *_programs(rows, compiles)]


def _is_of_a_compile(piece: Slice) -> bool:
    """Whether it is a compile, or the first run of what one made: Triton tunes a graph's kernels as they first run."""
    return piece.category == layout.COMPILE or (piece.category == "execute" and piece.args.get("of") is not None)


def children(rows: Rows) -> list[Child]:
    """The processes below one that may have compiled, as its collector saw them."""
    return [
        Child(
            process=rows.process,
            pid=int(piece.args.get("pid", 0)),
            name=piece.name,
            command=str(piece.args.get("command") or ""),
            start_ns=piece.start - rows.start,
            wall_ns=piece.end - piece.start,
            cpu_ns=piece.args.get("cpu_ns"),
            imported=str(piece.args["untraced"]),
            lost=bool(piece.args.get("lost")),
        )
        for piece in rows.work
        if "untraced" in piece.args
    ]


def started(rows: Rows) -> Iterator[tuple[Args, Location | None]]:
    """All processes that one saw start and end: the arguments of each, and the line that started it."""
    locations = Locations(rows.run.root, rows.run.cells)
    for piece in rows.work:
        yield piece.args, locations.read(piece.args.get("started_by"))


class _Spans:
    """The time in which at least one of them was open. Of compiles, whichever their thread: what compilers do elsewhere
    meanwhile is their work."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(start)
                self._ends.append(end)

    def outside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of a stretch of time in which no compile was open."""
        at = max(0, bisect_right(self._begins, start) - 1)
        for begin, until in zip(self._begins[at:], self._ends[at:], strict=True):
            if begin >= end:
                break
            if begin > start:
                yield start, begin
            start = max(start, until)
        if start < end:
            yield start, end

    def covers(self, ns: int) -> bool:
        """Whether one was open at that time."""
        return not any(self.outside(ns, ns + 1))


def _phases(rows: Rows, stretches: list[Stretch], compiles: _Spans) -> Iterator[Unplaced]:
    for stretch in stretches:
        if rows.vocabulary.is_compiling(stretch.phase) and stretch.phase not in _NO_COMPILE:
            for start, end in compiles.outside(stretch.start, stretch.end):
                yield Unplaced(rows.process, stretch.phase, start - rows.start, end - start, end - start)


def _inside(rows: Rows, compiles: _Spans) -> Iterator[Unplaced]:
    """What a profiler saw of XLA's compiler."""
    for start, what, ns in rows.inside:
        if what.startswith("xla.") and not compiles.covers(start):
            yield Unplaced(rows.process, "xla.compile", start - rows.start, ns, ns)


def _programs(rows: Rows, compiles: _Spans) -> Iterator[Unplaced]:
    """The compilers below. Those that a framework's own compile had begun have a phase, and may outlast it; what begins
    beside them is theirs, as what begins within a build or an autotuning is that one's."""
    builds = [piece for piece in rows.slices if piece.category in (*BUILDS, AUTOTUNE)]
    started = {piece.args.get("pid") for piece in builds}
    compiled = ((piece.start, piece.end) for piece in rows.work if piece.category and compiles.covers(piece.start))
    built = [*builds, *(piece for piece in rows.work if piece.args.get("pid") in started)]
    asked = _Spans([*compiled, *((piece.start, piece.end) for piece in built)])
    for piece in rows.work:
        is_compiler = (piece.category and piece.name != _POOL) or _COMPILER.fullmatch(piece.name)
        is_asked = compiles.covers(piece.start) or asked.covers(piece.start) or asked.covers(piece.start + _TICK_NS)
        if is_compiler and not is_asked:
            cpu = int(piece.args.get("cpu_ns") or 0)
            start, below = piece.start - rows.start, piece.args.get("below")
            yield Unplaced(rows.process, piece.name, start, piece.end - piece.start, cpu, below)
