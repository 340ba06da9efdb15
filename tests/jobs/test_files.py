"""The files of a job: which of them FILE stands for, and what becomes of those of earlier jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coldstep
from coldstep.job.job import Job
from coldstep.job.parts import head, open_file
from coldstep.pftrace.reader import Decoder

BIN = Path(sys.executable).parent
TRACES = Path(__file__).parents[1] / "traces"

pytestmark = pytest.mark.jax

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "child.py"], check=True)
"""
CHILD = """
import jax
print(float(jax.jit(lambda x: x + 1)(1.0)))
"""


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "coldstep", *words], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job of two processes, `parent.pftrace`, and its programs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "parent.py").write_text(PARENT)
    (folder / "child.py").write_text(CHILD)
    (folder / "plain.py").write_text("print('plain')\n")
    done = command("run", "--label", "n=4", "parent.py", cwd=folder)
    assert done.stdout == "2.0\n", done.stderr
    assert done.stderr.endswith("; 1 more process traced, coldstep report shows all\n")
    return folder


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "job"))


def names(path: Path) -> list[str | None]:
    return [row.name for row in coldstep.load(path).processes]


def test_the_child_is_named_after_its_script_and_the_line_that_started_it_is_known(job: Path) -> None:
    parent, child = coldstep.load(job / "parent.pftrace").processes
    assert (parent.name, child.name, child.how, child.parent) == ("parent", "child", "subprocess", 0)
    assert child.command[-1] == "child.py"
    assert child.started_by is not None
    assert (child.started_by.file, child.started_by.line) == ("parent.py", 3)


def test_the_labels_of_its_root_are_the_jobs(job: Path) -> None:
    assert coldstep.load(job / "parent.pftrace").run.labels["n"] == "4"  # beside what CI gives


def test_a_new_job_of_the_same_file_removes_what_the_last_one_left(job: Path) -> None:
    assert len(list(job.glob("*.pftrace"))) == 2
    command("run", "-o", "parent.pftrace", "plain.py", cwd=job)
    assert [path.name for path in job.glob("*.pftrace")] == ["parent.pftrace"]
    assert names(job / "parent.pftrace") == ["plain"]


def test_no_other_file_is_removed(job: Path) -> None:
    [part] = job.glob("parent-*.pftrace")
    shutil.copy(TRACES / "jax_train.pftrace", job / "parent-jax.pftrace")
    part.rename(job / "other-child.pftrace")
    (job / "parent-mine.pftrace").write_text("no trace")
    command("run", "-o", "parent.pftrace", "plain.py", cwd=job)
    kept = {"parent.pftrace", "other-child.pftrace", "parent-mine.pftrace", "parent-jax.pftrace"}
    assert {path.name for path in job.glob("*.pftrace")} == kept


def test_a_trace_by_itself_is_never_joined_with_parts_beside_it(job: Path) -> None:
    command("run", "--no-children", "-o", "parent.pftrace", "plain.py", cwd=job)
    assert len(list(job.glob("parent-*.pftrace"))) == 1
    trace = coldstep.load(job / "parent.pftrace")
    assert (len(trace.processes), trace.run.job) == (1, None)
    shutil.copy(TRACES / "jax_train.pftrace", job / "parent.pftrace")  # an older one
    assert names(job / "parent.pftrace") == ["child"]


def test_a_job_has_a_bounded_number_of_files(job: Path) -> None:
    [part] = job.glob("parent-*.pftrace")
    for number in range(64):
        shutil.copy(part, job / f"parent-copy-{number}.pftrace")
    full = Job(str(coldstep.load(part).run.job), str(job / "parent.pftrace"), root=1)
    with pytest.raises(OSError, match="the job has 64 files"):
        open_file(full, "idle", None, is_silent=True)
    path, descriptor = open_file(full, "compiles", None)
    os.close(descriptor)
    assert path == str(job / f"parent-compiles-{os.getpid()}.pftrace")


def test_what_begins_as_no_trace_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.pftrace").write_bytes(b"\x0a\x00" * 10_000)
    asked: list[bytes] = []
    monkeypatch.setattr(Decoder, "decode", lambda _, packet: asked.append(packet))
    assert head(str(tmp_path / "empty.pftrace")) is None
    assert 0 < len(asked) < 100


def test_where_the_root_wrote_nothing_file_is_a_name(job: Path) -> None:
    (job / "parent.pftrace").unlink()
    assert names(job / "parent.pftrace") == ["child"]
    assert "1 compile" in command("report", "parent.pftrace", cwd=job).stdout


def test_a_merged_job_is_whole_by_itself(job: Path) -> None:
    command("merge", "parent.pftrace", "-o", "merged.pftrace", cwd=job)
    (job / "merged.pftrace").replace(job / "parent.pftrace")
    assert names(job / "parent.pftrace") == ["parent", "child"]


def test_a_stripped_job_has_all_processes_and_no_name_of_a_file(job: Path) -> None:
    command("strip", "parent.pftrace", "-o", "public.pftrace", cwd=job)
    trace = coldstep.load(job / "public.pftrace")
    assert [row.how for row in trace.processes] == ["root", "subprocess"]
    assert not {"parent", "child"} & {str(row.name) for row in trace.processes}
    report = command("report", "public.pftrace", "--format", "json", cwd=job).stdout
    assert "child.py" not in report
    assert "parent.py" not in report


def test_a_process_that_has_triton_alone_has_its_marks_in_the_job(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "child.py").write_text("import coldstep, triton\nwith coldstep.step():\n    pass\n")
    (tmp_path / "triton.py").touch()  # the real one is there on few machines, and what it holds is not asked for
    assert command("run", "parent.py", cwd=tmp_path).returncode == 0
    assert names(tmp_path / "parent.pftrace") == ["parent", "child"]
