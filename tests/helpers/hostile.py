"""Files that are meant to hurt, and a process in which commands read them: run as a program by `test_trust`."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import generated_trace
from click.testing import CliRunner

from coldstep.pftrace import proto
from coldstep.pftrace.layout import Track
from coldstep.pftrace.proto import (
    DebugAnnotation,
    Interned,
    InternedData,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
    data,
    number,
    varint,
)
from coldstep.pftrace.proto import Trace as File

ROOT, RUN, JAX, STEPS, PHASES = range(1, 6)


def packet(body: bytes) -> bytes:
    """One packet."""
    return data(File.packet, body)


def block(content: bytes) -> bytes:
    """Packets, compressed as ours are."""
    return packet(data(TracePacket.compressed_packets, zlib.compress(content)))


def zeros(size: int, before: bytes = b"") -> bytes:
    """A block of so many zeros, made without holding them: a megabyte is compressed, and stands there so often."""
    deflate, megabyte = zlib.compressobj(9), bytes(1 << 20)
    parts = [deflate.compress(before) + deflate.flush(zlib.Z_FULL_FLUSH)]
    parts += [deflate.compress(megabyte) + deflate.flush(zlib.Z_FULL_FLUSH)] * (size >> 20)
    last = zlib.compressobj(9, wbits=-zlib.MAX_WBITS).flush()
    sums, total = divmod(zlib.adler32(before), 1 << 16)
    checksum = (sums + (size >> 20 << 20) * total) % 65521 << 16 | total  # zeros add to the sum of sums alone
    return packet(data(TracePacket.compressed_packets, b"".join(parts) + last + checksum.to_bytes(4, "big")))


def track(uuid: int, name: str, parent: int | None = None, about: str = "") -> bytes:
    """A track's packet."""
    fields = number(TrackDescriptor.uuid, uuid) + data(TrackDescriptor.name, name.encode())
    fields += number(TrackDescriptor.parent_uuid, parent) if parent is not None else b""
    return packet(data(TracePacket.track_descriptor, fields + data(TrackDescriptor.description, about.encode())))


def arg(key: str, value: bytes) -> bytes:
    """An event's argument."""
    return data(TrackEvent.debug_annotations, data(DebugAnnotation.name, key.encode()) + value)


def event(ns: int, on: int, kind: int = proto.INSTANT, name: str = "", rest: bytes = b"") -> bytes:
    """An event's packet."""
    fields = number(TrackEvent.type, kind) + number(TrackEvent.track_uuid, on)
    fields += data(TrackEvent.name, name.encode()) if name else b""
    return packet(number(TracePacket.timestamp, ns) + data(TracePacket.track_event, fields + rest))


def text(value: str) -> bytes:
    """A text as an argument's value."""
    return data(DebugAnnotation.string_value, value.encode())


def begun() -> bytes:
    """The packets of a trace that has just begun."""
    categories = packet(
        data(
            TracePacket.interned_data,
            b"".join(
                data(InternedData.event_categories, number(Interned.iid, iid) + data(Interned.name, name))
                for iid, name in ((1, b"trace"), (2, b"compile"))
            ),
        )
    )
    tracks = [
        track(ROOT, "Pipeline (rank 0)"),
        track(RUN, "coldstep", ROOT, Track("coldstep", 1, "MainThread").about()),
        track(JAX, "JAX", ROOT, Track("jax", 1, "MainThread").about()),
        track(STEPS, "Steps", ROOT, Track("steps", 1, "MainThread").about()),
        track(PHASES, "Step phases", ROOT, Track("phases", 1, "MainThread").about()),
    ]
    about = arg("schema", text("coldstep/1")) + arg("collectors", data(DebugAnnotation.array_values, text("jax")))
    whole = event(1, RUN, proto.SLICE_BEGIN, "trace", number(TrackEvent.category_iids, 1) + about)
    return categories + b"".join(tracks) + whole


def nested(depth: int, field: int) -> bytes:
    """An argument in an argument in an argument …"""
    lengths, size = [], 0
    for _ in range(depth):
        head = varint(field << 3 | proto.BYTES) + varint(size)
        lengths.append(head)
        size += len(head)
    return b"".join(reversed(lengths))


def note(value: bytes) -> bytes:
    """A note with such a text."""
    return event(5, RUN, name="note", rest=arg("text", value))


def _compiles(count: int, same: bool) -> bytes:
    parts = []
    for n in range(count):
        args = arg("compile", text(f"c{n}")) + arg("identity", text("f" if same else f"f{n}"))
        parts.append(event(10 + n, JAX, proto.SLICE_BEGIN, "f", number(TrackEvent.category_iids, 2) + args))
    return b"".join(parts)


def _tracks(count: int) -> bytes:
    return b"".join(track(n, f"t{n}", 1, "stacks of thread 1, t") for n in range(count))


def _names(count: int) -> bytes:
    entries = (number(Interned.iid, n) + data(Interned.name, b"%d" % n) for n in range(count))
    return packet(data(TracePacket.interned_data, b"".join(data(InternedData.event_names, each) for each in entries)))


def _sequences(count: int) -> bytes:
    return b"".join(packet(number(TracePacket.trusted_packet_sequence_id, n + 1)) for n in range(count))


def _flows(count: int) -> bytes:
    return event(6, JAX, proto.SLICE_BEGIN, "x", number(TrackEvent.flow_ids, 1) * count)


def _late(ns: int) -> bytes:
    about = number(TrackEvent.type, proto.INSTANT) + number(TrackEvent.track_uuid, JAX)
    return packet(number(TracePacket.timestamp, ns) + data(TracePacket.track_event, about))


_INFINITE = proto.double(DebugAnnotation.double_value, float("inf"))
_MANY_DIGITS = arg("name", text("s")) + arg("n", text("9" * 5000))
_FEW_TOO_MANY = 350_000  # the reader takes 300,000 in so short a file

PACKETS: dict[str, Callable[[], bytes]] = {
    "a gigabyte of zeros in one block": lambda: zeros(1 << 30),
    "a packet of a fourth of a gigabyte": lambda: zeros(1 << 28, b"\x0a" + varint(1 << 28)),
    "a gigabyte in blocks of 60 MiB": lambda: zeros(60 << 20, b"\x0a" + varint(60 << 20)) * 17,
    "compressed packets in compressed packets": lambda: block(block(block(block(note(text("deep")) * 1000)))),
    "a bomb in a compressed packet": lambda: block(zeros(1 << 26) * 4),
    "empty packets without end": lambda: block(b"\x0a\x00" * _FEW_TOO_MANY),
    "a packet that says it is huge": lambda: b"\x0a" + varint((1 << 63) + 5) + b"\0" * 100,
    "a length of more than ten bytes": lambda: b"\x0a" + b"\xff" * 64,
    "a field's length beyond the packet": lambda: packet(b"\x5a" + varint(1 << 40)),
    "a number of a thousand bytes": lambda: packet(b"\x40" + b"\x80" * 1000 + b"\x01"),
    "arguments nested 100,000 deep": lambda: block(note(nested(100_000, DebugAnnotation.array_values))),
    "dictionaries nested 100,000 deep": lambda: block(note(nested(100_000, DebugAnnotation.dict_entries))),
    "an argument of more than a million parts": lambda: block(note(b"\x62\x00" * (5 << 18))),
    "events without end": lambda: begun() + block(event(6, JAX, name="x") * _FEW_TOO_MANY),
    "slices without end, one in the other": lambda: begun() + block(_compiles(2_000, False)),
    "variants of one function without end": lambda: begun() + block(_compiles(1_000, True)),
    "tracks without end": lambda: block(_tracks(100_000)),
    "interned texts without end": lambda: block(_names(100_000)),
    "sequences without end": lambda: block(_sequences(100_000)),
    "flows without end": lambda: block(_flows(200_000)),
    "a text of fourteen megabytes": lambda: begun() + block(note(text("\x01" * (14 << 20)))),
    "times after the end of time": lambda: begun() + _late((1 << 64) - 1),
    "numbers that are none": lambda: begun() + note(_INFINITE),
    "a process id without end": lambda: begun() + event(9, RUN, proto.SLICE_END, rest=arg("pid", _INFINITE)),
    "steps that are texts": lambda: begun() + event(9, RUN, name="step began", rest=_MANY_DIGITS),
}  # fmt: skip
"""What a hostile file holds, or goes on with."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "{file}"),
    "json": ("report", "--json", "{file}"),
    "html": ("report", "{file}", "--html", "{out}.html"),
    "check": ("check", "{file}", "--max-recompiles", "0"),
    "lock": ("lock", "{file}"),
    "diff": ("diff", "{file}", "{file}"),
    "cache": ("cache", "{file}", "{file}"),
    "merge": ("merge", "{file}", "-o", "{out}.merged"),
    "strip": ("strip", "{file}", "-o", "{out}.stripped"),
    "tensorboard": ("export", "{file}", "--to", "tensorboard", "{out}"),
    "parquet": ("export", "{file}", "--to", "parquet", "{out}"),
    "sql": ("sql", "{file}", "select count(*) from runs"),
    "open": ("open", "--no-browser", "{file}"),
    "log": ("log", "{file}", "-o", "{out}.log"),
}
"""Every command that reads."""


def _peak_kib() -> int:
    """The most memory that this process has had: `ru_maxrss` would begin with that of the one which started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def results() -> Iterator[tuple[str, str, int, str, str, int]]:
    """What each command says of each file: what it is, the command, exit code, both outputs, and the memory in MB."""
    from coldstep_viewers.commands import cli

    folder = Path(tempfile.mkdtemp())
    os.environ["XDG_CACHE_HOME"] = str(folder)
    whole = folder / "whole.pftrace"
    generated_trace.write(whole, steps=5, compiles=2)
    honest = whole.read_bytes()

    def asked(name: str, command: str, file: Path) -> tuple[str, str, int, str, str, int]:
        words = [word.format(file=file, out=folder / "out") for word in COMMANDS[command]]
        done = CliRunner().invoke(cli.main, words)
        gc.unfreeze()
        trouble = "" if done.exception is None or isinstance(done.exception, SystemExit) else f"\n{done.exception!r}\n"
        peak = _peak_kib() >> 10
        return name, command, done.exit_code, done.stdout[:9000], done.stderr[:2000] + trouble, peak

    first = next(iter(PACKETS))
    for name, made in PACKETS.items():
        hostile = made()
        alone, behind = folder / "alone.pftrace", folder / "behind.pftrace"
        alone.write_bytes(hostile)
        for command in COMMANDS if name == first else ("report",):
            yield asked(name, command, alone)
        behind.write_bytes(honest + hostile)
        yield asked(f"{name}, behind an honest trace", "report", behind)


if __name__ == "__main__":
    for row in results():
        print(json.dumps(row), file=sys.stdout, flush=True)
