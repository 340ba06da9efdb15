"""What `fleet.py` needs around a command: what it takes, a Ray cluster, an S3 server, and trouble."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

_EVERY_S = 0.2
_S3 = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_DEFAULT_REGION": "us-east-1",
}
RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
cluster.add_node(**node), cluster.add_node(**node)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
_STORE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
Meanwhile = Callable[[psutil.Process], None]


@dataclass(slots=True)
class Taken:
    """What a command took, its processes included."""

    said: str
    wall_s: float
    cpu_s: float
    peak_mb: float

    @property
    def last(self) -> str:
        """The last line that it said."""
        return (self.said.splitlines() or [""])[-1]


class Failed(Exception):
    """A command ended otherwise than it should."""


def coldstep(
    *words: object, meanwhile: Meanwhile | None = None, beside: psutil.Process | None = None, **environment: str
) -> Taken:
    """Run a command, and what it took, and what those `beside` it took meanwhile that work for it."""
    began, peak = time.monotonic(), 0.0
    others = [] if beside is None else [beside]
    before = _cpu(others)
    spent = dict(before)
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command(*words), env=os.environ | environment, stdout=out, stderr=out)
        watched = psutil.Process(process.pid)
        thread = threading.Thread(target=meanwhile or (lambda _: None), args=(watched,), daemon=True)
        thread.start()
        while True:
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, sum(_rss(each) for of in (watched, *others) for each in _tree(of)))
            spent |= _cpu(others)  # again and again: Ray does not add up what its dead had
            time.sleep(_EVERY_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        thread.join()
        out.seek(0)
        said = out.read()
    if process.returncode:
        lines = " / ".join(said.splitlines()[-3:])
        raise Failed(f"coldstep {' '.join(map(str, words))}: status {process.returncode}: {lines}")
    cpu = used.ru_utime + used.ru_stime + sum(spent.values()) - sum(before.values())
    return Taken(said, time.monotonic() - began, cpu, peak / 1e6)


def command(*words: object) -> list[str]:
    """One of ours."""
    return [sys.executable, "-m", "coldstep", *map(str, words)]


def _tree(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _rss(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss)
    except psutil.Error:
        return 0.0


def _cpu(processes: list[psutil.Process]) -> dict[psutil.Process, float]:
    """The processor time of each of them and their children."""
    found = {}
    for each in (each for of in processes for each in _tree(of)):
        try:
            found[each] = sum(each.cpu_times()[:2])
        except psutil.Error:
            continue
    return found


# --- trouble ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Killing:
    """Kills one of the processes that read, once some of it is there."""

    out: Path
    words: str
    """In the command of such a process."""
    whose: psutil.Process | None = None
    """It is a child of this one, else of the command."""
    killed: bool = False

    def __call__(self, fleet: psutil.Process) -> None:
        while fleet.is_running() and not any(self.out.glob("*/_SUCCESS")):
            time.sleep(0.02)
        while fleet.is_running() and not self.killed:
            for each in _tree(self.whose or fleet):
                if self.words in _words(each) and not self.killed:
                    each.kill()
                    self.killed = True
            time.sleep(0.02)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@dataclass(slots=True)
class Second:
    """A second writer of the same tables, once the first has written some."""

    words: tuple[object, ...]
    writing: Callable[[], object]
    """Whether the first has."""
    said: str = field(default="")
    code: int | None = None

    def __call__(self, first: psutil.Process) -> None:
        while first.is_running() and not self.writing():
            time.sleep(0.05)
        done = subprocess.run(command(*self.words), capture_output=True, text=True)
        self.said, self.code = done.stderr, done.returncode


# --- machines -----------------------------------------------------------------------------------------------------


@contextmanager
def cluster() -> Iterator[tuple[str, psutil.Process]]:
    """Three nodes of Ray on this machine: their address, and the process whose children they are."""
    with subprocess.Popen([sys.executable, "-c", _CLUSTER], env=os.environ | RAY, text=True, **_PIPES) as nodes:
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        yield nodes.stdout.readline().strip(), psutil.Process(nodes.pid)
        nodes.stdin.close()


@contextmanager
def bucket(traces: Path) -> Iterator[tuple[Any, str]]:
    """A bucket that has the traces, and among them what is cut, empty and foreign: the client of its server, and its
    name.

    The server is a process of its own: what it holds ends with it, and no other fleet is found there.
    """
    import boto3

    with subprocess.Popen([sys.executable, "-c", _STORE], text=True, **_PIPES) as store:
        assert store.stdin is not None
        assert store.stdout is not None
        port = store.stdout.readline().strip()
        os.environ.update(_S3, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        name = f"traces-{port}"  # of another server another, for file systems are kept by its address
        client = boto3.client("s3")
        client.create_bucket(Bucket=name)
        for path in traces.iterdir():
            client.upload_file(str(path), name, f"nightly/{path.name}")
        # of a trace that is there whole as well
        whole = (traces / "0.pftrace").read_bytes()
        for key, body in (("cut", whole[: len(whole) * 3 // 4]), ("empty", b""), ("page", b"<html>404</html>")):
            client.put_object(Bucket=name, Key=f"nightly/{key}.pftrace", Body=body)
        yield client, name
        store.stdin.close()
