"""Which job this process is of, what it is called there, and from whom it descends."""

from __future__ import annotations

import os
import re
import sys

import coldstep_shim
from coldstep._util.slotted import slotted
from coldstep.run_row import RunRow
from coldstep_shim import CHILDREN, FILE, JOB, MOST_ANCESTORS, parent_of

_MOST_NAME_CHARS = 40
_WAYS = {"multiprocessing.forkserver": "forkserver", "multiprocessing.spawn": "spawn", "popen_loky_posix": "spawn"}
_RAY = "ray::"  # what the titles of Ray's processes begin with
_ID_BYTES = 10
_IDLE = "IDLE"  # Ray's title between two tasks
_NAMELESS = "python"
"""What a process is called that runs no script and no module, but `python -c`."""


@slotted
class Job:
    """A job as one of its processes knows it."""

    id: str
    """Hexadecimal; the same in all its processes."""
    file: str
    """FILE: the root's own trace, and what the names of all others begin with."""
    root: int
    """The pid of its first process."""
    inherited_rank: str = ""
    """The RANK that the process above had: one that a launcher started as a rank has another."""
    rank_before_fork: str = ""
    """The RANK that this process had as it forked last: a child looks at it only where it records something."""
    name: str = ""
    """What this process is called, unless it gets a name of its own; empty: as its command."""

    @property
    def is_root(self) -> bool:
        """Whether this process is the first."""
        return os.getpid() == self.root

    @property
    def rank(self) -> int | None:
        """As which rank a launcher started this process; None of one that only inherits the variable."""
        text = os.environ.get("RANK", "")
        return int(text) if text.isdigit() and text != self.inherited_rank else None

    @property
    def inherits_rank(self) -> bool:
        """Whether the process above is the rank that RANK names, and this one none."""
        return bool(os.environ.get("RANK")) and self.rank is None

    def introduce(self, row: RunRow, *, is_fork: bool) -> None:
        """Say in a trace's row which process of the job it is of."""
        row.job, row.file = self.id, os.path.basename(self.file)
        row.ancestors = [] if self.is_root else ancestors(os.getppid(), self.root)
        row.how = "fork" if is_fork else "root" if self.is_root else way()
        self.call(row)

    def call(self, row: RunRow) -> None:
        """Say in that row what the process is called by now: a worker of Ray's has a task when it compiles, not when it
        imports a framework."""
        row.process_name = process_name(row.process_name or self.name)
        if row.how == "ray":
            row.command = [f"{_RAY}{rays_title()}"]  # as the system shows it, and not Ray's twenty words for it

    def before_fork(self) -> None:
        """This process forks."""
        self.rank_before_fork = os.environ.get("RANK", "")

    def in_child(self) -> None:
        """In a fork's child, which is no rank of its own."""
        self.inherited_rank = self.rank_before_fork

    def tell_children(self) -> None:
        """Have the processes that this one starts belong to it."""
        os.environ[FILE] = self.file
        os.environ[JOB] = f"{self.id}:{self.root}:{os.environ.get('RANK', '')}"


def of_environment() -> Job | None:
    """The job that the process was started in; None where there is none, or its children are not followed."""
    if not os.environ.get(FILE) or os.environ.get(CHILDREN) == "0":
        return None
    job, _, rest = os.environ.get(JOB, "").partition(":")
    root = rest.partition(":")[0]
    return Job(job, os.environ[FILE], int(root), coldstep_shim.inherited_rank) if job and root.isdigit() else None


def new_job(file: str, name: str) -> Job:
    """A job that begins with this process."""
    return Job(os.urandom(_ID_BYTES).hex(), file, os.getpid(), name=name)


def job_of_ranks(file: str, name: str) -> Job:
    """The job of ranks whose launcher is of none: by its own id for the run, else by the process that started them."""
    import hashlib  # takes as long as all else here, and is for these alone

    run = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    launcher = os.getppid()
    of = run if run != "none" else ":".join(str(number) for row in ancestors(launcher)[:1] for number in row)
    return Job(hashlib.sha256(f"{of}:{file}".encode()).hexdigest()[: 2 * _ID_BYTES], file, launcher, name=name)


def ancestors(pid: int, root: int = 1) -> list[list[int]]:
    """A process and those above it up to a root, nearest first: pid, and when it was started, in the system's ticks."""
    rows: list[list[int]] = []
    try:
        while pid > 0 and len(rows) < MOST_ANCESTORS:
            above, born = parent_of(pid)
            rows.append([pid, born])
            pid = above if pid != root else 0
    except (OSError, ValueError):
        pass  # gone meanwhile, or there is no /proc
    return rows


def way() -> str:
    """How this process was started, by its command; a fork's child knows that by itself."""
    if rays_title():
        return "ray"
    words = " ".join(sys.orig_argv)
    return next((how for mark, how in _WAYS.items() if mark in words), "subprocess")


def process_name(otherwise: str) -> str:
    """What the program calls this process: multiprocessing's name, the class of Ray's actor or the task that it runs,
    pytest-xdist's name, else the script or module."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    name = multiprocessing.current_process().name if multiprocessing is not None else "MainProcess"
    if name == "MainProcess":
        running = rays_title().partition(".")[0]  # "Model.step" of an actor
        name = running if running not in ("", _IDLE) else otherwise or program_name(sys.orig_argv[1:])
        if name == _NAMELESS:  # a worker of pytest-xdist's, and not what that starts
            name = os.environ.get("PYTEST_XDIST_WORKER") or name
    return re.sub(r"[^\w.]+", "_", name).strip("._")[:_MOST_NAME_CHARS] or _NAMELESS


def rays_title() -> str:
    """What Ray calls this worker of its, as the system shows it: "Model.step"; empty where it is none of Ray's."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            title = os.fsdecode(file.read()).partition("\0")[0]
    except OSError:
        return ""
    return title.removeprefix(_RAY) if title.startswith(_RAY) else ""


def program_name(words: list[str]) -> str:
    """What a command of Python's runs; its options may have values of their own."""
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        words = words[2:] if words[0] in ("-W", "-X", "--check-hash-based-pycs") else words[1:]
    if not words or words[0] in ("-c", "-"):
        return _NAMELESS
    if words[0] == "-m":
        return words[1].removesuffix(".__main__").rpartition(".")[2] if words[1:] else _NAMELESS
    stem = os.path.splitext(os.path.basename(words[0]))[0]
    return os.path.basename(os.path.dirname(words[0])) if stem == "__main__" else stem
