"""Makes a trace of logs: their lines go to the readers that know them, and what these have read is written to a file.

A log is read once, from front to back, and never held: what readers keep of it is a bounded number of events.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BufferedReader, FileIO
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, Protocol

from coldstep._util.gathered import gathered
from coldstep._util.installed import offers
from coldstep._util.slotted import field, slotted
from coldstep.blind_spots import left_open
from coldstep.clock import Snapshot
from coldstep.converting.rewrite import merge
from coldstep.converting.write_findings import write_findings
from coldstep.errors import TraceError, damaged, refuse_to_replace
from coldstep.events import CollectorState, Event, Note
from coldstep.loading import load
from coldstep.logs import prefix
from coldstep.logs.blocks import PIECE_BYTES, blocks, is_utf16
from coldstep.logs.containers import taken_out
from coldstep.logs.lanes import on_lanes
from coldstep.logs.marks import Marks
from coldstep.logs.prefix import Carried
from coldstep.logs.torch_trace_payloads import Payload
from coldstep.logs.twice import SECTION, Twice
from coldstep.pftrace.layout import FROM_LOG
from coldstep.recording.buffer import Thread
from coldstep.recording.output import BINARY, project_root
from coldstep.recording.recorder import Recorder
from coldstep.run_row import RunRow
from coldstep.vocabulary import package_of

GROUP = "coldstep.logs"
STDIN = "-"

_LOOKED_AT_BYTES = 1 << 13  # in which a binary file shows itself
_MAX_COMPILES = 5_000  # per reader and process
_MAX_BREAKS = 5_000
_SAID_EVERY_BYTES = 1 << 24  # between two words on the progress
_FLUSHED_EVERY_EVENTS = 1_000
_ON_TIMES = (
    " When things happened is not known: its lines have no times.",
    " Its lines name no year: it is taken to be the last that fits.",
    "",
)
"""In the trace's note, where the lines have no time, no year, both."""
# PyTorch 2.9, 2.13: "V1121 07:47:53.363000 32395 torch/_dynamo/gua"
# PyTorch 2.1: "[2023-11-14 10:41:12,330] [0/1] torch._dynamo.gua"
# Python: "  File "/venv/lib/python3.12/site-pack"
_CUT = re.compile(
    rb"[VIWEF]\d{4} \d[^\n]{0,200}$|\[\d{4}-[\d :,-]{15,25}\] (?:\[\d+/\d+\] )?torch[\w.]{0,99}$"
    rb"|  File \"(?:[/~]|[A-Z]:\\)[^\"\n]{0,999}$"
)


class LeftOut(str):
    """The message about a log that could not be read, where others could."""

    __slots__ = ()


@slotted
class Line:
    """A line of a log, without what carried it (`coldstep.log_lines`): colours, a launcher's words, a stamp."""

    text: str
    """Its text."""
    source: str
    """The file and line that logged it, where the log has them, with "/" on every system; else empty."""
    ns: int
    """When, by the log's own clock; where the line has no time, that of the line before."""


@slotted
class Seen:
    """What a reader has seen: the state, version and `missing` of the collector that would have seen the same."""

    state: str
    """attached | partial"""
    version: str | None
    """The framework's; None where it is not known."""
    missing: list[str]
    parts: tuple[str, ...] = ()
    """Further collectors that would have seen a part of it."""
    cut: bool = False
    """The log ends in the middle of something."""
    is_unasked: bool = False
    """It is of lines printed with no setting at all: it counts where no other reader of that name has seen anything."""


@slotted
class Log:
    """One process's log, as a reader sees it: takes its events, in any order."""

    _ids: Iterator[int]
    events: list[Event] = field(default_factory=list)
    """Those that readers have emitted."""
    dropped: int = 0
    """How many there was no room for."""
    _compiles: int = 0
    _breaks: int = 0

    def emit(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    def new_compile(self) -> str | None:
        """An id for one more compile; None where there are too many already, and it is counted as dropped."""
        self._compiles += 1
        if self._compiles > _MAX_COMPILES:
            self.dropped += 1
            return None
        return f"c{next(self._ids)}"

    def takes_break(self) -> bool:
        """Whether one more graph break is kept, likewise."""
        self._breaks += 1
        self.dropped += self._breaks > _MAX_BREAKS
        return self._breaks <= _MAX_BREAKS


class LogReader(Protocol):
    """Understands one kind of lines in the log of one process; made with that process's `Log`."""

    name: ClassVar[str]
    """The collector that would have seen the same. Of several readers of one name, the fullest counts."""
    marks: ClassVar[tuple[bytes, ...]]
    """A line that is for this reader holds one of these, but where `goes_on` is true: then it may be any line."""
    goes_on: bool
    """Whether the lines that follow may belong to the last one."""

    def read(self, line: Line) -> bool:
        """Take in a line. Returns whether it was one for this reader."""

    def end(self) -> Seen | None:
        """The log has ended: emit the rest. None where there was nothing for this reader."""


class Maker(Protocol):
    """A class of readers, as the entry points name them."""

    marks: tuple[bytes, ...]
    """Those of the reader that it makes."""

    def __call__(self, log: Log, /) -> LogReader: ...


def convert(paths: Sequence[str], out: str, progress: Callable[[int, int | None], None]) -> list[str]:
    """Write the trace that the logs at `paths` make to `out`; a folder stands for the logs in it, "-" is stdin.

    `progress(bytes read, bytes in all, if known)` is called now and then. Returns a message for each log that ends
    in the middle of something, and a `LeftOut` for each that cannot be read. Raises TraceError for a file that no
    reader knows, or that is `out` itself, OSError when `out` cannot be written. Ctrl-C ends stdin, not the report.
    """
    makers = [offer.load() for offer in sorted(offers(), key=attrgetter("name")) if offer.group == GROUP]
    files = list(_files(paths))
    refuse_to_replace([path for path in files if path != STDIN], out)
    total = sum(map(_size, files)) if STDIN not in files else None
    logs = _Logs(makers)
    read = 0
    lost: list[TraceError] = []
    for path in files:
        try:
            with _opened(path) as file:
                for size in logs.read(path, file):
                    if read // _SAID_EVERY_BYTES != (read + size) // _SAID_EVERY_BYTES:
                        progress(read + size, total)
                    read += size
        except TraceError as error:
            if len(files) == 1:
                raise
            lost.append(error)
        except KeyboardInterrupt:
            if path != STDIN:
                raise
    processes = logs.finish()
    if not processes:
        if lost and not read:
            raise lost[0]
        what = files[0] if len(files) == 1 else f"none of {len(files)} files"
        lines = "holds no line of TORCH_LOGS, TORCH_TRACE, JAX's compile log or torch_xla's debug report"
        if logs.understood:
            lines = "holds no compile (coldstep does not read the logs of torch.export and AOTInductor)"
        raise TraceError(f"{what} {lines if read else 'is empty'}: nothing to diagnose")
    logs.complaints += [text for process in processes for text in process.complaints]
    _write(processes, [path for path in files if path != STDIN], out, bool(logs.complaints))
    return [*(LeftOut(f"left out: {error}") for error in lost), *logs.complaints]


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            yield path
            continue
        try:
            files = sorted(entry for entry in Path(path).iterdir() if entry.is_file())
        except OSError as error:
            raise TraceError(f"cannot read {path}: {error.strerror}") from None
        if not files:
            raise TraceError(f"{path} is an empty folder")
        yield from map(str, [entry for entry in files if entry.suffix == ".log"] or files)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # whoever opens it says so
        return 0


def _opened(path: str) -> BufferedReader:
    try:
        return BufferedReader(FileIO(0, closefd=False) if path == STDIN else FileIO(path), PIECE_BYTES)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None


# --- reading ------------------------------------------------------------------------------------------------------


@slotted
class _Reading:
    """A reader, and what it has read."""

    reader: LogReader
    log: Log
    used: bool = False
    seen: Seen | None = None

    @property
    def fullness(self) -> tuple[bool, int]:
        """Of several readings of the same, the one with the greatest counts."""
        return self.seen is not None and not self.seen.is_unasked, len(self.log.events)


class _Process:
    """What the log tells of one process."""

    def __init__(self, makers: Iterable[Maker], ids: Iterator[int]) -> None:
        self.pid: int | None = None
        self.rank: int | None = None
        self.worker = ""
        self.readings = [_Reading(make(log), log) for make in makers for log in (Log(ids),)]
        self.first_ns = self.ns = 0
        self.is_timed = False
        """Whether any of its lines tells the time."""
        self.is_dated = False
        """Whether any tells the year."""
        self.twice = Twice()
        self.complaints: list[str] = []

    @property
    def goes_on(self) -> bool:
        return any(reading.reader.goes_on for reading in self.readings)

    def read(self, line: Line) -> bool:
        """Hand a line to whom it is for."""
        self.ns = max(self.ns, line.ns)
        self.first_ns = self.first_ns or line.ns
        taken = [reading for reading in self.readings if reading.reader.read(line)]  # each knows where its own ends
        for reading in taken:
            reading.used = True
        return bool(taken)

    def may_be(self, line: Carried) -> bool:
        """Whether a line that names this number, rank and worker can be its own. A rank is started again with another
        number; in containers, several ranks have one."""
        pairs = ((self.pid, line.pid), (self.rank, line.rank), (self.worker or None, line.worker or None))
        return all(None in pair or pair[0] == pair[1] for pair in pairs)

    def take_names(self, line: Carried) -> None:
        """It is the process of this line: take over its number, rank and worker."""
        self.pid = self.pid or line.pid
        self.rank = self.rank if line.rank is None else line.rank
        self.worker = self.worker or line.worker

    def continues_in(self, other: _Process) -> bool:
        """Whether another file holds more of the same process. In containers many have one number: two readings of the
        same kind are of two processes."""
        own, others = ({type(row.reader) for row in each.readings if row.used} for each in (self, other))
        names = [(each.pid, each.rank, each.worker) for each in (self, other)]
        return self.pid is not None and names[0] == names[1] and not own & others

    def finish(self, what: str) -> None:
        """Keep, of several readings of the same, the fullest one."""
        for reading in self.readings:
            reading.seen = reading.reader.end()
        by_name = gathered((row.reader.name, row) for row in self.readings if row.seen is not None)
        self.readings = [max(rows, key=attrgetter("fullness")) for rows in by_name.values()]
        if any(reading.seen is not None and reading.seen.cut for reading in self.readings):
            self.complaints.append(f"{what} is cut, or its program ended there: in the middle of a compile")


class _Logs:
    """Sorts the lines of all files by process."""

    def __init__(self, makers: Sequence[Maker]) -> None:
        self._makers = makers
        self._marks = Marks([SECTION, *(mark for make in makers for mark in make.marks)])
        self._ids = count()
        self._processes: list[_Process] = []
        self._of_file: dict[str, _Process] = {}
        self._last: _Process | None = None
        self._path = ""
        self._labels: bool | None = None
        """Whether "3: " before a line of this file names a rank; None where no line was seen yet."""
        self._now = datetime.now(UTC)
        self._first_ns = 0
        self.complaints: list[str] = []
        self.understood = False
        """Whether any line was for any reader."""

    def read(self, path: str, file: BufferedReader) -> Iterator[int]:
        """Read a file through; yields the size of each piece. Raises TraceError for a file that is no text."""
        self._path, self._last, self._of_file, self._labels = path, None, {}, None
        self._rank = prefix.rank_of(os.path.basename(path))
        if path != STDIN:
            self._now = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        begin = file.peek(_LOOKED_AT_BYTES)[:_LOOKED_AT_BYTES]
        if b"\0" in begin and not is_utf16(begin):
            raise TraceError(f"{path} is no log: it is binary")
        self._first_ns = self._first_time(begin)
        ours, last = False, b"\n"
        payload = Payload()
        for size, block in blocks(file):
            if block:
                payload.take(block)
                ours, last = self._take_block(block), block
            yield size
        unended = last[-1:] != b"\n" and (ours or _CUT.search(last, len(last) - PIECE_BYTES))
        if payload.is_cut if payload.is_known else unended:
            self.complaints.append(f"{path} is cut in the middle of a line: what came after is not known")

    def _take_block(self, block: bytes) -> bool:
        """Returns whether its last line was for any reader."""
        ours = False
        self._labels = prefix.labels_ranks(block) if self._labels is None else self._labels
        for line, has_mark, is_last in self._marks.lines(block, self._goes_on):
            taken = False
            for text in taken_out(line.decode("utf-8", "replace")):
                taken |= self._take(text, has_mark)
            self.understood |= taken
            ours = taken and is_last
        return ours

    def _goes_on(self) -> bool:
        """Whether the next line may be for somebody, whatever is in it."""
        return self._last is not None and self._last.goes_on

    def finish(self) -> list[_Process]:
        """The processes of which something is known."""
        processes: list[_Process] = []
        for process in self._processes:
            same = next((other for other in processes if other.continues_in(process)), None)
            if same is None:
                processes.append(process)
            else:
                same.readings += process.readings
        for process in processes:
            with damaged(self._path):
                process.finish(self._path if len(processes) == 1 else f"the log of process {process.pid}")
        return [process for process in processes if process.readings]

    def _take(self, text: str, has_mark: bool) -> bool:
        if SECTION.decode() in text:
            for each in self._processes:
                each.twice.begin_section(text)
        carried = prefix.read(text, bool(self._labels))
        process = self._process(carried)
        process.is_timed |= bool(carried.stamp or carried.date)
        process.is_dated |= bool(carried.date)
        if process.twice.is_again(carried, has_mark):
            return True
        try:
            return process.read(Line(carried.text, carried.source, self._time(carried) or process.ns))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise TraceError(f"{self._path} is damaged: {type(error).__name__} at the line {text[:80]!r}") from error

    def _time(self, line: Carried) -> int:
        if line.stamp is not None:
            return self._stamp(*line.stamp)
        ns = 0 if self._last is not None and self._last.ns else self._first_ns
        with suppress(ValueError):  # looks like a date, and is none
            ns = _ns(line.date) if line.date else ns
        return ns

    def _first_time(self, begin: bytes) -> int:
        """The first time that a file names near its begin, which lines before it take on; else when it was written."""
        self._first_ns = 0
        lines = map(prefix.read, begin.decode("utf-8", "replace").splitlines())
        return next(filter(None, map(self._time, lines)), round(self._now.timestamp() * 1e9))

    def _process(self, line: Carried) -> _Process:
        """Whose line it is: the process's that it names by number, rank or worker, or that of the last line before."""
        line.rank = self._rank if line.rank is None else line.rank
        names = [f"pid {line.pid}"] * (line.pid is not None) + [f"rank {line.rank}"] * (line.rank is not None)
        names += [f"worker {line.worker}"] * bool(line.worker)
        if not names and self._last is not None:
            return self._last
        if len(names) > 1:
            names.append(" ".join(names))
        known = (self._of_file[name] for name in reversed(names) if name in self._of_file)
        process = next((each for each in known if each.may_be(line)), None)
        if names and not self._of_file:  # the lines before, which name none, are of the first that is named
            process = self._last
        if process is None:
            process = _Process(self._makers, self._ids)
            self._processes.append(process)
        process.take_names(line)
        self._of_file |= dict.fromkeys(names, process)
        self._last = process
        return process

    def _stamp(self, day: str, time: str) -> int:
        """A stamp without a year is of the last such day before the log was written, or before now."""
        for year in (self._now.year, self._now.year - 1):
            try:
                ns = _ns(f"{year}-{day[:2]}-{day[2:]}T{time}")
            except ValueError:
                continue  # the 29th of February
            if ns <= (self._now + timedelta(days=2)).timestamp() * 1e9:
                return ns
        return round(self._now.timestamp() * 1e9)


def _ns(date: str) -> int:
    """A date as nanoseconds; one without a zone is taken for UTC."""
    whole, _, fraction = re.sub(r"(?:Z|[+-]\d\d:?\d\d)$", "", date.replace(",", ".").replace("/", "-")).partition(".")
    zone = re.search(r"[+-]\d\d:?\d\d$", date[10:])
    second = datetime.fromisoformat(f"{whole}{zone[0] if zone else '+00:00'}")
    return round(second.timestamp()) * 1_000_000_000 + int(f"{fraction:0<9.9}" or 0)


# --- writing ------------------------------------------------------------------------------------------------------


def _write(processes: list[_Process], names: list[str], out: str, cut: bool) -> None:
    boot = f"log {os.urandom(8).hex()}"  # they share one clock: the log's
    if len(processes) == 1:
        _write_one(processes[0], names, out, cut, boot)
        return
    with tempfile.TemporaryDirectory(prefix="coldstep-") as folder:
        parts = [os.path.join(folder, f"{number}.pftrace") for number in range(len(processes))]
        for process, part in zip(processes, parts, strict=True):
            _write_one(process, names, part, cut, boot)
        merge(parts, out)


def _write_one(process: _Process, names: list[str], out: str, cut: bool, boot: str) -> None:
    events = sorted((event for reading in process.readings for event in reading.log.events), key=lambda event: event.ns)
    begin = events[0].ns if events else process.first_ns
    end = max(begin + 1, events[-1].ns if events else process.ns)
    home = Thread(process.pid or 1, "MainThread")
    start, stop = (Snapshot(ns, ns, ns, 0) for ns in (begin, end))
    row = RunRow(
        root=project_root(),
        tid=home.tid,
        started=datetime.fromtimestamp(begin / 1e9, UTC).isoformat(timespec="milliseconds") if process.is_timed else "",
        pid=process.pid or 0,
        boot=boot,
        rank=process.rank,
        host=process.worker.replace("\t", " / "),
        collectors=[reading.reader.name for reading in process.readings],
    )
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
    try:
        recorder = Recorder(fd, home, process.rank, start, row.at_begin())
        where = f" of {', '.join(map(os.path.basename, names))}" if names else ""
        untimed = _ON_TIMES[process.is_timed + process.is_dated]
        recorder.handle(Note(begin, f"{FROM_LOG}{where}, not by watching the program.{untimed}"), home)
        for reading in process.readings:
            if (seen := reading.seen) is None:
                continue
            name, missing = reading.reader.name, list(seen.missing)
            if reading.log.dropped:
                missing.insert(0, f"{reading.log.dropped:,} more compiles and graph breaks, which are too many")
            state = "partial" if reading.log.dropped else seen.state
            blind = left_open(name, state, missing)
            recorder.handle(CollectorState(begin, name, state, seen.version, missing, blind), home)
            for part in seen.parts:
                recorder.handle(CollectorState(begin, part, state, seen.version, [], []), home)
            if seen.version:
                row.versions[package_of(name)] = seen.version
        for number, (event, thread) in enumerate(on_lanes(events, home)):
            recorder.handle(event, thread)
            if number % _FLUSHED_EVERY_EVENTS == 0:
                recorder.flush()
        row.ended = "killed" if cut else "ok"
        recorder.finish(end, row.at_end(), stop)
        recorder.flush()
        write_findings(load(out), recorder.writer, [recorder.findings])
    finally:
        os.close(fd)
