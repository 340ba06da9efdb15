"""Fleets that never were: traces of real runs, each rewritten into as many as asked for, with planted differences.

Only names, versions, clocks and delays are planted by rewriting; recompiles, programs, caches and flags are real runs'.
None takes as long as another: those alike are of several runs, and imports, tracing and steps of each a little longer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb

import coldstep
from coldstep.clock import Snapshot
from coldstep.converting.rewrite import _encoded, _Output, _survey
from coldstep.events import Args
from coldstep.pftrace import layout, proto
from coldstep.pftrace.proto import TracePacket, TrackDescriptor, data
from coldstep.pftrace.proto import number as number_of
from coldstep.pftrace.reader import EventRow, TrackRow, decoded
from coldstep_viewers.export.tables import SCHEMAS
from coldstep_viewers.fleet.report import Report
from coldstep_viewers.fleet.store import Store, live, superseded

_LOOP = """
import sys
import coldstep

rows, last, *ends = sys.argv[1:]
w = ones(16, 16)
for n in range(5):
    with coldstep.step("train"):
        w = coldstep.wait(train_step(w, ones(int(rows) if n < 3 else int(last), 16)))
if ends:
    raise ValueError("no batch left")
"""
STEP = "train"
_BLOCK = 100
_ALIKE = 3
_SHOWN = 200  # characters of a row
STARTED = datetime(2026, 11, 20, 8, tzinfo=UTC)


@dataclass(frozen=True)
class Framework:
    """A program of one, and what is special about it."""

    program: str
    traces: str
    """The phase in which it traces."""
    caches: dict[str, str] = field(default_factory=dict)
    """What has its programs kept on disk, in a folder."""
    flag: dict[str, str] = field(default_factory=dict)
    """What has it compile otherwise."""
    flag_is: str = ""
    """What that is called."""


FRAMEWORKS = {
    "jax": Framework(
        """
import jax, numpy as np

@jax.jit
def train_step(w, x):
    for _ in range(12):
        w = w - 0.01 * jax.numpy.tanh(x).T @ jax.numpy.tanh(x @ w)
    return w

def ones(*shape):
    return np.ones(shape, np.float32)
""",
        "jax.trace",
        {
            "JAX_COMPILATION_CACHE_DIR": "{}",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        },
        {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"},
        "fast_math",
    ),
    "torch": Framework(
        """
import torch
from torch import ones

@torch.compile
def train_step(w, x):
    for _ in range(12):
        w = w - 0.01 * torch.tanh(x).T @ torch.tanh(x @ w)
    return w
""",
        "dynamo.trace",
        {"TORCHINDUCTOR_CACHE_DIR": "{}"},
        {"TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1"},
        "coordinate_descent_tuning",
    ),
    "tensorflow": Framework(  # whose programs no cache keeps
        """
import tensorflow as tf

@tf.function
def train_step(w, x):
    for _ in range(48):  # so many that a quick machine, too, traces for longer than is called a delay
        w = w - 0.01 * tf.matmul(tf.tanh(x), tf.tanh(x @ w), transpose_a=True)
    return w

def ones(*shape):
    return tf.ones(shape)
""",
        "tensorflow.trace",
    ),
}


@dataclass(frozen=True)
class Bases:
    """Real runs of one program, by what is special about each; but for `cold` and `alone` they load what `cold` stored.

    Of those about which nothing is special there are several.
    """

    framework: str
    special: dict[str, Path]
    alike: list[Path]
    first_ns: int
    """The longest time to the first step of any of them."""
    again_ns: int
    """How long the step takes that compiles again."""


def bases(folder: Path, framework: str = "jax", python: str = sys.executable) -> Bases:
    """Run them."""
    made = FRAMEWORKS[framework]
    (folder / "train.py").write_text(made.program + _LOOP)
    shared = {name: value.format(folder / "cache") for name, value in made.caches.items()}
    alone = {name: value.format(folder / "own") for name, value in made.caches.items()}
    runs: dict[str, tuple[list[str], dict[str, str]]] = {
        "cold": (["8", "8"], shared),
        **{f"warm{n}": (["8", "8"], shared) for n in range(_ALIKE)},
        "recompiles": (["8", "5"], shared),
        "other_shape": (["6", "6"], shared),
        "failing": (["8", "8", "fail"], shared),
        **({"other_flag": (["8", "8"], shared | made.flag), "alone": (["8", "8"], alone)} if made.caches else {}),
    }
    usual = {name: value for name, value in os.environ.items() if name not in made.flag.keys() | made.caches.keys()}
    paths = {name: folder / f"{name}.pftrace" for name in runs}
    for name, (words, environment) in runs.items():
        command = [python, "-m", "coldstep", "run", "--device", "off", "-o", paths[name], "train.py", *words]
        done = subprocess.run(command, cwd=folder, env=usual | environment, capture_output=True, text=True)
        assert done.returncode == (name == "failing"), done.stderr
    loaded = [coldstep.load(path) for path in paths.values()]
    first = max(trace.cost[0].time_to_first_step_ns or 0 for trace in loaded)
    [again] = [row.wall_ns for row in coldstep.load(paths["recompiles"]).intervals if row.step == 3]
    return Bases(framework, paths, [paths[f"warm{n}"] for n in range(_ALIKE)], first, again)


@dataclass(frozen=True)
class Delay:
    """Time that passes inside the first slice of a phase, or in a step."""

    ns: int
    phase: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Member:
    """A trace of a fleet."""

    base: Path
    host: str
    started: datetime
    rank: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    delays: tuple[Delay, ...] = ()


def write(member: Member, out: Path, seed: int) -> None:
    """The trace of a member: its base with other names, at another time, with delays."""
    first, found = _read(member.base)
    mask = Random(seed).getrandbits(62)
    delays = sorted((_at(found, delay), delay.ns) for delay in member.delays)

    def late(ns: int) -> int:
        return ns + sum(more for at, more in delays if ns > at)

    real = int(member.started.timestamp() * 1e9) + seed
    clock = Snapshot(first.monotonic_ns, first.boottime_ns, real, 0)
    with _Output(str(out), clock) as output:
        for at, (packet, row) in enumerate(found):
            if isinstance(row, TrackRow):
                output.write(_track(packet, mask))
                continue
            args = _args(row, member)
            ns, track = late(row.ns), row.track ^ mask
            if row.kind == proto.COUNTER:
                output.writer.counter(ns, track, row.args["value"])
            elif row.kind == proto.SLICE_BEGIN:
                titled = {"title": row.name} if row.category in (layout.STEP, layout.INFERRED) else {}
                name = "" if titled else row.name
                output.writer.begin(ns, track, name, row.category, args, row.flows, **titled)
            elif row.kind == proto.SLICE_END:
                output.writer.end(ns, track, args, row.flows)
            else:
                output.writer.instant(ns, track, row.name, row.category, args)
            if at % _BLOCK == 0:  # as a session writes: what is cut has blocks before the cut
                output.flush()
        output.flush()


@cache
def _read(base: Path) -> tuple[Snapshot, list[tuple[bytes, TrackRow | EventRow]]]:
    """Its first clocks and its rows: once, for all that are made of it."""
    return _survey(str(base)).clocks[0], [(packet, row) for packet, row in decoded(base) if row is not None]


def _at(found: Sequence[tuple[bytes, TrackRow | EventRow]], delay: Delay) -> int:
    for _, row in found:
        if isinstance(row, EventRow) and row.kind == proto.SLICE_BEGIN:
            if delay.phase and row.category == delay.phase:
                return row.ns
            if row.category == layout.STEP and layout.parse_step(row.name) == (STEP, delay.step):
                return row.ns
    raise LookupError(delay)


def _track(packet: bytes, mask: int) -> bytes:
    fields = dict(proto.fields(packet))
    descriptor = fields[TracePacket.track_descriptor]
    assert isinstance(descriptor, bytes)
    ids = (TrackDescriptor.uuid, TrackDescriptor.parent_uuid)
    parts = [
        number_of(key, value ^ mask) if key in ids and isinstance(value, int) else _encoded(key, value)
        for key, value in proto.fields(descriptor)
    ]
    return number_of(TracePacket.trusted_packet_sequence_id, 1) + data(TracePacket.track_descriptor, b"".join(parts))


def _args(row: EventRow, member: Member) -> Args:
    args = dict(row.args)
    if row.category == layout.TRACE and row.kind == proto.SLICE_BEGIN:
        args |= {"host": member.host, "labels": member.labels, "started": member.started.isoformat()}
        args |= {"boot": member.host}
    if member.rank is not None and (row.category == layout.TRACE or "ended" in args):
        args |= {"rank": member.rank}
    if member.versions and "versions" in args:
        args |= {"versions": args["versions"] | member.versions}
    return args


# --- fleets -------------------------------------------------------------------------------------------------------


def plain(of: Bases, number: int) -> list[Member]:
    """Pods of one service, the ranks of one job and a commit a day: the same everywhere, and all loaded."""
    pods = ranks = number * 2 // 5
    usual = [(of.alike[n % len(of.alike)], _noise(of, n)) for n in range(number)]
    return [
        Member(path, f"pod-{n}", STARTED + timedelta(seconds=n), labels={"commit": "c0ffee0", "team": "a"}, delays=late)
        for n, (path, late) in enumerate(usual[:pods])
    ] + [
        Member(path, f"node-{n // 8}", STARTED + timedelta(milliseconds=n), n, {"job": "4711"}, delays=late)
        for n, (path, late) in enumerate(usual[pods : pods + ranks])
    ] + [
        Member(path, f"ci-{n % 3}", STARTED + timedelta(hours=n), labels=_of_ci(n, number), delays=late)
        for n, (path, late) in enumerate(usual[pods + ranks :])
    ]  # fmt: skip


def _noise(of: Bases, seed: int) -> tuple[Delay, ...]:
    """What chance adds."""
    random = Random(seed)

    def some(ns: float) -> int:
        return max(0, round(random.gauss(ns, ns / 4)))

    return (
        Delay(some(of.first_ns / 5), f"import.{of.framework}"),
        Delay(some(of.first_ns / 50), FRAMEWORKS[of.framework].traces),
        *(Delay(some(of.again_ns / 20), step=n) for n in range(5)),
    )


def _of_ci(n: int, number: int) -> dict[str, str]:
    """The labels of the n-th run of CI; there are four commits."""
    commit = min(3, 4 * n // (number - 2 * (number * 2 // 5)))
    return {"job": f"ci-{n}", "commit": f"{commit:x}" * 10}


def planted(of: Bases, number: int) -> tuple[list[Member], dict[str, tuple[str, ...]]]:
    """The same with a difference of each kind, and what must be named of it: by kind, words of its text, who first."""
    members = plain(of, number)
    pods = number * 2 // 5
    made = FRAMEWORKS[of.framework]

    def change(at: int, base: str = "", delay: Delay | None = None, **changed: object) -> None:
        before = members[at]
        delays = before.delays if delay is None else (*before.delays, delay)
        members[at] = replace(before, base=of.special.get(base, before.base), delays=delays, **changed)  # type: ignore[arg-type]

    truth: dict[str, tuple[str, ...]] = {
        "other_version": ("pod-7", "0.9.9"),
        "slow_host": ("pod-9", f"import.{of.framework}"),
        "ended": ("pod-11", "no batch left"),
        "recompiles_alone": ("rank 2 of job 4711", "shape"),
        "other_program": ("rank 4 of job 4711", "f32[6,16]"),
        "straggler": ("rank 2 of job 4711", "step 3"),
        "slower_since": ("2222222222", f"import.{of.framework}"),
    }
    if made.caches:
        truth |= {
            "other_setting": ("pod-3", made.flag_is),
            "cache_not_used": ("pod-5",),
            "duplicated_work": ("train_step",),
        }
        change(3, "other_flag")
        change(5, "alone")
    change(7, versions={of.framework: "0.9.9"})
    change(9, delay=Delay(3 * of.first_ns, f"import.{of.framework}"))
    change(11, "failing")
    # while rank 2 compiles in step 3, the others wait for it
    for n in range(pods):
        change(pods + n, {2: "recompiles", 4: "other_shape"}.get(n, ""), Delay(of.again_ns, step=3) if n != 2 else None)
    # from the third commit on, every run compiles what it had loaded, and takes longer to import
    for at in range(2 * pods, number):
        if members[at].labels["commit"][0] in "23":
            change(at, "cold", Delay(2 * of.first_ns, f"import.{of.framework}"))
    return members, truth


def written(members: Iterable[Member], folder: Path, seed: int = 0) -> Path:
    """A folder of their traces."""
    folder.mkdir(parents=True)
    for n, member in enumerate(members):
        write(member, folder / f"{n}.pftrace", seed + n)
    return folder


# --- their tables -------------------------------------------------------------------------------------------------


def rows(out: object) -> dict[str, list[str]]:
    """All rows that readers of tables see, whatever batch they are in."""
    at = Store(str(out))
    markers = live(at.markers())
    lost = superseded(markers)
    return {
        name: sorted(
            text(row)
            for row in at.dataset(name, markers).to_table().to_pylist()
            if (row.pop("batch"), row["run"]) not in lost
        )
        for name in SCHEMAS
    }


def text(row: dict[str, Any]) -> str:
    """A row, whatever the order of its columns, and whichever others are null."""
    return repr(sorted((name, value) for name, value in row.items() if value is not None))


def differing(found: dict[str, list[str]], expected: dict[str, list[str]]) -> list[str]:
    """Of each table whose rows are others: how many it has too many and lacks, and the first of each."""
    told = []
    for name in expected:
        more, fewer = Counter(found[name]), Counter(expected[name])
        both = more & fewer
        parts = [
            f"{rows.total():,} {what}, such as {min(rows)[:_SHOWN]}"
            for what, rows in (("too many", more - both), ("missing", fewer - both))
            if rows
        ]
        told += [f"{name}: {', '.join(parts)}"] if parts else []
    return told


def named(found: Report, truth: dict[str, tuple[str, ...]]) -> set[str]:
    """The planted kinds of which a finding has all the words."""
    return {
        kind
        for kind, words in truth.items()
        if any(each.kind == kind and all(word in each.text for word in words) for each in found.findings)
    }


def strangers(found: Report, truth: dict[str, tuple[str, ...]]) -> list[str]:
    """Whoever a finding names of whom nothing was planted."""
    planted_in = {who for who, *_ in truth.values()}
    return sorted({who for each in found.findings for who in each.who} - planted_in)


# --- the documented questions -------------------------------------------------------------------------------------


def documented() -> tuple[list[str], list[tuple[str, str]]]:
    """Of the page on tables: the program that lists the files that count, that which has Spark read them, and the
    questions with their titles."""
    fleets = (Path(__file__).parents[2] / "docs/reference/tables.md").read_text().partition("## Fleets")[2]
    programs = re.findall(r"```python\n(.*?)```", fleets, re.DOTALL)
    return programs, re.findall(r"```sql\n-- (.*?)\n(.*?)```", fleets, re.DOTALL)


def in_duckdb(names: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """As that page says, where `tables` lies in this folder: with views of its tables."""
    namespace: dict[str, Any] = {}
    exec(documented()[0][0], namespace)
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for name in names:
        connection.read_parquet(namespace["of"](name), union_by_name=True).create_view(name)
    return connection


def in_spark() -> Any:
    """The same: a session."""
    namespace: dict[str, Any] = {}
    for program in documented()[0]:
        exec(program, namespace)
    return namespace["spark"]
