"""Jobs of several processes: all compiles of all of them in one report, and the program as it is without coldstep."""

from __future__ import annotations

import shutil
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import in_process
import program
import pytest

import coldstep
from coldstep.model import Process, Trace
from coldstep_viewers.report.terminal import render
from jobs import kinds
from jobs.kinds import BIN, PROGRAMS

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a program beside those of `make jobs`."""
    shutil.copytree(PROGRAMS, tmp_path, dirs_exist_ok=True)

    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(textwrap.dedent(text))
        return tmp_path / name

    return write


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    done = kinds.run(*words, cwd=cwd, **env)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_all_counted(trace: Trace, folder: Path) -> None:
    """Each process has in the trace just as many compiles as its framework counted itself."""
    assert list(kinds.miscounted(trace, folder)) == []


def named(trace: Trace) -> dict[str, Process]:
    return {row.name or "": row for row in trace.processes}


# --- who is followed ----------------------------------------------------------------------------------------------


@pytest.mark.jax
def test_a_spawned_engine_is_in_the_report_of_its_job_however_that_was_started(write: Write, tmp_path: Path) -> None:
    write("serve.sh", "python engine.py\n")
    for words, env, file in (
        (("coldstep", "run", "engine.py"), {}, "engine.pftrace"),
        (("coldstep", "run", "bash", "serve.sh"), {}, "bash.pftrace"),
        (("bash", "serve.sh"), {"COLDSTEP": "serve.pftrace"}, "serve.pftrace"),
    ):
        for path in tmp_path.glob("counted-*"):
            path.unlink()
        done = run(*words, cwd=tmp_path, **env)
        assert (done.stdout, done.returncode) == ("[6.0, 8.0]\nengine ended with 0\n", 0), done.stderr
        trace = coldstep.load(tmp_path / file)
        assert_all_counted(trace, tmp_path)
        engine = named(trace)["EngineCore_0"]
        assert (engine.how, engine.ended) == ("spawn", "ok")
        [recompile] = trace.recompiles
        assert (recompile.process, recompile.cause) == (engine.index, "shape")
        assert (recompile.argument, recompile.before, recompile.after) == ("x", "f32[3]", "f32[4]")
    report = in_process.run("report", tmp_path / "engine.pftrace").stdout
    assert "EngineCore_0; spawned at engine.py:18; " in report
    assert "not traced" not in report
    assert "wrote no trace" not in report
    root = named(coldstep.load(tmp_path / "engine.pftrace"))["engine"]
    assert (root.index, root.how, root.parent) == (0, "root", None)
    [part] = tmp_path.glob("engine-EngineCore_0-*.pftrace")
    assert [row.name for row in coldstep.load(part).processes] == ["EngineCore_0"]
    assert [row.name for row in coldstep.load(tmp_path / "engine.pftrace", job=False).processes] == ["engine"]
    over = in_process.run("check", tmp_path / "engine.pftrace", "--max-recompiles", "0")
    assert over.returncode == 1
    assert "over budget: EngineCore_0: 1 recompile, 0 allowed" in over.stdout


@pytest.mark.jax
def test_a_block_follows_the_children_that_it_starts_where_that_is_asked_for(write: Write, tmp_path: Path) -> None:
    write("child.py", "import jax\nprint(float(jax.jit(lambda x: x + 1)(1.0)))\n")
    write(
        "block.py",
        """
        import os, subprocess, sys
        import coldstep
        def start():
            subprocess.run([sys.executable, "child.py"], check=True)
        before = dict(os.environ)
        with coldstep.trace("run.pftrace", children=True):
            start()
        assert dict(os.environ) == before
        start()
        with coldstep.trace("alone.pftrace"):
            start()
        """,
    )
    done = run("python", "block.py", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("2.0\n" * 3, 0), done.stderr
    line = done.stderr.splitlines()[0]
    assert line.startswith("coldstep: run.pftrace: this process alone: ")
    assert line.endswith("; 1 more process traced, coldstep report shows all")
    followed, alone = (coldstep.load(tmp_path / name) for name in ("run.pftrace", "alone.pftrace"))
    assert [(row.name, row.how, row.parent) for row in followed.processes] == [
        ("block", "root", None),
        ("child", "subprocess", 0),
    ]
    assert [row.process for row in followed.compiles] == [1]
    assert len(alone.processes) == 1
    assert len(list(tmp_path.glob("*.pftrace"))) == 3


@pytest.mark.jax
def test_a_compiler_below_a_traced_process_is_no_unseen_compiling_of_the_one_above(
    write: Write, tmp_path: Path
) -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass\ntime.sleep(4)"
    for name in ("g++", "clang++"):
        write(name, f"#!/bin/sh\n'{BIN}/python' -S -c '{burn}'\nexit 0\n").chmod(0o755)
    write("silent.py", "import subprocess; subprocess.run(['./clang++'], check=True)")
    write("traced.py", "import jax, subprocess; jax.jit(lambda x: x + 1)(1.0); subprocess.run(['./g++'], check=True)")
    write(
        "starts_two.py",
        """
        import subprocess, sys
        both = [subprocess.Popen([sys.executable, name]) for name in ("traced.py", "silent.py")]
        print([each.wait() for each in both])
        """,
    )
    done = run("coldstep", "run", "starts_two.py", cwd=tmp_path)
    assert done.stdout == "[0, 0]\n", done.stderr
    assert "not seen" not in done.stderr
    trace = coldstep.load(tmp_path / "starts_two.pftrace")
    assert [row.name for row in trace.processes] == ["starts_two", "traced"]
    assert [(row.process, row.what) for row in trace.unplaced] == [(0, "clang++")]  # of which nothing else is known


@pytest.mark.jax
def test_the_process_that_compiles_answers_for_one_that_only_waits_for_it(write: Write, tmp_path: Path) -> None:
    write("below.py", "import coldstep, jax; jax.jit(lambda x: x + 1)(1.0); coldstep.ready('serving')")
    write("waits.py", "import jax, subprocess, sys; subprocess.run([sys.executable, 'below.py'], check=True)")
    for number in (1, 2):
        program.warm("jax", ["coldstep", "run", "-o", f"run{number}.pftrace", "waits.py"], tmp_path)
    assert len(coldstep.load(tmp_path / "run1.pftrace").processes) == 2
    first, second = (tmp_path / f"run{number}.pftrace" for number in (1, 2))
    check = in_process.run("check", "--ready", first)
    assert (check.returncode, check.stderr) == (0, ""), check.stdout
    assert in_process.run("cache", first).stdout.startswith("the slowest of 2 processes, 1 of which compiled: below\n")
    both = in_process.run("cache", first, second).stdout
    assert both
    assert "only in" not in both


@pytest.mark.jax
def test_processes_that_have_nothing_to_record_are_counted(write: Write, tmp_path: Path) -> None:
    write(
        "starts_three.py",
        """
        import subprocess, sys
        for text in ("pass", "pass", "import jax; print(float(jax.jit(lambda x: x + 1)(1.0)))"):
            subprocess.run([sys.executable, "-c", text + "; import time; time.sleep(0.7)"], check=True)
        """,
    )
    done = run("coldstep", "run", "starts_three.py", cwd=tmp_path)
    assert done.stdout == "2.0\n", done.stderr
    trace = coldstep.load(tmp_path / "starts_three.pftrace")
    assert len(trace.processes) == 2
    assert "2 more Pythons of this job wrote no trace: it takes a compile or a mark." in trace.run.notes


@pytest.mark.jax
def test_a_child_that_is_killed_or_leaves_at_once_is_whole_up_to_there(write: Write, tmp_path: Path) -> None:
    done = run("coldstep", "run", "ends.py", "exits", "killed", cwd=tmp_path)
    assert done.stdout == "exits 5\nkilled -9\n", done.stderr
    trace = coldstep.load(tmp_path / "ends.pftrace")
    assert_all_counted(trace, tmp_path)
    assert {name: row.ended for name, row in named(trace).items()} == {
        "ends": "ok",
        "exits": "exit",
        "killed": "killed",
    }
    assert trace.run.ended == "ok"


@pytest.mark.torch
def test_a_forks_child_has_a_trace_from_its_first_compile_which_knows_what_its_parent_compiled(
    write: Write, tmp_path: Path
) -> None:
    done = program.warm("torch", ["coldstep", "run", "fork.py"], tmp_path)
    printed = "6.0\n" * 2 + "8.0\n" * 4 + "child ended with 0\n"
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
    trace = coldstep.load(tmp_path / "fork.pftrace")
    assert_all_counted(trace, tmp_path)
    assert [(row.how, row.parent, row.ended) for row in trace.processes] == [("root", None, "ok"), ("fork", 0, "ok")]
    [recompile] = trace.recompiles
    assert (recompile.process, recompile.cause, recompile.argument) == (1, "shape", "x")
    assert (recompile.before, recompile.after, recompile.step) == ("f32[3]", "f32[4]", 1)
    assert [row.step for row in trace.intervals if row.process == 1 and row.kind == "step"] == [0, 1, 2, 3, 4]
    assert [(row.name, row.settled_at_step) for row in trace.settling if row.process == 1] == [("call of <lambda>", 2)]


def work_of(trace: Trace, process: int) -> list[object]:
    """What one process compiled, why, and in which of its steps."""
    return [
        [(row.function, row.outcome) for row in trace.compiles if row.process == process],
        [(row.cause, row.argument, row.before, row.after, row.step) for row in trace.recompiles],
        [(row.name, row.step) for row in trace.intervals if row.process == process and row.kind == "step"],
        [(row.name, row.verdict, row.settled_at_step) for row in trace.settling if row.process == process],
    ]


@pytest.mark.jax
def test_a_forks_child_is_as_well_known_as_a_process_that_does_the_same_alone(write: Write, tmp_path: Path) -> None:
    program.warm("jax", ["coldstep", "run", "-o", "alone.pftrace", "forked.py", "alone"], tmp_path)
    alone = coldstep.load(tmp_path / "alone.pftrace")
    assert work_of(alone, 0)[1:] == [
        [("shape", "x", "f32[8,4]", "f32[6,4]", 1)],
        [("step", number) for number in range(5)],
        [("step", "settled", 2)],
    ]
    for how in ("process", "amid"):
        for path in tmp_path.glob("counted-*"):
            path.unlink()
        done = program.warm("jax", ["coldstep", "run", "-o", f"{how}.pftrace", "forked.py", how], tmp_path)
        assert done.stdout == "(4,)\nended with 0\n", done.stderr
        trace = coldstep.load(tmp_path / f"{how}.pftrace")
        assert_all_counted(trace, tmp_path)
        assert [(row.how, row.ended) for row in trace.processes] == [("root", "ok"), ("fork", "ok")]
        assert work_of(trace, 1) == work_of(alone, 0)
        steps = [row for row in trace.intervals if row.process == 1 and row.kind == "step"]
        assert any(row.rss_bytes for row in steps)
        assert any("forked.py" in str(row.sampled) for row in trace.intervals if row.process == 1)
    assert [row.function for row in trace.compiles if row.process == 0] == ["slow"]
    assert "not traced" not in done.stderr + " ".join(trace.run.notes)


def test_a_fork_of_multiprocessings_ends_as_its_function_does_and_not_before_its_threads(
    write: Write, tmp_path: Path
) -> None:
    write(
        "ends_so.py",
        """
        import multiprocessing, subprocess, sys, threading, time
        import coldstep

        def nothing():
            assert not [each for each in threading.enumerate() if each is not threading.main_thread()]

        def fails():
            with coldstep.step():
                subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)
            raise ValueError("no data")

        def later():
            time.sleep(0.1)
            with coldstep.step():
                pass

        def leaves_a_thread():
            with coldstep.step():
                pass
            threading.Thread(target=later).start()

        for each in (nothing, fails, leaves_a_thread):
            child = multiprocessing.get_context("fork").Process(target=each, name=each.__name__)
            child.start()
            child.join()
            print(each.__name__, child.exitcode)
        """,
    )
    done = run("coldstep", "run", "ends_so.py", cwd=tmp_path)
    assert done.stdout == "nothing 0\nfails 1\nleaves_a_thread 0\n", done.stderr
    trace = coldstep.load(tmp_path / "ends_so.pftrace")
    assert {name: row.ended for name, row in named(trace).items()} == {
        "ends_so": "ok",
        "fails": "exit",
        "leaves_a_thread": "ok",
    }
    fails, leaves = (named(trace)[name].index for name in ("fails", "leaves_a_thread"))
    [step] = [row for row in trace.intervals if row.process == fails and row.kind == "step"]
    assert [(row.how, row.where) for row in step.waiting] == [("wait4", "subprocess.run")]
    assert [row.step for row in trace.intervals if row.process == leaves and row.kind == "step"] == [0, 1]


@pytest.mark.jax
def test_a_pool_whose_workers_are_terminated_is_in_the_report(write: Write, tmp_path: Path) -> None:
    done = run("python", "pool.py", "2", cwd=tmp_path, COLDSTEP="pool.pftrace")
    assert (done.stdout, done.returncode) == ("[6.0, 8.0]\n", 0), done.stderr
    trace = coldstep.load(tmp_path / "pool.pftrace")
    assert_all_counted(trace, tmp_path)
    assert {row.how for row in trace.processes} == {"spawn"}
    assert not (tmp_path / "pool.pftrace").exists()  # its root, which imports no framework, has nothing to say


@pytest.mark.torch
def test_the_ranks_of_torchrun_are_one_job_and_its_agent_has_no_file(write: Write, tmp_path: Path) -> None:
    command = ("torchrun", "--nproc-per-node", "2", "ranks.py")
    words = ("--label", "n=2", "--label", "team=a=b", *command)
    done = run("coldstep", "run", *words, cwd=tmp_path, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert "torchrun.pftrace: 2 processes traced" in done.stderr
    assert sorted(path.name for path in tmp_path.glob("*.pftrace")) == [
        "torchrun-rank0.pftrace",
        "torchrun-rank1.pftrace",
    ]
    trace = coldstep.load(tmp_path / "torchrun.pftrace")
    assert_all_counted(trace, tmp_path)
    assert [row.rank for row in trace.processes] == [0, 1]
    assert [(row.process, row.cause) for row in trace.recompiles] == [(1, "shape")]
    labels = [coldstep.load(path).run.labels for path in tmp_path.glob("*.pftrace")]
    for each in (*labels, trace.run.labels):
        assert (each["n"], each["team"]) == ("2", "a=b")


# --- who is not ---------------------------------------------------------------------------------------------------


@pytest.mark.torch
def test_steps_of_a_process_that_compiles_nothing_are_its_optimizers(write: Write, tmp_path: Path) -> None:
    write(
        "train.py",
        """
        import coldstep, torch

        layer = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(4):
            layer(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        coldstep.ready()  # worth a file
        """,
    )
    done = run("bash", "-c", "python train.py", cwd=tmp_path, COLDSTEP="train.pftrace")
    assert done.returncode == 0, done.stderr
    [path] = tmp_path.glob("train*.pftrace")
    trace = coldstep.load(path)
    assert [row.step for row in trace.intervals if row.kind == "step"] == [0, 1, 2, 3]
    assert "not marked but inferred: each end of torch.optim.SGD.step() at train.py:" in render(trace)


def test_processes_without_a_framework_have_no_file_and_print_nothing(write: Write, tmp_path: Path) -> None:
    write("plain.py", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])\n")
    done = run("python", "plain.py", cwd=tmp_path, COLDSTEP="plain.pftrace")
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)
    assert not list(tmp_path.glob("*.pftrace"))


@pytest.mark.jax
@pytest.mark.parametrize(("options", "env"), [(("--no-children",), {}), ((), {"COLDSTEP_CHILDREN": "0"})])
def test_children_are_not_followed_where_that_is_not_wanted(
    write: Write, tmp_path: Path, options: tuple[str, ...], env: dict[str, str]
) -> None:
    run("coldstep", "run", *options, "engine.py", cwd=tmp_path, **env)
    assert [path.name for path in tmp_path.glob("*.pftrace")] == ["engine.pftrace"]
    trace = coldstep.load(tmp_path / "engine.pftrace")
    assert (trace.run.job, [row.how for row in trace.processes]) == (None, [None])
    assert any("not traced" in note for note in trace.run.notes)


@pytest.mark.jax
def test_a_child_whose_environment_was_emptied_is_said_not_to_be_traced(write: Write, tmp_path: Path) -> None:
    write(
        "parent.py",
        """
        import subprocess, sys
        child = "import jax, time; jax.jit(lambda x: x)(1); time.sleep(1)"
        subprocess.run([sys.executable, "-c", child], env={})
        """,
    )
    run("coldstep", "run", "parent.py", cwd=tmp_path)
    assert "imported jax and was not traced" in in_process.run("report", tmp_path / "parent.pftrace").stdout


# --- a command is run as it is ------------------------------------------------------------------------------------


@pytest.mark.jax
def test_a_child_that_cannot_write_its_trace_keeps_check_from_passing(write: Write, tmp_path: Path) -> None:
    write("child.py", "import jax\nprint(float(jax.jit(lambda x: x * 2)(jax.numpy.ones(3)).sum()))\n")
    write(
        "parent.py",
        "import os, subprocess, sys\nos.environ['COLDSTEP'] = '/nowhere/run.pftrace'\n"
        "subprocess.run([sys.executable, 'child.py'], check=True)\n",
    )
    assert run("coldstep", "run", "-o", "run.pftrace", "parent.py", cwd=tmp_path).stdout == "6.0\n"
    checked = in_process.run("check", "--max-recompiles", "0", tmp_path / "run.pftrace")
    assert checked.returncode == 2
    assert "1 child process" in checked.stdout + checked.stderr


@pytest.mark.jax
def test_a_child_whose_trace_takes_no_more_says_nothing_itself(write: Write, tmp_path: Path) -> None:
    write(
        "child.py",
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
        "import jax\nprint(float(jax.jit(lambda x: x * 2)(jax.numpy.ones(3)).sum()))\n",
    )
    write("parent.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n")
    done = run("coldstep", "run", "-o", "run.pftrace", "parent.py", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("6.0\n", 0)
    assert "cannot write" not in done.stderr
    checked = in_process.run("check", "--max-recompiles", "0", tmp_path / "run.pftrace")
    assert checked.returncode == 2, checked.stdout


def test_a_commands_exit_code_output_and_input_are_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "coldstep", "run", "bash", "-c", "cat; echo of $0 $@; exit 9", "a", "-o", "b"],
        cwd=tmp_path,
        input="typed\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("typed\nof a -o b\n", 9)
    assert done.stderr == ("coldstep: bash.pftrace: no trace, for coldstep saw none of its processes compile\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_and_what_it_ends_ends_coldstep_too(tmp_path: Path, number: signal.Signals) -> None:
    words = [
        "env",
        f"--default-signal={number.name[3:]}",
        BIN / "coldstep",
        "run",
        "bash",
        "-c",
        "echo begun; exec sleep 60",
    ]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(30) == -number


def test_a_file_of_the_folder_wins_over_the_path_only_with_a_slash_or_py(write: Write, tmp_path: Path) -> None:
    write("true", "print('the script')")
    assert run("coldstep", "run", "true", cwd=tmp_path).stdout == ""
    assert run("coldstep", "run", "./true", cwd=tmp_path).stdout == "the script\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stacks", "bash", "-c", ":"], "--stacks: only for a script or -m module, not for a command such as bash"),
        (["--no-children", "bash", "-c", ":"], "--no-children: only for a script or -m module"),
        (["-o", "missing/x.pftrace", "bash", "-c", ":"], "cannot write missing/x.pftrace: No such file or directory"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = run("coldstep", "run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
