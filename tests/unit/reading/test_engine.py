"""Our driver of Perfetto's engine reads traces made with the official messages, and notices bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

BEGIN, END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
CLEARED, NEEDS = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED, TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
TRACK = 7

Save = Callable[[Trace], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save(trace: Trace) -> Path:
        path = tmp_path / "made.pftrace"
        path.write_bytes(trace.SerializeToString())
        return path

    return save


def packet(trace: Trace, flags: int = NEEDS, **fields: Any) -> Any:
    return trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=flags, **fields)


def event(trace: Trace, ns: int, kind: int, name: str | None = None, **fields: Any) -> Any:
    return packet(trace, timestamp=ns, track_event=TrackEvent(type=kind, track_uuid=TRACK, name=name, **fields))


def started() -> Trace:
    """A trace with one track and nothing on it."""
    trace = Trace()
    described = packet(trace, CLEARED).track_descriptor
    described.uuid, described.name = TRACK, "Steps"
    return trace


def good(slices: int = 1) -> Trace:
    trace = started()
    for n in range(slices):
        begin = event(trace, 100 * n, BEGIN, f"step {n}")
        begin.track_event.debug_annotations.add(name="loss", double_value=1.5)
        event(trace, 100 * n + 60, END)
    return trace


def test_rows_of_several_statements(engine: ModuleType, save: Save) -> None:
    trace = save(good())
    rows, nothing, names = engine.query(
        trace,
        "select ts, dur, name, 1.5 as ratio, null as none, 'ä' as text from slice",
        "select ts, dur from slice where name = 'another'",
        "select track.name as track, display_value as loss from slice join track on track_id = track.id join args using"
        " (arg_set_id) where key = 'debug.loss'",
    )
    assert rows == [{"ts": 0, "dur": 60, "name": "step 0", "ratio": 1.5, "none": None, "text": "ä"}]
    assert nothing == []
    assert names == [{"track": "Steps", "loss": "1.5"}]
    engine.assert_clean(trace)


def test_a_trace_in_many_chunks_and_a_result_in_many_batches(
    engine: ModuleType, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CHUNK", 1000)
    trace = save(good(slices=20_000))
    [rows] = engine.query(trace, "select ts, dur, name, name || ' again, and longer' as again from slice order by ts")
    assert [(row["ts"], row["dur"], row["name"]) for row in rows] == [(100 * n, 60, f"step {n}") for n in range(20_000)]
    assert rows[-1]["again"] == "step 19999 again, and longer"


def test_the_engines_errors_are_raised_in_its_words(engine: ModuleType, save: Save, tmp_path: Path) -> None:
    with pytest.raises(engine.EngineError, match="no such table: nowhere"):
        engine.query(save(good()), "select * from nowhere")
    garbage = tmp_path / "garbage.pftrace"
    garbage.write_bytes(b"this is no trace at all" * 100)
    with pytest.raises(engine.EngineError):
        engine.query(garbage, "select 1")


def test_packets_skipped_in_silence_are_noticed(engine: ModuleType, save: Save) -> None:
    trace = Trace()
    event(trace, 1, BEGIN, "lost")
    event(trace, 2, END)
    with pytest.raises(AssertionError, match="tokenizer_skipped_packets"):
        engine.assert_clean(save(trace))


def test_names_that_resolve_to_nothing_are_noticed(engine: ModuleType, save: Save) -> None:
    trace = started()
    event(trace, 1, BEGIN, name_iid=99)
    event(trace, 2, END)
    with pytest.raises(AssertionError, match="interned_data_tokenizer_errors"):
        engine.assert_clean(save(trace))


def test_slices_that_overlap_are_noticed(engine: ModuleType, save: Save) -> None:
    trace = started()
    event(trace, 1, BEGIN, "outer")
    event(trace, 2, BEGIN, "inner")
    event(trace, 3, END, "outer")
    event(trace, 4, END, "inner")
    with pytest.raises(AssertionError, match="misplaced_end_event"):
        engine.assert_clean(save(trace))


def test_an_open_slice_is_noticed_unless_it_may_be(engine: ModuleType, save: Save) -> None:
    trace = good()
    event(trace, 100, BEGIN, "killed in here")
    path = save(trace)
    with pytest.raises(AssertionError, match="killed in here"):
        engine.assert_clean(path)
    engine.assert_clean(path, open_slices=True)


def test_a_cut_file_loads_up_to_the_cut(engine: ModuleType, save: Save) -> None:
    path = save(good(slices=3))
    path.write_bytes(path.read_bytes()[:-5])
    [rows] = engine.query(path, "select name, dur from slice order by ts")
    assert rows == [{"name": "step 0", "dur": 60}, {"name": "step 1", "dur": 60}, {"name": "step 2", "dur": -1}]
