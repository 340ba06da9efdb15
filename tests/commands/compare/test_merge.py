"""The ranks of a job, launched for real: a trace each, merged onto one timeline, the straggler named."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path
from types import ModuleType

import in_process
import program
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
from sessions import NONE

import coldstep
from coldstep.converting.rewrite import merge, strip
from coldstep.errors import TraceError
from coldstep.model import Trace

BIN = Path(sys.executable).parent

DDP = """
import torch._dynamo  # before the steps: how long that takes differs more than what is compiled
import torch.distributed as dist
import coldstep

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))

def loss(x):
    for _ in range(1 if rank == 0 else 200):
        x = torch.tanh(x) * 0.5
    return x.sum()

compiled = torch.compile(loss, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    with coldstep.step("train"):
        optimizer.zero_grad()
        compiled(model(torch.ones(4, 8))).backward()
        optimizer.step()
dist.destroy_process_group()
"""

SLEEPS = """
import time
import torch
import torch.distributed as dist
import coldstep

dist.init_process_group("gloo")
for at in range(5):
    if at == 3 and dist.get_rank() == 1:
        time.sleep(1.5)
    with coldstep.step():
        if at == 1 and dist.get_rank() == 1:
            time.sleep(2)
        dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
"""

JAX = """
import sys
import jax
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
import jax.numpy as jnp
import coldstep
from jax.experimental import multihost_utils

def train(x):
    for _ in range(2 if jax.process_index() == 0 else 200):
        x = jnp.tanh(x) @ jnp.cos(x) * 0.5
    return x.sum()

compiled = jax.jit(train)
with coldstep.trace(sys.argv[3], device="until-settled+2"):
    for _ in range(4):
        with coldstep.step("train"):
            coldstep.wait(compiled(jnp.ones((8, 8))))
            multihost_utils.sync_global_devices("step")
"""

SPAWNED = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import coldstep

def work(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    with coldstep.trace("spawned-{rank}.pftrace"):
        with coldstep.step():
            dist.all_reduce(torch.ones(2))
    with coldstep.trace("traces/"):
        pass
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(os.path.abspath("store"),), nprocs=2)
"""


def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def launch(folder: Path, *commands: list[str]) -> None:
    """Run the commands at once, and fail unless each ends well."""
    env = {key: value for key, value in os.environ.items() if key != "RANK"} | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    for process in running:
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said


def coldstep_(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "coldstep", *words], cwd=folder, capture_output=True, text=True)


def check_rows(trace: Trace, ranks: list[int]) -> None:
    """What holds of every merged trace."""
    assert [(p.index, p.rank) for p in trace.processes] == list(enumerate(ranks))
    assert [row.index for row in trace.intervals] == list(range(len(trace.intervals)))
    ids = [row.id for row in trace.compiles]
    assert len(set(ids)) == len(ids)
    for row in trace.compiles:
        assert all(trace.intervals[segment.interval].process == row.process for segment in row.segments)
        assert row.id in trace.intervals[row.segments[0].interval].compiles
    for process in trace.processes:
        mine = [row for row in trace.intervals if row.process == process.index]
        assert sum(row.wall_ns for row in mine) == process.wall_ns
        assert mine[0].start_ns == process.start_ns
        assert [sum(row.phases.values()) + row.unattributed_ns for row in mine] == [row.wall_ns for row in mine]
    assert {row.process for row in trace.collectors} == set(range(len(ranks)))


@pytest.mark.torch
def test_a_gloo_job_under_torchrun(tmp_path: Path, engine: ModuleType) -> None:
    (tmp_path / "train.py").write_text(DDP)
    torchrun = [str(BIN / "torchrun"), "--nproc-per-node", "2", "--master-port", address().rpartition(":")[2]]
    train = ["--no-python", str(BIN / "coldstep"), "run", "train.py"]
    program.warm("torch", [*torchrun, *train], tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert sorted(path.name for path in tmp_path.glob("*.pftrace")) == ["train-rank0.pftrace", "train-rank1.pftrace"]
    done = in_process.run("merge", "train-rank0.pftrace", "train-rank1.pftrace", "-o", "train.pftrace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rank 1: on the clock of the first trace's machine, exactly" in done.stdout
    merged = coldstep.load(tmp_path / "train.pftrace")
    check_rows(merged, [0, 1])
    [straggler] = [row for row in merged.findings if row.kind == "straggler"]
    assert (straggler.process, straggler.step, straggler.severity) == (1, 0, "warning")
    assert straggler.text.startswith("rank 1 compiled ")
    assert re.search(r"; rank 0 waited for it, [\d.]+ m?s, in all_reduce$", straggler.text)
    assert straggler.text in done.stdout
    data = in_process.run(
        "merge", "train-rank0.pftrace", "train-rank1.pftrace", "-o", "again.pftrace", "--json", cwd=tmp_path
    )
    assert straggler.text in [row["text"] for row in json.loads(data.stdout)["findings"]]
    assert [row.verdict for row in merged.settling] == ["settled", "settled"]
    alone = coldstep.load(tmp_path / "train-rank1.pftrace")
    mine = [row for row in merged.intervals if row.process == 1]
    assert [(row.wall_ns, row.phases, row.label) for row in mine] == [
        (row.wall_ns, row.phases, row.label) for row in alone.intervals
    ]
    assert [row.function for row in merged.compiles if row.process == 1] == [row.function for row in alone.compiles]
    engine.assert_clean(tmp_path / "train.pftrace")
    roots, steps, findings = engine.query(
        tmp_path / "train.pftrace",
        "select distinct name from track where parent_id is null order by 1",
        "select s.ts, s.name, root.name as rank from slice s join track t on t.id = s.track_id join track root on "
        "root.id = t.parent_id where t.name = 'Steps' order by s.ts",
        "select root.name as rank from slice s join track t on t.id = s.track_id join track root on "
        "root.id = t.parent_id where t.name = 'Findings' and s.name = 'straggler'",
    )
    assert [row["name"] for row in roots] == ["Pipeline (rank 0)", "Pipeline (rank 1)"]
    at = {
        (merged.origin_ns + row.start_ns, f"Pipeline (rank {row.process})")
        for row in merged.intervals
        if row.kind == "step"
    }
    assert {(row["ts"], row["rank"]) for row in steps} == at
    assert findings == [{"rank": "Pipeline (rank 1)"}]
    report = in_process.run("report", "train.pftrace", cwd=tmp_path)
    assert "Ranks (2)" in report.stdout
    assert straggler.text.split(";")[0] in report.stdout
    assert "in all_reduce, waiting included" in report.stdout


@pytest.mark.torch
def test_a_rank_that_sleeps_is_named_with_those_that_wait_for_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLEEPS)
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", address().rpartition(":")[2]]
    run = ["coldstep", "run", "-o", "job.pftrace", sys.executable, "-m", *launcher, "train.py"]
    launch(tmp_path, [sys.executable, "-m", *run])
    job = coldstep.load(tmp_path / "job.pftrace")
    late = [row for row in job.findings if row.kind == "straggler"]
    assert [(job.processes[row.process].rank, row.step) for row in late] == [(1, 1), (1, 3)]
    for finding, seconds, where in zip(late, (2, 1.5), ("in", "before"), strict=True):
        sentence = rf"rank 1 slept ([\d.]+) s longer {where} step \d; rank 0 waited for it, ([\d.]+) s"
        found = re.fullmatch(sentence, finding.text)
        assert found is not None, finding.text
        assert [float(number) for number in found.groups()] == pytest.approx([seconds] * 2, abs=0.5)
        assert "train.py:" in (finding.advice or "")


@pytest.mark.jax
def test_a_jax_job_of_two_processes(tmp_path: Path, engine: ModuleType) -> None:
    (tmp_path / "train.py").write_text(JAX)
    at = address()
    launch(tmp_path, *([sys.executable, "train.py", at, str(rank), "traces/"] for rank in range(2)))
    traces = sorted(map(str, (tmp_path / "traces").iterdir()))
    assert [Path(path).name for path in traces] == ["train-rank0.pftrace", "train-rank1.pftrace"]
    merge(traces, str(tmp_path / "job.pftrace"))
    merged = coldstep.load(tmp_path / "job.pftrace")
    check_rows(merged, [0, 1])
    [straggler] = [row for row in merged.findings if row.kind == "straggler"]
    assert straggler.text.startswith("rank 1 compiled ")
    assert re.search(r"; rank 0 waited for it, [\d.]+ m?s, in all_gather$", straggler.text)
    engine.assert_clean(tmp_path / "job.pftrace")


@pytest.mark.torch
def test_spawned_workers_have_a_trace_each(tmp_path: Path) -> None:
    program.run(SPAWNED, tmp_path, stack="torch")
    for rank in range(2):
        trace = coldstep.load(tmp_path / f"spawned-{rank}.pftrace")
        assert trace.processes[0].rank == rank
        assert [row.step for row in trace.intervals if row.kind == "step"] == [0]
    assert len(list((tmp_path / "traces").iterdir())) == 2


def test_a_folder_gets_a_file_per_process(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path, collectors=NONE) as run:
        pass
    assert Path(run.path).parent == tmp_path
    assert str(os.getpid()) in Path(run.path).name
    (tmp_path / "train.py").write_text("print('ran')")
    done = coldstep_(tmp_path, "run", "-o", "new/", "train.py")
    assert done.returncode == 0, done.stderr
    [written] = (tmp_path / "new").iterdir()
    assert written.name.startswith("train-")
    assert f"new/{written.name}" in done.stderr


def test_a_second_process_writes_a_file_of_its_own_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    (tmp_path / "train.py").write_text("print('ran')")
    with coldstep.trace(path, collectors=NONE):
        done = coldstep_(tmp_path, "run", "-o", "t.pftrace", "train.py")
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
        [own] = [each.name for each in tmp_path.glob("t-*.pftrace")]
        said = [line for line in done.stderr.splitlines() if own in line]
        assert "Another process is writing the file that was asked for" in said[0]
        assert said[1].startswith(f"coldstep: {own}: ")
        with coldstep.step():
            pass
    assert [row.kind for row in coldstep.load(path).intervals] == ["before", "step", "after"]
    assert "Another process" in coldstep.load(tmp_path / own).run.notes[0]
    assert coldstep_(tmp_path, "run", "-o", "t.pftrace", "train.py").returncode == 0


def rank(folder: Path, n: int, source: str = "with coldstep.step(): pass") -> str:
    """A small trace of that rank."""
    path = folder / f"rank{n}.pftrace"
    body = f"import coldstep, time\nwith coldstep.trace({str(path)!r}):\n{textwrap.indent(source, '    ')}\n"
    program.run(body, folder, env={"RANK": str(n)})
    return str(path)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The traces of two ranks, which no test may change."""
    folder = tmp_path_factory.mktemp("two")
    return [rank(folder, n) for n in range(2)]


def moved(path: str, ns: int, wall_ns: int) -> None:
    """The trace as another machine would have written it: its monotonic clock `ns` ahead, its wall clock `wall_ns`."""
    packets = Packets.FromString(Path(path).read_bytes())
    flat = Packets()
    for packet in packets.packet:
        block = Packets.FromString(zlib.decompress(packet.compressed_packets))
        for inner in block.packet:
            if inner.HasField("track_event"):
                inner.timestamp += ns
                for annotation in inner.track_event.debug_annotations:
                    if annotation.HasField("string_value") and len(annotation.string_value) == 36:
                        annotation.string_value = "00000000-0000-0000-0000-000000000000"  # the boot id
            for clock in inner.clock_snapshot.clocks if inner.HasField("clock_snapshot") else ():
                clock.timestamp += {3: ns, 1: wall_ns}.get(clock.clock_id, 0)
            flat.packet.append(TracePacket.FromString(inner.SerializeToString()))
    Path(path).write_bytes(flat.SerializeToString())


@pytest.mark.timing
@pytest.mark.parametrize("since_boot_ns", [10**16, 10**7])
def test_another_machines_clock_is_laid_on_the_first_ones(
    two: list[str], tmp_path: Path, engine: ModuleType, since_boot_ns: int
) -> None:
    traces = [shutil.copy(path, tmp_path) for path in two]
    merge(traces, str(tmp_path / "same.pftrace"))
    true = coldstep.load(tmp_path / "same.pftrace")
    moved(traces[1], since_boot_ns - coldstep.load(traces[1]).origin_ns, 5_000_000)
    # the first one's machine may have been started after the other trace was recorded
    [first, second] = merge(traces[::-1], str(tmp_path / "other.pftrace"))
    assert (first.name, first.bound_ns) == ("rank 1", None)
    assert second.name == "rank 0"
    assert second.bound_ns is not None
    assert second.bound_ns < 50_000_000
    assert "wall clocks" in second.how
    merged = coldstep.load(tmp_path / "other.pftrace")
    assert [process.rank for process in merged.processes] == [1, 0]
    assert any("wall clocks" in note and note.startswith("rank 0: ") for note in merged.run.notes)
    before, after = ({process.rank: process.start_ns for process in trace.processes} for trace in (true, merged))
    # its wall clock is 5 ms ahead: so much later it seems, and no file can tell
    seems = (after[1] - after[0]) - (before[1] - before[0])
    assert abs(seems - 5_000_000) <= second.bound_ns + 1_000_000
    engine.assert_clean(tmp_path / "other.pftrace")


def test_a_killed_rank_and_a_merge_of_merged_traces(two: list[str], tmp_path: Path, engine: ModuleType) -> None:
    killed = rank(tmp_path, 2, "import os, signal\nwith coldstep.step():\n    os.kill(0, 0)\nwith coldstep.step():\n"
                  "    time.sleep(0.4)")  # fmt: skip
    whole = Path(killed).read_bytes()
    Path(killed).write_bytes(whole[: len(whole) * 3 // 4])
    merge(two, str(tmp_path / "two.pftrace"))
    merge([str(tmp_path / "two.pftrace"), killed], str(tmp_path / "three.pftrace"))
    merged = coldstep.load(tmp_path / "three.pftrace")
    check_rows(merged, [0, 1, 2])
    assert [row.ended for row in merged.processes] == ["ok", "ok", "killed"]
    assert merged.run.ended == "killed"
    assert [row.process for row in merged.findings if row.kind == "blind"] == [2]
    engine.assert_clean(tmp_path / "three.pftrace", open_slices=True)
    # the whole job can be published
    strip(str(tmp_path / "three.pftrace"), str(tmp_path / "public.pftrace"))
    public = coldstep.load(tmp_path / "public.pftrace")
    check_rows(public, [0, 1, 2])
    assert [row.ended for row in public.processes] == ["ok", "ok", "killed"]
    assert [row.wall_ns for row in public.intervals] == [row.wall_ns for row in merged.intervals]
    engine.assert_clean(tmp_path / "public.pftrace", open_slices=True)


def test_what_a_merge_says_is_there_as_data(two: list[str], tmp_path: Path) -> None:
    done = in_process.run("merge", *two, "-o", "both.pftrace", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    merged = coldstep.load(tmp_path / "both.pftrace")
    assert (said["schema"], said["output"], said["compile_ns"]) == ("coldstep-merge/1", "both.pftrace", [0, 0])
    assert [(row["path"], row["name"], row["bound_ns"]) for row in said["clocks"]] == [
        (path, f"rank {n}", None) for n, path in enumerate(two)
    ]
    assert said["findings"] == merged.to_json()["findings"]


def test_what_a_process_took_counts_from_its_own_start(two: list[str], tmp_path: Path) -> None:
    merge(two, str(tmp_path / "both.pftrace"))
    merged = coldstep.load(tmp_path / "both.pftrace")
    assert any(row.start_ns for row in merged.processes)
    alone = [row.time_to_first_step_ns for path in two for row in coldstep.load(path).cost]
    assert sorted(row.time_to_first_step_ns for row in merged.cost) == pytest.approx(sorted(alone), abs=1_000)


def test_programs_that_are_no_ranks_of_one_job_are_asked_about(tmp_path: Path) -> None:
    for name in ("train", "serve"):
        (tmp_path / f"{name}.py").write_text("pass")
        coldstep_(tmp_path, "run", "--collectors", "imports", f"{name}.py", "--seed", name)
    done = in_process.run("merge", "train.pftrace", "serve.pftrace", "-o", "both.pftrace", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "train.py and serve.py are different programs: ranks of one job?"
    assert [line.partition(":")[0] for line in lines[1:]] == ["process 0", "process 1", "both.pftrace"]
    assert lines[-1].startswith("both.pftrace: 2 processes, ")
    again = coldstep_(tmp_path, "run", "-o", "again.pftrace", "--collectors", "imports", "train.py", "--seed", "2")
    assert again.returncode == 0
    done = in_process.run("merge", "train.pftrace", "again.pftrace", "-o", "both.pftrace", cwd=tmp_path)
    assert "different programs" not in done.stdout


def test_what_cannot_be_merged_is_said_in_one_line(two: list[str], tmp_path: Path) -> None:
    trace = shutil.copy(two[0], tmp_path)
    (tmp_path / "text.pftrace").write_text("this is no trace")
    (tmp_path / "empty.pftrace").touch()
    for words, said in (
        ([trace, trace, "-o", "out"], "are the same trace"),
        (["text.pftrace", "-o", "out"], "is not a Perfetto trace"),
        (["empty.pftrace", "-o", "out"], "is empty"),
        (["absent.pftrace", "-o", "out"], "No such file"),
        ([trace, "-o", trace], "another name"),
        ([trace, "-o", "no/such/folder"], "cannot write"),
    ):
        done = in_process.run("merge", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert coldstep.load(trace).run.ended == "ok"
    with pytest.raises(TraceError):
        merge([str(tmp_path / "text.pftrace")], str(tmp_path / "out"))
