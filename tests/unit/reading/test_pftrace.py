"""The trace format: our hand-made protobuf against the official descriptors, and a file cut anywhere."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb2

from coldstep import clock
from coldstep.errors import TraceError
from coldstep.pftrace import proto
from coldstep.pftrace.reader import EventRow, TrackRow, rows
from coldstep.pftrace.writer import Writer

MESSAGES = {
    proto.Trace: pb2.Trace,
    proto.TracePacket: pb2.TracePacket,
    proto.TracePacketDefaults: pb2.TracePacketDefaults,
    proto.ClockSnapshot: pb2.ClockSnapshot,
    proto.Clock: pb2.ClockSnapshot.Clock,
    proto.TrackDescriptor: pb2.TrackDescriptor,
    proto.TrackEvent: pb2.TrackEvent,
    proto.DebugAnnotation: pb2.DebugAnnotation,
    proto.InternedData: pb2.InternedData,
}


@pytest.mark.parametrize("ours", MESSAGES, ids=lambda ours: ours.__name__)
def test_field_numbers_are_the_official_ones(ours: type) -> None:
    official = MESSAGES[ours].DESCRIPTOR.fields_by_name
    numbers = {
        name: value for name, value in vars(ours).items() if isinstance(value, int) and not name.startswith("__")
    }  # Python 3.13 keeps a class's first line there
    assert numbers
    assert numbers == {name: official[name].number for name in numbers}


def test_enum_values_are_the_official_ones() -> None:
    event = pb2.TrackEvent
    assert (proto.SLICE_BEGIN, proto.SLICE_END, proto.INSTANT) == (
        event.TYPE_SLICE_BEGIN,
        event.TYPE_SLICE_END,
        event.TYPE_INSTANT,
    )
    assert pb2.TrackDescriptor.EXPLICIT == proto.EXPLICIT
    assert pb2.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED == proto.INCREMENTAL_STATE_CLEARED
    assert pb2.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE == proto.NEEDS_INCREMENTAL_STATE
    assert (proto.REALTIME, proto.MONOTONIC, proto.BOOTTIME) == (
        pb2.BUILTIN_CLOCK_REALTIME,
        pb2.BUILTIN_CLOCK_MONOTONIC,
        pb2.BUILTIN_CLOCK_BOOTTIME,
    )
    for official in (pb2.EventCategory, pb2.EventName, pb2.DebugAnnotationName):
        assert official.DESCRIPTOR.fields_by_name["iid"].number == proto.Interned.iid
        assert official.DESCRIPTOR.fields_by_name["name"].number == proto.Interned.name


@given(st.integers(0, (1 << 56) - 1))
def test_a_padded_timestamp_is_read_by_everyone(ns: int) -> None:
    packet = proto.varint(proto.TracePacket.timestamp << 3) + proto.timestamp(ns)
    assert pb2.TracePacket.FromString(packet).timestamp == ns
    assert proto.read_timestamp(packet) == ns
    assert list(proto.fields(packet)) == [(proto.TracePacket.timestamp, ns)]


json_like = st.recursive(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.booleans(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.floats(allow_nan=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4), st.dictionaries(st.text("ab[']."), inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1), json_like, max_size=5))
def test_arguments_come_back_as_they_were(args: dict[str, Any]) -> None:
    path = Path(f"/dev/shm/coldstep-{os.getpid()}.pftrace")
    try:
        write(path, lambda writer: writer.begin(5, 7, "slice", "category", args))
        [event] = [row for row in rows(path) if isinstance(row, EventRow)]
        assert event == EventRow(proto.SLICE_BEGIN, 5, 7, "slice", "category", args)
    finally:
        path.unlink()


def write(path: Path, *actions: Any) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    writer = Writer(fd, 1, clock.snapshot())
    writer.track(1, "root", ordered=True)
    writer.track(7, "JAX", parent=1, rank=2, about="jax of thread 1, MainThread")
    for action in actions:
        action(writer)
        writer.flush()
    os.close(fd)


def many(writer: Writer) -> None:
    for i in range(50):
        writer.begin(i * 10, 7, "outer", "jax.trace", {"n": i, "text": "é", "none": None, "empty": []})
        writer.begin(i * 10 + 1, 7, "", title=f"only once {i}", flows=(i + 1,))
        writer.end(i * 10 + 2, 7)
        writer.end(i * 10 + 5, 7, {"late": {"a": [1, 2]}})
        writer.instant(i * 10 + 6, 7, "instant")


def test_the_engine_and_the_official_messages_read_what_we_wrote(tmp_path: Path, engine: ModuleType) -> None:
    path = tmp_path / "t.pftrace"
    write(path, many)
    engine.assert_clean(path)
    [counts, args] = engine.query(
        path,
        "select s.name, count(*) n, sum(dur) dur from slice s join track t on t.id = track_id "
        "where t.name = 'JAX' and s.name in ('outer', 'instant') group by 1 order by 1",
        "select distinct key from args where key like 'debug.%' order by 1",
    )
    assert counts == [{"name": "instant", "n": 50, "dur": 0}, {"name": "outer", "n": 50, "dur": 250}]
    assert [row["key"] for row in args] == ["debug.late.a[0]", "debug.late.a[1]", "debug.n", "debug.text"]
    packets = [
        inner
        for packet in pb2.Trace.FromString(path.read_bytes()).packet
        for inner in pb2.Trace.FromString(zlib.decompress(packet.compressed_packets)).packet
    ]
    assert sum(packet.HasField("track_event") for packet in packets) == 250
    assert {packet.trusted_packet_sequence_id for packet in packets} == {1}


def test_a_file_cut_anywhere_reads_up_to_its_last_whole_block(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.pftrace", tmp_path / "cut.pftrace"
    write(whole, *[lambda writer, i=i: writer.instant(i, 7, f"event {i}") for i in range(20)])
    everything, data = list(rows(whole)), whole.read_bytes()
    assert len(everything) == 22
    lengths = []
    for size in range(1, len(data)):
        cut.write_bytes(data[:size])
        found = list(rows(cut))
        assert found == everything[: len(found)]
        lengths.append(len(found))
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(everything) - 1


@pytest.mark.parametrize("junk", [b"\x00" * 64, b"\xff" * 64, b"garbage in the middle"])
def test_a_damaged_tail_loses_nothing_before_it(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "t.pftrace"
    write(path, many)
    everything = list(rows(path))
    path.write_bytes(path.read_bytes() + junk)
    assert list(rows(path)) == everything


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot read"), (b"", "is empty"), (b'{"traceEvents": []}', "not a Perfetto trace")],
    ids=["missing", "empty", "foreign"],
)
def test_what_is_no_trace_is_said_in_one_line(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "t.pftrace"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TraceError, match=says) as error:
        list(rows(path))
    assert "\n" not in str(error.value)


def test_tracks_are_described_before_their_events(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    write(path, many)
    [root, track, *events] = list(rows(path))
    assert root == TrackRow(1, "root", None, "")
    assert track == TrackRow(7, "JAX", 1, "jax of thread 1, MainThread")
    assert all(isinstance(row, EventRow) and row.track == 7 for row in events)


def test_a_name_per_batch_does_not_fill_the_memory(tmp_path: Path, engine: ModuleType) -> None:
    path = tmp_path / "t.pftrace"

    def batches(writer: Writer) -> None:
        for i in range(6000):
            writer.begin(i * 2, 7, f"load {i}", "", {"i": i})
            writer.end(i * 2 + 1, 7)
        assert len(writer._iids) < 5000
        assert len(writer._shapes) < 5000

    write(path, batches)
    engine.assert_clean(path)
    [[row]] = engine.query(path, "select count(distinct name) n from slice")
    assert row["n"] == 6000
    assert len({row.name for row in rows(path) if isinstance(row, EventRow) and row.name}) == 6000


def test_events_that_differ_in_their_title_only_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    titles = ["step 8 clean", "step 9 clean", "step 10 clean", "step 11 é", "", "x" * 200, "x" * 201]
    write(path, *[lambda w, t=t: w.begin(5, 7, "", "step", {"measures": "complete"}, title=t) for t in titles * 2])
    found = [row for row in rows(path) if isinstance(row, EventRow)]
    assert [row.name for row in found] == titles * 2
    found[0].args["measures"] = "changed"
    assert all((row.category, row.args) == ("step", {"measures": "complete"}) for row in found[1:])


def test_time_stamps_of_other_writers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    trace, events = pb2.Trace(), [(10, "c0"), (30, "c1"), (30, "c2"), (1 << 50, "c3"), (1 << 50, "c4")]
    for ns, name in events:  # as short as they can be: coldstep's own are padded
        packet = trace.packet.add(timestamp=ns, trusted_packet_sequence_id=1)
        packet.track_event.CopyFrom(pb2.TrackEvent(type=pb2.TrackEvent.TYPE_SLICE_BEGIN, track_uuid=1, name=name))
    path.write_bytes(trace.SerializeToString())
    assert [(row.ns, row.name) for row in rows(path) if isinstance(row, EventRow)] == events
