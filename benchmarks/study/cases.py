"""What a study is made of: curves of programs over values of n, and the record that each program's run leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Curve:
    """One way to write a program in one stack, for several n."""

    sweep: str
    stack: str
    way: str
    values: tuple[int, ...]

    @property
    def title(self) -> str:
        """The curve in a line of progress."""
        return f"{self.sweep}: {self.way} in {self.stack}"

    def trace(self, folder: Path, value: int, more: str = "") -> Path:
        """Where the run of one value leaves its trace; `more` names a further run of it."""
        return folder / self.sweep / f"{self.stack}-{self.way}-{value}{more}.pftrace"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A question, and the programs that answer it."""

    question: str
    remedies: tuple[tuple[str, str], ...]
    """A way as people write it, and what to write instead."""
    ways: Mapping[str, Mapping[str, tuple[int, ...]]]
    """By stack and way, the values of n."""
    is_repeated: bool = True
    """Whether what turns runs again, and the last in a warm process: not where a run is long."""


@dataclass(frozen=True, slots=True)
class Study:
    """Sweeps by name; each is a module below `package`."""

    package: str
    sweeps: Mapping[str, Sweep]
    launcher: Callable[[str, int], tuple[str, ...]] = lambda _stack, _n: ()
    """By stack and n, the command that starts the program's processes; none where it is one of this Python."""

    def curves(self, names: list[str], *, quick: bool) -> Iterator[Curve]:
        """The curves of these sweeps; the quick ones are the first way in JAX and aot_eager, at its least values."""
        for name in names:
            for stack, ways in self.sweeps[name].ways.items():
                if not quick or stack in ("jax", "aot_eager"):
                    for way, values in islice(ways.items(), 1 if quick else None):
                        yield Curve(name, stack, way, values[:2] if quick else values)


@dataclass(slots=True)
class Record:
    """What became of a run, beside what its trace holds."""

    ended: str = "ok"
    """ok, out_of_memory, too_long, failed."""
    why: str = ""
    """What ended it, where it did not end by itself."""
    eager_ns: int | None = None
    """The same program without a compiler, once per operation: the median of a few calls."""
    cpu_ns: int | None = None
    """Processor time of a step of the later half, their median."""
    counted: dict[str, int] = field(default_factory=dict)
    """By rank, how often its framework itself counted a compile."""
    measured: dict[str, Any] = field(default_factory=dict)
    """What else the program had to show."""
    load: list[float] = field(default_factory=list)
    """The machine's load as it began, over 1, 5 and 15 minutes."""


def write(record: Record, trace: Path) -> None:
    """The record, beside its trace."""
    trace.with_suffix(".json").write_text(json.dumps(asdict(record)) + "\n")


def read(trace: Path) -> Record | None:
    """What was written beside a trace; None where nothing was."""
    path = trace.with_suffix(".json")
    return Record(**json.loads(path.read_text())) if path.exists() else None
