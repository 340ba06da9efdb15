"""Fleets of traces: what reading and reporting them takes, here, on a Ray cluster of three nodes and from an S3 server;
that what was planted in them is named, and nothing where nothing was; and that DuckDB and Spark answer alike.

    make venv-fleet && .venv-fleet/bin/python benchmarks/fleet.py --output docs/fleet.md

The clusters and servers are this machine's own, begun and ended here.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import fleet_of  # noqa: E402

from coldstep_viewers.fleet.report import report  # noqa: E402

_KILLED_AFTER_S = 1.5
_LARGE = 5_000
_PORT = 5577
_S3 = {
    "AWS_ENDPOINT_URL": f"http://127.0.0.1:{_PORT}",
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
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
_PAGE = """# Fleets, measured

Written by `benchmarks/fleet.py` on {day} at {commit}, on {processors} processors. Each figure is one run; the peak is
of all processes of the command together. "Planted" has a difference of each of the ten kinds, "plain" none.

| | wall, s | CPU, s | peak, MB | |
| --- | --- | --- | --- | --- |
{table}
"""


@dataclass
class Taken:
    """What a command took, its processes included."""

    said: str
    wall_s: float
    cpu_s: float
    peak_mb: float


def coldstep(*words: object, meanwhile: Callable[[psutil.Process], None] | None = None, **environment: str) -> Taken:
    """Run a command, and what it took."""
    began, peak = time.monotonic(), 0.0
    command = [sys.executable, "-m", "coldstep", *map(str, words)]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=out, stderr=out)
        watched = psutil.Process(process.pid)
        if meanwhile is not None:
            threading.Thread(target=meanwhile, args=(watched,), daemon=True).start()
        while True:
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, sum(map(_rss, [watched, *_children(watched)])))
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read()
    assert process.returncode == 0, said
    return Taken(said, time.monotonic() - began, used.ru_utime + used.ru_stime, peak / 1e6)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _rss(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss)
    except psutil.Error:
        return 0.0


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def kill_a_worker(fleet: psutil.Process) -> None:
    """One of the command's own."""
    while not (workers := [each for each in _children(fleet) if "spawn_main" in _words(each)]):
        time.sleep(0.05)
    time.sleep(_KILLED_AFTER_S)
    workers[0].kill()


def kill_a_task(_: psutil.Process) -> None:
    """One of the cluster's processes, while it reads: the cluster is a child of this process."""
    while True:
        for each in _children(psutil.Process()):
            if _words(each).startswith("ray::_ingest"):
                each.kill()
                return
        time.sleep(0.05)


@contextmanager
def cluster() -> Iterator[str]:
    """Three nodes of Ray on this machine; their address."""
    command = [sys.executable, "-c", _CLUSTER]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | _RAY, text=True, **pipes) as nodes:
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        yield nodes.stdout.readline().strip()
        nodes.stdin.close()


@contextmanager
def bucket(traces: Path) -> Iterator[str]:
    """An S3 server of this machine, that has the traces, and among them what is cut, empty and foreign."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which tells of each request
    os.environ.update(_S3)
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
        yield "s3://traces"
    finally:
        server.stop()


def verdict(tables: object, truth: dict[str, tuple[str, ...]]) -> str:
    """How much of the truth is named, and what else is found."""
    found = report(str(tables))
    lost = sorted(truth.keys() - fleet_of.named(found, truth))
    said = f"{len(truth) - len(lost)} of {len(truth)} kinds named, {len(found.findings)} findings"
    return said + (f"; not: {', '.join(lost)}" if lost else "")


# --- the documented questions -------------------------------------------------------------------------------------


def questions(folder: Path) -> list[str]:
    """A row for each: what it took in DuckDB and in Spark, and whether both say the same of `folder`/tables."""
    import duckdb
    from pyspark.sql import SparkSession

    page = (ROOT / "docs/tables.md").read_text().partition("## Fleets")[2]
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    asked = re.findall(r"```sql\n-- (.*?)\n(.*?)```", page, re.DOTALL)
    os.chdir(folder)
    names: dict[str, Any] = {}
    exec(code, names)
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    builder: Any = SparkSession.builder
    spark = builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name in ("runs", "costs", "phases", "compiles", "caches"):
        connection.read_parquet(names["of"](name), union_by_name=True).create_view(name)
        spark.read.option("mergeSchema", True).parquet(*names["of"](name)).createOrReplaceTempView(name)
    lines = []
    for title, question in asked:
        began = time.monotonic()
        ours = connection.sql(question).to_arrow_table().to_pylist()
        between = time.monotonic()
        theirs = [row.asDict() for row in spark.sql(question).collect()]
        took = f"{between - began:.2f} in DuckDB, {time.monotonic() - between:.1f} in Spark"
        same = list(map(_plain, ours)) == list(map(_plain, theirs))
        lines.append(f"| {title} | {took} | | | {len(ours)} rows, the same: {same} |")
        print(lines[-1], flush=True)
    spark.stop()
    return lines


def _plain(row: dict[str, Any]) -> dict[str, str]:
    """Both have types of their own for sums."""
    return {name: str(value) for name, value in row.items()}


# --- all of it ----------------------------------------------------------------------------------------------------


def generated(members: list[fleet_of.Member], folder: Path) -> Path:
    """Their traces."""
    folder.mkdir(parents=True)
    for n, member in enumerate(members):
        fleet_of.write(member, folder / f"{n}.pftrace", n)
    return folder


def measured(bases: dict[str, Path], number: int, at: Path) -> Iterator[tuple[str, Taken, str]]:
    """What was done, what it took, and what it showed."""
    members, truth = fleet_of.planted(bases, number)
    planted, plain = generated(members, at / "planted"), generated(fleet_of.plain(bases, number), at / "plain")
    yield "planted", coldstep("fleet", planted, "-o", at / "t"), verdict(at / "t", truth)
    expected = fleet_of.rows(at / "t")

    def same(tables: object) -> str:
        return f"the same rows: {fleet_of.rows(tables) == expected}"

    again = coldstep("fleet", planted, "-o", at / "t")
    yield "planted, again", again, "nothing is new" if "nothing is new" in again.said else again.said
    yield "report of the planted", coldstep("fleet-report", at / "t"), ""
    yield "plain", coldstep("fleet", plain, "-o", at / "p"), verdict(at / "p", {})
    yield (
        "planted, a worker killed",
        coldstep("fleet", planted, "-o", at / "k", meanwhile=kill_a_worker),
        same(at / "k"),
    )
    with cluster() as address:
        for what, meanwhile in (("", None), (", a worker killed", kill_a_task)):
            out = at / f"ray{len(what)}"
            words = ("fleet", planted, "-o", out, "--engine", "ray")
            taken = coldstep(*words, meanwhile=meanwhile, RAY_ADDRESS=address, **_RAY)
            yield f"planted, on Ray{what} (the driver alone)", taken, same(out)
    with bucket(planted) as s3:
        taken = coldstep("fleet", f"{s3}/nightly", "-o", f"{s3}/tables")
        lost = "; ".join(re.findall(r"/(\w+\.pftrace: [^:\n]*)", taken.said))
        yield "planted, from S3 to S3", taken, f"{same(f'{s3}/tables')}; {verdict(f'{s3}/tables', truth)}; not: {lost}"


def main() -> None:
    """Run all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", default="200,2000", help="of traces")
    parser.add_argument("--large", type=int, default=_LARGE, help="of traces that the questions are asked of")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="coldstep-fleet-") as name:
        folder = Path(name)
        (folder / "bases").mkdir()
        bases = fleet_of.bases(folder / "bases")
        for number in map(int, options.numbers.split(",")):
            for what, taken, shown in measured(bases, number, folder / str(number)):
                figures = f"{taken.wall_s:.1f} | {taken.cpu_s:.1f} | {taken.peak_mb:.0f}"
                lines.append(f"| {number:,} {what} | {figures} | {shown} |")
                print(lines[-1], flush=True)
            shutil.rmtree(folder / str(number))
        large = generated(fleet_of.planted(bases, options.large)[0], folder / "large" / "traces")
        coldstep("fleet", large, "-o", large.parent / "tables")
        lines.append(f"| **the documented questions over {options.large:,} traces** | | | | |")
        lines += questions(large.parent)
    if options.output is not None:
        commit = ["git", "rev-parse", "--short", "HEAD"]
        said = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip()
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        table = "\n".join(lines)
        page = _PAGE.format(day=day, commit=said, processors=os.cpu_count(), table=table)
        (ROOT / options.output).write_text(page)


if __name__ == "__main__":
    main()
