"""Makes a trace of logs: their lines go to the readers that know them, and what these have read is written to a file.

A log is read once, from front to back, and never held: what readers keep of it is a bounded number of events.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime, timedelta
from io import BufferedReader, FileIO
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, Protocol

from coldstep.blind_spots import left_open
from coldstep.clock import Snapshot
from coldstep.errors import TraceError, damaged, refuse_to_replace
from coldstep.events import CollectorState, Event, Note
from coldstep.hindsight import write_findings
from coldstep.installed import offers
from coldstep.loading import load
from coldstep.output import BINARY, project_root
from coldstep.pftrace.layout import FROM_LOG
from coldstep.recorder import Recorder, Thread
from coldstep.rewrite import merge
from coldstep.run_row import RunRow
from coldstep.slotted import slotted
from coldstep.torch_trace_payloads import Payload
from coldstep.vocabulary import package_of

GROUP = "coldstep.logs"
STDIN = "-"

_PIECE_BYTES = 1 << 20  # that are read at once, and of one line that are looked at
_LOOKED_AT_BYTES = 1 << 13  # in which a binary file shows itself
_MAX_COMPILES = 5_000  # per reader and process
_MAX_BREAKS = 5_000
_SAID_EVERY_BYTES = 1 << 24  # between two words on the progress
_FLUSHED_EVERY_EVENTS = 1_000
_LAST_PID = 1 << 22  # of Linux; what PyTorch 2.3 and older put into its place is a thread's number

# GitHub: "\x1b[36mtext"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# PyTorch 2.9, 2.13: "V1121 07:47:53.363000 32395 torch/_dynamo/guards.py:5396] text"
# whatever a launcher has put before it
_STAMPED = re.compile(
    r"(?P<before>.*?)[VIWEF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d\.\d+) +(?P<pid>\d+) "
    r"(?P<source>\S+:\d+)\] ?"
)
# PyTorch 2.9, 2.13: "V1121 07:47:53.363000 32395 torch/_dynamo/gua"
_CUT_STAMP = re.compile(r"[VIWEF]\d{4} \d")
# PyTorch 2.13: "[rank0]:V1121 07:47:53.363000 32395 torch/_dynamo/guards.py:5396] text"
# PyTorch 2.13: "dedicated_log_torch_trace_rank_0_6u3fubwl.log"
_RANK = re.compile(r"\[(?:rank|default)(\d+)\]|_rank_(\d+)(?:_|\.log\b)")
# GitHub: "2026-11-21T07:47:53.1234567Z text"
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_WITHIN_CHARS = 200  # of a line in which a date or a rank is looked for


@slotted
class Line:
    """A line of a log, without colours, and without the stamp that a framework has put before it."""

    text: str
    """What it says."""
    source: str
    """The file and line that logged it, where the stamp says so; else empty, and `text` is the whole line."""
    ns: int
    """When, by the log's own clock; where it does not tell, the time of what came before."""


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
    """The collector that would have seen the same. Of several readers of one name, the one with most to tell counts."""
    marks: ClassVar[tuple[bytes, ...]]
    """A line that is for this reader holds one of these, but where `goes_on` is true: then it may be any line."""
    goes_on: bool
    """Whether the lines that follow may belong to the last one."""

    def read(self, line: Line) -> bool:
        """Take in a line. Returns whether it was one for this reader."""

    def end(self) -> Seen | None:
        """The log has ended: emit what is left. None where there was nothing for this reader."""


class Maker(Protocol):
    """A class of readers, as the entry points name them."""

    marks: tuple[bytes, ...]
    """Those of the reader that it makes."""

    def __call__(self, log: Log, /) -> LogReader: ...


def convert(paths: Sequence[str], out: str, progress: Callable[[int, int | None], None]) -> list[str]:
    """Write the trace that the logs at `paths` make to `out`; a folder stands for the logs in it, "-" is stdin.

    `progress(bytes read, bytes in all, if known)` is called now and then. Returns what there is to say of logs that
    end in the middle of something. Raises TraceError for what is no log that any reader knows, or is `out`
    itself, OSError when `out` cannot be written.
    """
    makers = [offer.load() for offer in sorted(offers(), key=attrgetter("name")) if offer.group == GROUP]
    files = list(_files(paths))
    refuse_to_replace([path for path in files if path != STDIN], out)
    total = sum(map(_size, files)) if STDIN not in files else None
    logs = _Logs(makers)
    read = 0
    for path in files:
        with _opened(path) as file:
            for size in logs.read(path, file):
                if read // _SAID_EVERY_BYTES != (read + size) // _SAID_EVERY_BYTES:
                    progress(read + size, total)
                read += size
    processes = logs.finish()
    if not processes:
        what = files[0] if len(files) == 1 else f"none of {len(files)} files"
        lines = "holds no line of TORCH_LOGS, TORCH_TRACE, JAX's compile log or torch_xla's debug report"
        if logs.understood:
            lines = "tells of no compile (what torch.export and AOTInductor do is not read)"
        raise TraceError(f"{what} {lines if read else 'is empty'}: nothing to diagnose")
    logs.complaints += [text for process in processes for text in process.complaints]
    _write(processes, [path for path in files if path != STDIN], out, bool(logs.complaints))
    return logs.complaints


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
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None


def _opened(path: str) -> BufferedReader:
    try:
        return BufferedReader(FileIO(0, closefd=False) if path == STDIN else FileIO(path), _PIECE_BYTES)
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


class _Process:
    """What the log tells of one process."""

    def __init__(self, pid: int | None, makers: Iterable[Maker], ids: Iterator[int]) -> None:
        self.pid = pid
        self.rank: int | None = None
        self.readings = [_Reading(make(log), log) for make in makers for log in (Log(ids),)]
        self.first_ns = self.ns = 0
        self.complaints: list[str] = []

    @property
    def goes_on(self) -> bool:
        return any(reading.reader.goes_on for reading in self.readings)

    def read(self, line: Line) -> bool:
        """Hand a line to whom it is for."""
        self.ns = max(self.ns, line.ns)
        self.first_ns = self.first_ns or line.ns
        taken = False
        for reading in self.readings:  # each has its own idea of where something ends
            if reading.reader.read(line):
                reading.used = taken = True
        return taken

    def may_be(self, pid: int | None, rank: int | None) -> bool:
        """Whether a line of this number and rank can be its own. A rank is started again with another number; in
        containers, several ranks have one."""
        return all(None in (mine, other) or mine == other for mine, other in ((self.pid, pid), (self.rank, rank)))

    def continues_in(self, other: _Process) -> bool:
        """Whether another file tells more of the same process. In containers many have one number: what is told in the
        same way twice is of two."""
        mine, others = ({type(row.reader) for row in each.readings if row.used} for each in (self, other))
        return self.pid is not None and (self.pid, self.rank) == (other.pid, other.rank) and not mine & others

    def finish(self, what: str) -> None:
        """Keep, of several readings of the same, the one that tells most."""
        for reading in self.readings:
            reading.seen = reading.reader.end()
        best: dict[str, _Reading] = {}
        for reading in (each for each in self.readings if each.seen is not None):
            known = best.get(reading.reader.name)
            if known is None or len(known.log.events) < len(reading.log.events):
                best[reading.reader.name] = reading
        self.readings = list(best.values())
        if any(reading.seen is not None and reading.seen.cut for reading in self.readings):
            self.complaints.append(f"{what} is cut, or its program ended there: in the middle of a compile")


class _Logs:
    """Sorts the lines of all files by process."""

    def __init__(self, makers: Sequence[Maker]) -> None:
        self._makers = makers
        self._marks = tuple(dict.fromkeys(mark for make in makers for mark in make.marks))
        self._ids = count()
        self._processes: list[_Process] = []
        self._of_file: dict[str, _Process] = {}
        self._last: _Process | None = None
        self._path = ""
        self._now = datetime.now(UTC)
        self.complaints: list[str] = []
        self.understood = False
        """Whether any line was for any reader."""

    def read(self, path: str, file: BufferedReader) -> Iterator[int]:
        """Read a file through; yields the size of each piece. Raises TraceError for a file that is no text."""
        self._path, self._last, self._of_file = path, None, {}
        self._rank = _rank(os.path.basename(path))
        if path != STDIN:
            self._now = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        if b"\0" in file.peek(_LOOKED_AT_BYTES)[:_LOOKED_AT_BYTES]:
            raise TraceError(f"{path} is no log: it is binary")
        ours, last, block = False, b"", b"\n"
        payload = Payload()
        for block in _blocks(file):
            payload.take(block)
            if self._goes_on() or any(mark in block for mark in self._marks):
                for last in block.removesuffix(b"\n").split(b"\n"):
                    wanted = self._goes_on() or any(mark in last for mark in self._marks)
                    ours = wanted and self._take(last.decode("utf-8", "replace"))
                    self.understood |= ours
            else:
                ours, last = False, block[-_WITHIN_CHARS:]
            yield len(block)
        unended = block[-1:] != b"\n" and (ours or _CUT_STAMP.search(last.decode("utf-8", "replace")))
        if payload.is_cut if payload.is_known else unended:
            self.complaints.append(f"{path} is cut in the middle of a line: what came after is not known")

    def _goes_on(self) -> bool:
        """Whether the next line may be for somebody, whatever is in it."""
        return self._last is not None and self._last.goes_on

    def finish(self) -> list[_Process]:
        """The processes of which something is known."""
        found: list[_Process] = []
        for process in self._processes:
            same = next((other for other in found if other.continues_in(process)), None)
            if same is None:
                found.append(process)
            else:
                same.readings += process.readings
        for process in found:
            with damaged(self._path):
                process.finish(self._path if len(found) == 1 else f"the log of process {process.pid}")
        return [process for process in found if process.readings]

    def _take(self, text: str) -> bool:
        text = _ANSI.sub("", text).rstrip("\r\n")
        stamp = _STAMPED.match(text)
        process = self._process(stamp, text)
        try:
            return process.read(self._line(text, stamp, process.ns))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise TraceError(f"{self._path} is damaged: {type(error).__name__} at the line {text[:80]!r}") from error

    def _line(self, text: str, stamp: re.Match[str] | None, before_ns: int) -> Line:
        if stamp is not None:
            ns = self._stamp(f"{stamp['month']}-{stamp['day']}", stamp["time"])
            return Line(text[stamp.end() :], stamp["source"], ns)
        date = _DATE.search(text, 0, _WITHIN_CHARS)
        ns = before_ns or round(self._now.timestamp() * 1e9)
        with suppress(ValueError):  # looks like a date, and is none
            ns = _ns(date[0]) if date is not None else ns
        return Line(text, "", ns)

    def _process(self, stamp: re.Match[str] | None, text: str) -> _Process:
        """Whose line it is: the process's that its stamp names, or of its rank, or that of the last line before."""
        rank = _rank(stamp["before"] if stamp is not None else text[:_WITHIN_CHARS])
        rank = self._rank if rank is None else rank
        number = int(stamp["pid"]) if stamp is not None else 0
        pid = number if 0 < number <= _LAST_PID else None
        if pid is None and rank is None and self._last is not None:
            return self._last
        names = [f"pid {pid}"] if pid is not None else []
        names += [f"rank {rank}"] if rank is not None else []
        names += [" ".join(names)] if len(names) > 1 else []
        known = (self._of_file[name] for name in reversed(names) if name in self._of_file)
        process = next((each for each in known if each.may_be(pid, rank)), None)
        if process is None:
            process = _Process(pid, self._makers, self._ids)
            self._processes.append(process)
        process.pid = process.pid or pid
        process.rank = process.rank if rank is None else rank
        self._of_file |= dict.fromkeys(names, process)
        self._last = process
        return process

    def _stamp(self, day: str, time: str) -> int:
        """A stamp without a year is of the last such day before the log was written, or before now."""
        for year in (self._now.year, self._now.year - 1):
            try:
                ns = _ns(f"{year}-{day}T{time}")
            except ValueError:
                continue  # the 29th of February
            if ns <= (self._now + timedelta(days=2)).timestamp() * 1e9:
                return ns
        return round(self._now.timestamp() * 1e9)


def _blocks(file: BufferedReader) -> Iterator[bytes]:
    """The file in pieces that end where a line ends; of a line that is too long, its beginning."""
    begun = b""
    while piece := file.read(_PIECE_BYTES):
        end = piece.rfind(b"\n") + 1
        if end:
            yield begun + piece[:end]
            begun = piece[end:]
        else:
            begun = (begun + piece)[:_PIECE_BYTES]
    if begun:
        yield begun


def _rank(text: str) -> int | None:
    found = _RANK.search(text)
    return int(found[1] or found[2]) if found is not None else None


def _ns(date: str) -> int:
    """A date as nanoseconds; one without a zone is taken for UTC."""
    whole, _, fraction = re.sub(r"(?:Z|[+-]\d\d:?\d\d)$", "", date.replace(",", ".")).partition(".")
    zone = re.search(r"[+-]\d\d:?\d\d$", date[10:])
    found = datetime.fromisoformat(f"{whole}{zone[0] if zone else '+00:00'}")
    return round(found.timestamp()) * 1_000_000_000 + int(f"{fraction:0<9.9}" or 0)


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
        started=datetime.fromtimestamp(begin / 1e9, UTC).isoformat(timespec="milliseconds"),
        pid=process.pid or 0,
        boot=boot,
        rank=process.rank,
        collectors=[reading.reader.name for reading in process.readings],
    )
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
    try:
        recorder = Recorder(fd, home, process.rank, start, row.at_begin())
        where = f" of {', '.join(map(os.path.basename, names))}" if names else ""
        recorder.handle(Note(begin, f"{FROM_LOG}{where}, not by watching the program."), home)
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
        for number, event in enumerate(events):
            recorder.handle(event, home)
            if number % _FLUSHED_EVERY_EVENTS == 0:
                recorder.flush()
        row.ended = "killed" if cut else "ok"
        recorder.finish(end, row.at_end(), stop)
        recorder.flush()
        writer, track = recorder.findings
        write_findings(load(out), writer, [track])
    finally:
        os.close(fd)
