"""Trace → trace: the ranks of a job onto one timeline, and a trace without what only its owner may know.

Packets are copied one by one; only what has to change is taken apart. Findings on the new file are
appended to it, as a session does at its end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from coldstep._util.gathered import gathered
from coldstep._util.median import median
from coldstep._util.slotted import field, slotted
from coldstep.clock import Snapshot
from coldstep.converting.anonymise import Private
from coldstep.converting.write_findings import write_findings
from coldstep.errors import TraceError, damaged, refuse_to_replace
from coldstep.events import Args
from coldstep.loading import check_schema, load, not_ours
from coldstep.loading.unended import last_word
from coldstep.pftrace import layout, proto
from coldstep.pftrace.layout import Track
from coldstep.pftrace.proto import Clock, ClockSnapshot, TracePacket, TrackDescriptor, data, number
from coldstep.pftrace.reader import EventRow, TrackRow, decoded
from coldstep.pftrace.writer import Writer
from coldstep.recording.output import BINARY
from coldstep.run_row import RunRow, run_row
from coldstep.vocabulary import of_trace

_BLOCK_PACKETS = 4096  # that are compressed as one


@slotted
class Alignment:
    """How the clock of one trace was laid on the first one's: what its times were shifted by, and how well."""

    path: str
    """The file."""
    name: str
    """What its process is called."""
    shift_ns: int
    """How far its times were moved."""
    script: str
    """What ran: the script or module, else the whole command."""
    bound_ns: int | None
    """How far a shifted time may be off, as far as the files show; None on the very same clock."""

    @property
    def how(self) -> str:
        """The same in words."""
        if self.bound_ns is None:
            return "on the clock of the first trace's machine, exactly"
        return (
            "another machine's clock, laid on the first one's by the wall clocks of both, read to "
            f"±{max(1, round(self.bound_ns / 1000))} µs; how far the wall clocks themselves differ (NTP) is not known"
        )


@slotted
class _Root:
    """A process in a trace: its root track, the tracks that are written to here, and its own arguments."""

    uuid: int
    name: str
    args: Args = field(default_factory=dict)
    row: RunRow = field(default_factory=lambda: run_row({}))
    """The same, read."""
    run: int | None = None
    findings: int | None = None
    start_ns: int = 0


@slotted
class _Survey:
    """What has to be known of a trace before it is copied."""

    path: str
    roots: list[_Root] = field(default_factory=list)
    clocks: list[Snapshot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the reader had to say of the file."""
    shift_ns: int = 0

    @property
    def boot(self) -> str | None:
        return self.roots[0].row.boot

    def epochs(self) -> list[int]:
        """The wall clock at the monotonic clock's zero, at each time that both were read."""
        return [clock.realtime_ns - clock.monotonic_ns for clock in self.clocks]

    def uncertainty_ns(self) -> int:
        """How far those readings may be off, the way that the wall clock went meanwhile included."""
        epochs = self.epochs()
        return (max(epochs) - min(epochs)) // 2 + (self.roots[0].row.clock_uncertainty_ns or 0)


# --- merge --------------------------------------------------------------------------------------------------------


def merge(paths: Sequence[str], out: str, lost: list[str] | None = None) -> list[Alignment]:
    """Write the traces at `paths` into one at `out`, a root track per process, all on the first one's clock.

    A file that is no coldstep trace is left out, with the reason in `lost`; without `lost`, or where nothing is
    left, it raises TraceError, and so it does for a trace that is given twice; OSError when `out` cannot be written.
    """
    refuse_to_replace(paths, out)
    surveys = []
    for path in paths:
        try:
            surveys.append(_survey(path))
        except TraceError as error:
            if lost is None or (not surveys and path == paths[-1]):
                raise
            lost.append(str(error))
    seen: dict[int, str] = {}
    for survey in surveys:
        for root in survey.roots:
            if root.uuid in seen:
                raise TraceError(f"{seen[root.uuid]} and {survey.path} are the same trace: give one per rank")
            seen[root.uuid] = survey.path
    roots = [root for survey in surveys for root in survey.roots]
    called = _called(roots)
    alignments = _align(surveys, called)
    names = {root.uuid: f"Pipeline ({name})" for root, name in zip(roots, called, strict=True)}
    # it holds command lines, as a session's file does
    with _Output(out, _shifted(surveys[0].clocks[0], surveys[0].shift_ns), 0o600) as output:
        output.writer.track(int.from_bytes(os.urandom(7), "little"), layout.MERGED, parent=roots[0].uuid)
        for survey in surveys:
            sequences: dict[int, int] = {}
            with damaged(survey.path):
                for packet, _ in decoded(survey.path):
                    if (changed := _moved(packet, survey.shift_ns, names, sequences, output)) is not None:
                        output.write(changed)
            output.notes(survey)
        for survey, alignment in zip(surveys, alignments, strict=True):
            for root in survey.roots:
                if root.run is not None and alignment.bound_ns is not None:
                    at = root.start_ns + survey.shift_ns
                    output.writer.instant(at, root.run, layout.NOTE, "", {"text": f"{alignment.how}."})
        for clock in surveys[0].clocks[1:]:
            output.writer.clocks(_shifted(clock, surveys[0].shift_ns))
        output.flush()
        write_findings(load(out), output.writer, [root.findings for root in roots if root.args], ("straggler",))
    return alignments


def ranks_in(path: str) -> list[int]:
    """The ranks of the processes in a trace, as far as they have any. Raises TraceError."""
    return [rank for root in _survey(path).roots if (rank := root.row.rank) is not None]


def _called(roots: list[_Root]) -> list[str]:
    """What each process is called: "rank 3", or "process 1", by its place in the order given, where it has none of its
    own; in a job, whose processes have names, "EngineCore_0, process 4711"."""
    ranks = [root.row.rank for root in roots]
    is_job = roots[0].row.job is not None and len({root.row.job for root in roots}) == 1
    return [
        f"rank {rank}"
        if rank is not None and ranks.count(rank) == 1
        else f"{root.row.process_name}, process {root.row.pid}"
        if is_job and root.row.process_name
        else f"process {at}"
        for at, (root, rank) in enumerate(zip(roots, ranks, strict=True))
    ]


def _script(command: list[str]) -> str:
    """What ran in a process; two ranks may differ in all that follows it."""
    scripts = [word for word in command if word.endswith(".py")]
    modules = [module for flag, module in pairwise(command) if flag == "-m"]
    return os.path.basename(next(iter([*scripts, *modules]), " ".join(command)))


def _align(surveys: list[_Survey], called: list[str]) -> list[Alignment]:
    """Find each trace's shift: none on one machine, else the difference of the clocks by their wall clocks."""
    machines = gathered((survey.boot or number_, survey) for number_, survey in enumerate(surveys))
    epochs = {id(s): round(median(e for one in same for e in one.epochs())) for same in machines.values() for s in same}
    first = surveys[0]
    for survey in surveys:
        survey.shift_ns = epochs[id(survey)] - epochs[id(first)]
    # the first machine may have been started after another trace was recorded: no time may be negative
    earliest = min(root.start_ns + survey.shift_ns for survey in surveys for root in survey.roots)
    rows, at = [], 0
    for survey in surveys:
        survey.shift_ns += max(0, -earliest)
        row = survey.roots[0].row
        name = called[at] if len(survey.roots) == 1 else survey.path
        same_clock = survey in machines[first.boot or 0]
        bound = None if same_clock else first.uncertainty_ns() + survey.uncertainty_ns()
        rows.append(Alignment(survey.path, name, survey.shift_ns, _script(row.command), bound))
        at += len(survey.roots)
    return rows


def _moved(
    packet: bytes, shift_ns: int, names: dict[int, str], sequences: dict[int, int], output: _Output
) -> bytes | None:
    """A packet at its new time, of a sequence and a root track with a name of their own; None for what is dropped."""
    head, rest = b"", []
    for key, value in proto.fields(packet):
        if key == TracePacket.clock_snapshot:
            return None  # said once, by the new file itself
        if key == TracePacket.timestamp and isinstance(value, int):
            head = proto.varint(key << 3) + proto.timestamp(value + shift_ns)
        elif key == TracePacket.trusted_packet_sequence_id and isinstance(value, int):
            if value not in sequences:
                sequences[value] = output.new_sequence()
            rest.append(number(key, sequences[value]))
        elif key == TracePacket.track_descriptor and isinstance(value, bytes):
            rest.append(data(key, _renamed(value, names)))
        else:
            rest.append(_encoded(key, value))
    return head + b"".join(rest)


def _renamed(descriptor: bytes, names: dict[int, str]) -> bytes:
    fields = list(proto.fields(descriptor))
    name = names.get(next((v for k, v in fields if k == TrackDescriptor.uuid and isinstance(v, int)), 0))
    if name is None:
        return descriptor
    return b"".join(_encoded(k, name.encode() if k == TrackDescriptor.name else v) for k, v in fields)


# --- strip --------------------------------------------------------------------------------------------------------


def strip(path: str, out: str, salt: bytes | None = None, *, keep_labels: bool = False) -> None:
    """Write the trace at `path` to `out` without what only its owner may know: see `coldstep.converting.anonymise`.

    Its labels go, unless kept as they are. Traces that are stripped with one `salt` can still be compared. Raises
    TraceError for a file that is no coldstep trace, OSError when `out` cannot be written.
    """
    refuse_to_replace([path], out)
    survey = _survey(path)
    words = [of_trace(root.row.vocabulary) for root in survey.roots]
    private = Private((package for vocabulary in words for package in vocabulary.packages()), salt, keep_labels)
    tracks: dict[int, Track] = {}
    roots = {root.uuid for root in survey.roots}
    kinds = {kind for vocabulary in words for kind in vocabulary.tracks}
    private.hide([root.row.host for root in survey.roots])
    with damaged(path), _Output(out, survey.clocks[0]) as output:
        for packet, row in decoded(path):
            if isinstance(row, TrackRow):
                track = layout.parse(row.about, kinds)
                if track is not None:
                    tracks[row.uuid] = track
                if track is not None or row.uuid in roots or row.parent in roots:
                    output.write(_nameless(packet, track, private))
            elif isinstance(row, EventRow) and (on := tracks.get(row.track)) is not None and on.kind not in _DROPPED:
                _copy(row, on.kind, output, private)
        output.notes(survey)
        for clock in survey.clocks[1:]:
            output.writer.clocks(clock)
        output.flush()
        write_findings(load(out), output.writer, [root.findings for root in survey.roots])


def _copy(row: EventRow, kind: str, output: _Output, private: Private) -> None:
    """Write an event anew, with what may be known of it."""
    if row.kind == proto.COUNTER:
        output.writer.counter(row.ns, row.track, row.args["value"])
    elif row.kind == proto.SLICE_BEGIN:
        is_step = row.category in (layout.STEP, layout.INFERRED)
        name = private.name(kind, layout.cut_title(row.name) if is_step else row.name)
        category = private.category(row.category)
        shown, title = ("", name) if is_step else (name, "")
        output.writer.begin(row.ns, row.track, shown, category, private.args(row.args), row.flows, title)
    elif row.kind == proto.SLICE_END:
        output.writer.end(row.ns, row.track, private.args(row.args), row.flows)
    else:
        if row.name in (layout.STEP_BEGAN, layout.STEP_ENDED):
            row.args["name"] = layout.cut(str(row.args.get("name")))
        output.writer.instant(row.ns, row.track, row.name, row.category, private.args(row.args))
    output.written()


def _nameless(packet: bytes, track: Track | None, private: Private) -> bytes:
    """A track's packet with the name of its thread made unreadable, where somebody gave it one."""
    fields = dict(proto.fields(packet))
    descriptor = fields[TracePacket.track_descriptor]
    assert isinstance(descriptor, bytes)
    thread = private.thread(track.thread) if track is not None and track.kind != "counters" else ""
    parts = []
    for key, value in proto.fields(descriptor):
        if isinstance(value, bytes) and track is not None and thread and key in _TOLD:
            value = value.decode("utf-8", "replace").replace(track.thread, thread).encode()
        parts.append(_encoded(key, value))
    # of the new file's own sequence
    return number(TracePacket.trusted_packet_sequence_id, 1) + data(TracePacket.track_descriptor, b"".join(parts))


_DROPPED = ("findings", "ir")  # what is found in the new file is found anew
_TOLD = (TrackDescriptor.name, TrackDescriptor.description)


# --- what both need -----------------------------------------------------------------------------------------------


class _Output:
    """The new trace on its way to disk."""

    def __init__(self, path: str, clock: Snapshot, mode: int = 0o666) -> None:
        self._path, self._clock, self._mode = path, clock, mode
        self._sequence = 1
        self._gathered = 0

    def __enter__(self) -> _Output:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, self._mode)
        self.writer = Writer(self._fd, self._sequence, self._clock)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self._fd)
        if kind is not None:  # half of it would be taken for the whole
            with suppress(OSError):
                os.unlink(self._path)

    def new_sequence(self) -> int:
        """A packet sequence that nothing else in the file has."""
        self._sequence += 1
        return self._sequence

    def write(self, packet: bytes) -> None:
        """One packet."""
        self.writer.copy(packet)
        self.written()

    def written(self) -> None:
        """Something has been given to the writer: now and then it is time to write it out."""
        self._gathered += 1
        if self._gathered >= _BLOCK_PACKETS:
            self.flush()

    def flush(self) -> None:
        """Write out what has been gathered."""
        self.writer.flush()
        self._gathered = 0

    def notes(self, survey: _Survey) -> None:
        """The reader's notes on a file that is copied here."""
        root = survey.roots[0]
        for text in survey.notes if root.run is not None else ():
            self.writer.instant(root.start_ns + survey.shift_ns, root.run or 0, layout.NOTE, "", {"text": text})
        if root.run is not None and root.row.ended is None and last_word(Path(survey.path)) is not None:
            about: Args = {"ended": "terminated", "error": "SIGTERM"}
            self.writer.instant(root.start_ns + survey.shift_ns, root.run, layout.ENDED, "", about)


def _survey(path: str) -> _Survey:
    """Read the whole trace once for its clocks and its processes. Raises TraceError where it has none."""
    survey = _Survey(str(path))
    with damaged(path):
        _look_through(survey)
        survey.roots = [root for root in survey.roots if root.args]
        for root in survey.roots:
            check_schema(path, root.args)
            root.row = run_row(root.args)
    if not survey.roots or not survey.clocks:
        raise TraceError(not_ours(path, survey.notes))
    return survey


def _look_through(survey: _Survey) -> None:
    owners: dict[int, _Root] = {}
    for packet, row in decoded(survey.path, survey.notes):
        if row is None:
            clocks = dict(proto.fields(packet)).get(TracePacket.clock_snapshot)
            if isinstance(clocks, bytes):
                survey.clocks.append(_snapshot(clocks))
        elif isinstance(row, TrackRow):
            _place(row, survey, owners)
        elif isinstance(row, EventRow) and (owner := owners.get(row.track)) is not None and owner.run == row.track:
            if row.category == layout.TRACE and row.kind == proto.SLICE_BEGIN:
                owner.args, owner.start_ns = row.args, row.ns
            elif row.kind == proto.SLICE_END and "ended" in row.args:
                owner.args |= row.args


def _place(row: TrackRow, survey: _Survey, owners: dict[int, _Root]) -> None:
    if row.parent is None and layout.is_root(row.name):
        survey.roots.append(_Root(row.uuid, row.name))
        owners[row.uuid] = survey.roots[-1]
    elif row.parent is not None and (owner := owners.get(row.parent)) is not None:
        owners[row.uuid] = owner
        track = layout.parse(row.about)
        if track is not None and track.kind == "coldstep" and owner.run is None:
            owner.run = row.uuid
        elif track is not None and track.kind == "findings":
            owner.findings = row.uuid


def _snapshot(message: bytes) -> Snapshot:
    readings: dict[int, int] = {}
    for key, value in proto.fields(message):
        if key == ClockSnapshot.clocks and isinstance(value, bytes):
            clock = {k: v for k, v in proto.fields(value) if isinstance(v, int)}
            readings[clock[Clock.clock_id]] = clock[Clock.timestamp]
    return Snapshot(readings[proto.MONOTONIC], readings[proto.BOOTTIME], readings[proto.REALTIME], 0)


def _shifted(clock: Snapshot, ns: int) -> Snapshot:
    return Snapshot(clock.monotonic_ns + ns, clock.boottime_ns, clock.realtime_ns, clock.uncertainty_ns)


def _encoded(key: int, value: int | bytes) -> bytes:
    """A field as it was; none of those that we copy is a fixed one at this level."""
    return data(key, value) if isinstance(value, bytes) else number(key, value)
