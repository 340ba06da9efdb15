"""A trace for TensorBoard: what its profile plugin, XProf, reads and shows in its trace viewer.

The steps and the findings are the report's rows; all else is every track of the file, the devices' among them, as
Perfetto shows it. Times count from the entry of the first `trace()`, as in the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from coldstep._util.figures import duration
from coldstep._util.xplane_proto import MapEntry, Metadata, XEvent, XLine, XPlane, XSpace, XStat
from coldstep.events import Args
from coldstep.model import UNATTRIBUTED, Finding, Interval, Trace
from coldstep.pftrace import layout, proto
from coldstep.pftrace.reader import EventRow, rows
from coldstep.rows.processes import name as process_name
from coldstep.vocabulary import Vocabulary

_NOT_SHOWN = ("steps", "findings", "counters", "coldstep", "ir")
_MAX_CHARS = 2_000
_MARK_NS = 1_000  # the width of an instant: what has none is not drawn


def export(trace: Trace, path: Path, logdir: Path) -> Path:
    """Write the trace at `path` as a run of the log directory; what an earlier export of it wrote is replaced.

    Raises OSError.
    """
    name = re.sub(r"[^\w-]", "_", path.stem) or "trace"
    began = re.sub(r"\D", "_", trace.run.started[:19])  # to the second
    folder = logdir / "plugins" / "profile" / f"{name}_{began}"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():  # XProf keeps what it has made of the file, and would show that
        if stale.is_file():
            stale.unlink()
    file = folder / f"{name}.xplane.pb"
    file.write_bytes(xspace(trace, path))
    return file


def xspace(trace: Trace, path: Path) -> bytes:
    """The trace as an XSpace: of each process a plane for its pipeline and one for its devices, a line per track."""
    tracks = _tracks(path, trace.vocabulary)
    planes = []
    for process in trace.processes:
        whose = f"({process_name(trace, process.index)})"
        # of the planes that are of no kind of device that it knows, XProf shows only those named so
        pipeline, device = (_Plane(f"/device:CUSTOM:{what} {whose}") for what in ("Pipeline", "Device"))
        steps, findings = list[bytes](), list[bytes]()
        for row in trace.intervals:
            if row.kind == "step" and row.process == process.index:
                title = f"{row.name} {row.step} {_word(trace, row)}"
                steps.append(pipeline.event(title, row.start_ns, row.wall_ns, _step(trace, row)))
        for finding in (finding for finding in trace.findings if finding.process == process.index):
            kind = finding.kind.replace("_", " ")
            findings.append(pipeline.event(kind, _start(trace, finding), _MARK_NS, _finding(finding)))
        pipeline.lines += [("Steps", steps), ("Findings", findings)]
        end = trace.origin_ns + process.start_ns + process.wall_ns
        for track in tracks:
            if track.process == process.index:
                plane = device if track.kind in layout.PROFILED else pipeline
                events = [
                    plane.event(row.name, row.ns - trace.origin_ns, until - row.ns, row.args)
                    for row, until in track.closed(end)
                ]
                plane.lines.append((track.name, events))
        planes += [plane for plane in (pipeline, device) if plane.lines]
    return b"".join(proto.data(XSpace.planes, plane.encoded(number)) for number, plane in enumerate(planes, 1))


# --- encoding -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Plane:
    """What XProf shows as a process: lines of events, and the texts that these share."""

    name: str
    lines: list[tuple[str, list[bytes]]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)

    def event(self, name: str, start_ns: int, wall_ns: int, args: Args) -> bytes:
        """An event for a line of this plane."""
        given = {key: value for key, value in args.items() if value is not None}
        keyed = ((proto.number(XStat.metadata_id, _number(self.stats, key)), given[key]) for key in given)
        stats = [proto.data(XEvent.stats, key + _value(value)) for key, value in keyed]
        when = proto.number(XEvent.offset_ps, start_ns * 1_000) + proto.number(XEvent.duration_ps, wall_ns * 1_000)
        return b"".join([proto.number(XEvent.metadata_id, _number(self.names, name)), when, *stats])

    def encoded(self, number: int) -> bytes:
        """The plane as an XPlane."""
        parts = [proto.number(XPlane.id, number), _text(XPlane.name, self.name)]
        for at, (name, events) in enumerate(self.lines, 1):
            line = [proto.number(XLine.id, at), _text(XLine.name, name)]
            line += [proto.data(XLine.events, event) for event in events]
            parts.append(proto.data(XPlane.lines, b"".join(line)))
        parts += _metadata(XPlane.event_metadata, self.names)
        return b"".join([*parts, *_metadata(XPlane.stat_metadata, self.stats)])


def _number(known: dict[str, int], text: str) -> int:
    return known.setdefault(text, len(known) + 1)


def _metadata(field: int, texts: dict[str, int]) -> Iterator[bytes]:
    """The texts of a plane, as a map from their numbers."""
    for text, number in texts.items():
        entry = proto.data(MapEntry.value, proto.number(Metadata.id, number) + _text(Metadata.name, text))
        yield proto.data(field, proto.number(MapEntry.key, number) + entry)


def _value(value: object) -> bytes:
    if isinstance(value, int) and not isinstance(value, bool):
        return proto.number(XStat.int64_value, value)
    if isinstance(value, dict) and "file" in value:
        text = f"{value['file']}:{value['line']} in {value['function']}"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _text(XStat.str_value, text[:_MAX_CHARS])


def _text(field: int, text: str) -> bytes:
    return proto.data(field, text.encode("utf-8", "replace"))


# --- what is shown ------------------------------------------------------------------------------------------------


def _word(trace: Trace, row: Interval) -> str:
    return "unfinished" if row.index == trace.unfinished else row.label or "not known"


def _step(trace: Trace, row: Interval) -> Args:
    phases = sorted(row.phases.items(), key=lambda item: -item[1])
    return {"measures": row.measures, "compiles": len(row.compiles)} | {
        trace.vocabulary.phase(name): duration(ns) for name, ns in (*phases, (UNATTRIBUTED, row.unattributed_ns)) if ns
    }


def _start(trace: Trace, row: Finding) -> int:
    return trace.intervals[row.interval].start_ns if row.interval is not None else 0


def _finding(row: Finding) -> Args:
    return {
        "text": row.text,
        "cost": duration(row.cost_ns) if row.cost_ns else None,
        "location": asdict(row.location) if row.location else None,
        "evidence": row.evidence or None,
        "advice": row.advice or None,
    }


@dataclass(slots=True)
class _Track:
    """A track of the file: its events, each with its end once that is known."""

    process: int
    kind: str
    name: str
    events: list[tuple[EventRow, int | None]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)

    def feed(self, row: EventRow) -> None:
        """Take in one event, in the order of the file."""
        if row.kind == proto.INSTANT:
            self.events.append((row, row.ns + _MARK_NS))
        elif row.kind == proto.SLICE_BEGIN:
            self.open.append(len(self.events))
            self.events.append((row, None))
        elif row.kind == proto.SLICE_END and self.open:
            at = self.open.pop()
            began = self.events[at][0]
            began.args = began.args | row.args
            self.events[at] = began, row.ns

    def closed(self, end: int) -> Iterator[tuple[EventRow, int]]:
        """Its events, those of no length left out; events still open in a cut file end with the trace."""
        for row, known in self.events:
            until = end if known is None else known
            if until > row.ns:
                yield row, until


def _tracks(path: Path, vocabulary: Vocabulary) -> list[_Track]:
    """The tracks of the file that are shown as they stand there, in the order of the timeline."""
    tracks: dict[int, _Track] = {}
    processes: dict[int, int] = {}
    ledgers: dict[int, _Track] = {}
    roots = 0
    for row in rows(path):
        if isinstance(row, EventRow):
            if (track := tracks.get(row.track)) is not None:
                track.feed(row)
        elif row.parent is None and layout.is_root(row.name):
            processes[row.uuid] = roots
            roots += 1
        elif (process := processes.get(row.parent or 0)) is not None:
            processes[row.uuid] = process
            about = layout.parse(row.about, vocabulary.tracks)
            if about is not None and about.kind not in _NOT_SHOWN:
                track = _Track(process, about.kind, row.name)
                # the ledger may be on two tracks, whose slices follow each other
                tracks[row.uuid] = ledgers.setdefault(process, track) if about.kind == "phases" else track
    shown = {id(track): track for track in tracks.values()}.values()
    return sorted(shown, key=lambda track: vocabulary.rank(track.kind))
