"""What `fleet.py` needs around a command: what it takes, a Ray cluster an S3 server, and trouble."""

from __future__ import annotations

import logging
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
_PORT = 5577
S3 = {
    "AWS_ENDPOINT_URL": f"http://127.0.0.1:{_PORT}",
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
Meanwhile = Callable[[psutil.Process], None]


@dataclass(slots=True)
class Taken:
    """What a command took, its processes included."""

    said: str
    wall_s: float
    cpu_s: float
    peak_mb: float


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
    assert process.returncode == 0, said
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
        while not any(self.out.glob("_batches/*.json")):
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
    """A second writer of the same tables, once the first is there."""

    words: tuple[object, ...]
    writing: Callable[[], bool]
    """Whether the first is."""
    said: str = field(default="")
    code: int | None = None

    def __call__(self, _: psutil.Process) -> None:
        while not self.writing():
            time.sleep(0.05)
        done = subprocess.run(command(*self.words), capture_output=True, text=True)
        self.said, self.code = done.stderr, done.returncode


# --- machines -----------------------------------------------------------------------------------------------------


@contextmanager
def cluster() -> Iterator[tuple[str, psutil.Process]]:
    """Three nodes of Ray on this machine: their address, and the process whose children they are."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", _CLUSTER], env=os.environ | RAY, text=True, **pipes) as nodes:
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        yield nodes.stdout.readline().strip(), psutil.Process(nodes.pid)
        nodes.stdin.close()


@contextmanager
def bucket(traces: Path) -> Iterator[Any]:
    """An S3 server of this machine, whose bucket has the traces, and among them what is cut, empty and foreign: its
    client."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which tells of each request
    os.environ.update(S3)
    server = ThreadedMotoServer(port=_PORT, verbose=False)
    server.start()
    client = boto3.client("s3")
    client.create_bucket(Bucket="traces")
    for path in traces.iterdir():
        client.upload_file(str(path), "traces", f"nightly/{path.name}")
    # of a trace that is there whole as well
    whole = (traces / "0.pftrace").read_bytes()
    for name, body in (("cut", whole[: len(whole) * 3 // 4]), ("empty", b""), ("page", b"<html>404</html>")):
        client.put_object(Bucket="traces", Key=f"nightly/{name}.pftrace", Body=body)
    try:
        yield client
    finally:
        server.stop()
