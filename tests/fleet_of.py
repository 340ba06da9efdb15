"""Fleets that never were: traces of real runs, each rewritten into as many as asked for, with planted differences.

Only names, versions, clocks and delays are planted by rewriting; recompiles, programs, caches and flags are real runs'.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from coldstep.clock import Snapshot
from coldstep.events import Args
from coldstep.pftrace import layout, proto
from coldstep.pftrace.proto import TracePacket, TrackDescriptor, data
from coldstep.pftrace.proto import number as number_of
from coldstep.pftrace.reader import EventRow, TrackRow, decoded
from coldstep.rewrite import _encoded, _Output, _survey
from coldstep_viewers.fleet.report import Report
from coldstep_viewers.fleet.store import Store, live, superseded
from coldstep_viewers.tables import SCHEMAS

PROGRAM = """
import sys
import jax, numpy as np
import coldstep

rows, last, ends = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]

@jax.jit
def train_step(w, x):
    for _ in range(12):
        w = w - 0.01 * jax.numpy.tanh(x).T @ jax.numpy.tanh(x @ w)
    return w

w = np.ones((16, 16), np.float32)
for n in range(5):
    with coldstep.step("train"):
        w = coldstep.wait(train_step(w, np.ones((rows if n < 3 else last, 16), np.float32)))
if ends:
    raise ValueError("no batch left")
"""
STEP = "train"
_BLOCK = 100
STARTED = datetime(2026, 11, 20, 8, tzinfo=UTC)


def bases(folder: Path) -> dict[str, Path]:
    """Real runs of one program, by what is special about each; all but `cold` and `alone` load what `cold` compiled."""
    (folder / "train.py").write_text(PROGRAM)
    shared = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    runs: tuple[tuple[str, list[str], dict[str, str]], ...] = (
        ("cold", ["8", "8"], shared),
        ("warm", ["8", "8"], shared),
        ("recompiles", ["8", "5"], shared),
        ("other_shape", ["6", "6"], shared),
        ("other_flag", ["8", "8"], shared | {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}),
        ("alone", ["8", "8"], {}),
        ("failing", ["8", "8", "fail"], shared),
    )
    made = {}
    for name, words, environment in runs:
        made[name] = folder / f"{name}.pftrace"
        env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | environment
        command = [
            sys.executable,
            "-m",
            "coldstep",
            "run",
            "--device",
            "off",
            "-o",
            str(made[name]),
            "train.py",
            *words,
        ]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == (name == "failing"), done.stderr
    return made


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
    survey = _survey(str(member.base))
    mask = Random(seed).getrandbits(62)
    found = [(packet, row) for packet, row in decoded(member.base) if row is not None]
    delays = sorted((_at(found, delay), delay.ns) for delay in member.delays)

    def late(ns: int) -> int:
        return ns + sum(more for at, more in delays if ns > at)

    first = survey.clocks[0]
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


def plain(bases: dict[str, Path], number: int) -> list[Member]:
    """Pods of one service, the ranks of one job and a commit a day: the same everywhere, and all loaded."""
    warm = bases["warm"]
    pods = number * 2 // 5
    ranks = number * 2 // 5
    found = [
        Member(warm, f"pod-{n}", STARTED + timedelta(seconds=n), labels={"commit": "c0ffee0", "team": "serving"})
        for n in range(pods)
    ]
    found += [
        Member(warm, f"node-{n // 8}", STARTED + timedelta(milliseconds=n), n, {"job": "4711"}) for n in range(ranks)
    ]
    found += [
        Member(
            warm, f"ci-{n % 3}", STARTED + timedelta(hours=n), labels={"job": f"ci-{n}", "commit": commit(n, number)}
        )
        for n in range(number - pods - ranks)
    ]
    return found


def commit(n: int, number: int) -> str:
    """That of the n-th run of CI; there are four."""
    return f"{min(3, 4 * n // (number - 2 * (number * 2 // 5))):x}" * 10


def planted(bases: dict[str, Path], number: int) -> tuple[list[Member], dict[str, tuple[str, ...]]]:
    """The same with a difference of each kind, and what must be named of it: by kind, words of its text."""
    members = plain(bases, number)
    pods = number * 2 // 5

    def rank(n: int) -> int:
        return pods + n

    def change(at: int, base: str = "warm", **changed: object) -> None:
        members[at] = replace(members[at], base=bases[base], **changed)  # type: ignore[arg-type]

    change(3, "other_flag")
    change(5, "alone")
    change(7, versions={"jax": "0.9.9"})
    change(9, delays=(Delay(60_000_000_000, "import.jax"),))
    change(11, "failing")
    change(rank(2), "recompiles")
    change(rank(4), "other_shape")
    # while rank 2 compiled in step 3, the others waited for it
    wait = Delay(400_000_000, step=3)
    for n in range(pods):
        if n != 2:
            members[rank(n)] = replace(members[rank(n)], delays=(*members[rank(n)].delays, wait))
    # from the third commit on, every run compiles what it had loaded, and takes longer to trace
    for at in range(2 * pods, number):
        if members[at].labels["commit"][0] in "23":
            change(at, "cold", delays=(Delay(40_000_000_000, "jax.trace"),))
    return members, {
        "other_setting": ("pod-3", "fast_math"),
        "cache_not_used": ("pod-5",),
        "other_version": ("pod-7", "0.9.9"),
        "slow_host": ("pod-9", "import.jax"),
        "ended": ("pod-11", "no batch left"),
        "recompiles_alone": ("rank 2 of job 4711", "shape"),
        "other_program": ("rank 4 of job 4711", "f32[6,16]"),
        "straggler": ("rank 2 of job 4711", "step 3"),
        "slower_since": ("2222222222", "jax.trace"),
        "duplicated_work": ("train_step",),
    }


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


def named(found: Report, truth: dict[str, tuple[str, ...]]) -> set[str]:
    """The planted kinds of which a finding has all the words."""
    return {
        kind
        for kind, words in truth.items()
        if any(each.kind == kind and all(word in each.text for word in words) for each in found.findings)
    }
