"""Children of forks: what they record first may come from anywhere. Those that record nothing leave nothing."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep
from coldstep.model import Trace

FORKS = """
import os, signal, sys, threading, time, torch
import coldstep

step = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
step(torch.ones(2))

def in_child(do):
    if not (pid := os.fork()):
        do()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def on_threads():
    threads = [threading.Thread(target=step, args=(torch.ones(n),)) for n in (3, 4, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

def in_a_handler():
    signal.signal(signal.SIGALRM, lambda *_: step(torch.ones(3)))
    signal.raise_signal(signal.SIGALRM)

def as_a_rank():
    os.environ["RANK"] = "3"
    step(torch.ones(3))

def below_one_that_records_nothing():
    in_child(lambda: step(torch.ones(3)))
    time.sleep(1)  # what lives for less may not be seen
"""

AT_ONCE = """
for each in on_threads, in_a_handler, as_a_rank, below_one_that_records_nothing:
    in_child(each)
"""

ENDS = """
import resource

def pages():
    if not (pid := os.fork()):
        os._exit(0)
    return os.wait4(pid, 0)[2].ru_minflt

statuses = []
untraced = min(pages() for _ in range(5))
with coldstep.trace("block.pftrace", children=True):
    traced = min(pages() for _ in range(5))
    step(torch.ones(3))
    with coldstep.step():
        for end in (lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGTERM), sys.exit, lambda: None):
            if not (pid := os.fork()):
                end()
                break
            statuses.append(os.waitpid(pid, 0)[1])
if pid:
    print(*statuses, traced - untraced)
else:
    step(torch.ones(4))
"""

LATE = """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters())

def train():
    for _ in range(4):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        time.sleep(0.01)

def compile_late():
    train()
    time.sleep(0.5)
    step(torch.ones(3))

def mark_late():
    time.sleep(0.5)
    for n in (2, 3):
        with coldstep.step():
            step(torch.ones(n))

train()
in_child(compile_late)
for _ in range(3):
    with coldstep.step():
        pass
with coldstep.step():
    in_child(mark_late)
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The job of a program with six children that record something, and one that does not."""
    folder = tmp_path_factory.mktemp("forks")
    (folder / "forks.py").write_text(FORKS + AT_ONCE + LATE)
    done = program.warm("torch", ["coldstep", "run", "forks.py"], folder)
    assert done.stdout == ""
    return coldstep.load(folder / "forks.pftrace")


@pytest.mark.torch
def test_a_childs_first_compile_may_be_on_any_thread_in_a_handler_or_below_a_silent_child(forks: Trace) -> None:
    assert [(row.how, row.ended, row.rank) for row in forks.processes] == [
        ("root", "ok", None),
        *[("fork", "ok", None)] * 4,
        ("fork", "ok", 3),
        ("fork", "ok", None),
    ]
    per_process = [[row for row in forks.compiles if row.process == number] for number in range(7)]
    assert [len(rows) for rows in per_process] == [1, 3, 1, 1, 1, 1, 1]
    assert {(row.cause, row.argument) for row in forks.recompiles} == {("shape", "x")}
    assert len(forks.recompiles) == 8
    assert "1 more Python of this job wrote no trace: it takes a compile or a mark." in forks.run.notes


@pytest.mark.torch
def test_a_child_that_compiles_late_has_its_own_steps_from_the_fork_on(forks: Trace) -> None:
    for child, steps in zip(forks.processes[3:5], (4, 2), strict=True):
        assert child.wall_ns > 5e8
        rows = [row for row in forks.intervals if row.process == child.index]
        assert [row.step for row in rows if row.kind == "step"] == [*range(steps)]
        assert rows[0].kind == "before"
    assert rows[0].wall_ns >= 5e8


@pytest.mark.torch
def test_a_child_that_records_nothing_leaves_no_file_no_word_and_few_copied_pages(tmp_path: Path) -> None:
    done = program.run(f"{FORKS}\n{ENDS}", tmp_path, stack="torch")
    *statuses, pages = done.stdout.split()
    assert statuses == ["0", "15", "0", "0"]
    assert int(pages) < 250  # each is 4 KB copied, and 3 to 6 µs; 340 where all was made anew at once
    [line] = done.stderr.splitlines()
    assert line.startswith("coldstep: block.pftrace: ")
    assert [path.name for path in tmp_path.glob("*.pftrace")] == ["block.pftrace"]
    trace = coldstep.load(tmp_path / "block.pftrace")
    assert [(row.kind, row.step) for row in trace.intervals if row.kind == "step"] == [("step", 0)]
