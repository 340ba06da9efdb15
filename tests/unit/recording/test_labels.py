"""Labels: what the user and the environment say of a run, in the trace and the JSON, and not in what is published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import coldstep
from coldstep._util.labels import VARIABLES, labels, labels_in
from coldstep.converting.rewrite import merge, strip

SHA = "9fceb02d0ae598e95dc970b74767f19372d61af8"
SLURM = {"SLURM_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3", "SLURMD_NODENAME": "n17", "GITHUB_SHA": SHA}
FOREIGN = {variable for variables in VARIABLES.values() for variable in variables}


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN} | environment
    command = [sys.executable, "-m", "coldstep", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    (folder / "train.py").write_text("import coldstep\nfor _ in range(2):\n    with coldstep.step():\n        pass\n")
    words = ["run", "--collectors", "imports", "--label", "team=search", "--label", "job=mine"]
    done = run(folder, *words, "-o", "t.pftrace", "train.py", **SLURM, HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    return folder / "t.pftrace"


def test_a_trace_says_what_it_was_labelled_with(labelled: Path) -> None:
    done = run(labelled.parent, "report", labelled.name, "--json")
    assert json.loads(done.stdout)["run"]["labels"] == {
        "job": "mine", "commit": SHA, "task": "3", "node": "n17", "team": "search"}  # fmt: skip


def test_what_is_published_has_no_labels_unless_they_are_asked_for(labelled: Path) -> None:
    out = labelled.with_name("public.pftrace")
    strip(str(labelled), str(out))
    assert coldstep.load(out).run.labels == {}
    done = run(labelled.parent, "strip", labelled.name, "-o", out.name, "--keep-labels")
    assert done.returncode == 0, done.stderr
    assert coldstep.load(out).run.labels == coldstep.load(labelled).run.labels


def test_a_job_has_the_labels_that_its_ranks_have_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in FOREIGN:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    for rank in range(2):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        with coldstep.trace(tmp_path / f"{rank}.pftrace", collectors=["imports"]):
            pass
    merge([str(tmp_path / f"{rank}.pftrace") for rank in range(2)], str(tmp_path / "job.pftrace"))
    assert coldstep.load(tmp_path / "job.pftrace").run.labels == {"job": "4711"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"TORCHELASTIC_RUN_ID": "none", "GITHUB_RUN_ID": "77"}, {"job": "77"}),
        ({"SLURM_JOB_ID": "1", "GITHUB_RUN_ID": "77"}, {"job": "1"}),
        ({"GITHUB_REF_NAME": "https://me:word@host/x"}, {"branch": "https://hidden@host/x"}),
        ({"POD_NAME": "serve-7f9", "AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin"}, {"pod": "serve-7f9"}),
        ({"GITHUB_SHA": "ghp_0123456789abcdef0123"}, {"commit": "hidden"}),
    ],
)
def test_only_known_variables_are_read_and_no_secrets(environment: dict[str, str], found: dict[str, str]) -> None:
    assert labels({}, environment) == found


def test_a_secret_that_is_given_is_hidden() -> None:
    assert labels({"api_key": "abc", "commit": SHA}, {}) == {"api_key": "hidden", "commit": SHA}


def test_of_a_foreign_trace_only_labels_are_taken_for_labels() -> None:
    said = {"team": "x" * 1000, "../up": "x", "drop table": "x", "n": 7, "Upper": "x", 7: "x"}
    assert labels_in(said) == {"team": "x" * 200}
    assert len(labels_in({f"l{n}": "" for n in range(1000)})) == 32
    assert labels_in("team=search") == {}


@pytest.mark.parametrize("word", ["team", "Team=search", "=search", "a b=c", "1a=x"])
def test_what_is_no_label_is_one_line(tmp_path: Path, word: str) -> None:
    done = run(tmp_path, "run", "--label", word, "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "is not name=value" in done.stderr


def test_the_labels_of_a_command_reach_its_processes_and_no_other_programs_variable_does() -> None:
    of_the_job = {"COLDSTEP_LABELS": '{"n": "2", "commit": "mine"}', "GITHUB_SHA": "9fceb02d"}
    assert labels({"n": "4"}, of_the_job) == {"commit": "mine", "n": "4"}
    assert labels({}, of_the_job) == {"commit": "mine", "n": "2"}
    for text in ("", "x", "[1]", '{"n": 2}', '{"N N": "2"}', "[" * 100_000):
        assert labels({}, {"COLDSTEP_LABELS": text}) == {}


def test_a_labelled_command_within_another_adds_its_labels(tmp_path: Path) -> None:
    inner = f"{sys.executable} -m coldstep run --label b=2 --label c=3 printenv COLDSTEP_LABELS"
    done = run(tmp_path, "run", "--label", "a=1", "--label", "b=1", "sh", "-c", inner)
    assert json.loads(done.stdout) == {"a": "1", "b": "2", "c": "3"}
