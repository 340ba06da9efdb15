"""`make engines`: trainers that people use, tiny, under their own launchers, with and without coldstep.

Exit 1 where a traced run trains otherwise, ends otherwise, or reports otherwise than the trainer itself counts.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engines.counts import MARK

import coldstep
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.terminal import render

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TABLE = ROOT / "docs" / "evidence" / "engines.md"
_LIMIT_S = 900
"""For one run; each takes well under a minute where the machine is free."""
_HEAD = """\
# Trainers under coldstep

Written by `make engines`: each with a tiny model of random weights and made-up data, on a CPU, run once without
coldstep and once with it, under its own launcher. Steps and compiles are first the trainer's own count of the run
without coldstep, then coldstep's of the other. A trainer's compiles are the graphs of Dynamo's counters
(`stats.unique_graphs`: a frame that Dynamo takes over without a graph is no compile), or the lines of
`jax_log_compiles` for its training step. Held as well, in each process: that the traced run counts the same as the one
without, that no collector failed, and that the report claims no absence falsely ("nothing compiled", "no step", "never
imported: …"). DeepSpeed's optimizer is built as it is first used: held is that of its two ranks one built it and one
waited, that a second run built nothing, and that a lock that no process holds is named while the program waits.
Exit 1 where anything of this does not hold.

| trainer | launcher | date | losses equal to the last digit | exit codes | steps | compiles | headline |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
_TAIL = """
What differs from how people run them: Dynamo's backend is `aot_eager` for TRL and torchtitan (no C++ is compiled), and
torchtitan, made for accelerators, has the questions that it asks of one answered by
[its program](../../benchmarks/engines/torchtitan_train.py): name, number and memory of the device. Its two processes
are replicas, with SDPA for attention. Its FSDP does not run on a CPU: "RuntimeError: Cannot use ReduceOp.PREMUL_SUM
with Gloo". No language model of its 0.3.0 does: "sdpa is no longer supported for language models", and what it has
instead is made for GPUs, but for FlexAttention: "NotImplementedError: FlexAttention does not support backward on CPU".

## Their counters in experiment trackers

2026-11-27, by `tests/frameworks/test_trackers.py` in an environment with all of them: the three callbacks of
[trainers](../how-to/trainers.md), W&B 0.31.0 offline, MLflow 3.17.2 on files (Keras' needs pandas), TensorBoard 2.21.0.
Read back from what each wrote, all five counters, in all nine; the last of each (Keras' in a run of all three).

| | W&B | MLflow | TensorBoard | compiles, seconds | recompiles, seconds |
| --- | --- | --- | --- | --- | --- |
| transformers 5.23.0 | `train/coldstep/…` | `coldstep/…` | `train/coldstep/…` | 2, 1.18 | 1, 0.19 |
| Lightning 2.6.6 | `coldstep/…` | `coldstep/…` | `coldstep/…` | 2, 0.37 | 1, 0.26 |
| Keras 3.15.1 on TensorFlow, 3 epochs | `epoch/coldstep/…` | `coldstep/…` | `epoch_coldstep/…` | 8, 0.59 | 0, 0 |
"""
_BUILT = "extensions"
_LOCKED_S = 120
_STALE = "no process on this host holds it"
_WELL = ("attached", "absent")
_ABSENT = ("nothing compiled", "no step", "no call of a compiled function", "no optimizer")
"""Words of a report that are false of each of these runs."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A trainer, by its program."""

    name: str
    program: str
    python: str
    """The folder of the environment that has it."""
    function: str = ""
    """What it calls its compiled step, "" where each compile counts."""
    launcher: str = ""
    """What starts a command as this trainer's users do; a plain Python process without."""
    builds: str = ""
    """The extension that its first run builds."""


ENGINES = (
    Engine(
        "TRL", "trl_sft.py", ".venv-engines-torch", launcher="accelerate launch --cpu --num_processes 1 --no_python"
    ),
    Engine(
        "torchtitan",
        "torchtitan_train.py",
        ".venv-engines-torch",
        launcher="torchrun --nproc-per-node 2 --no-python",
    ),
    Engine(
        "DeepSpeed",
        "deepspeed_adam.py",
        ".venv-engines-torch",
        launcher="torchrun --nproc-per-node 2 --no-python",
        builds="cpu_adam",
    ),
    Engine("KerasHub", "kerashub_fit.py", ".venv-engines-jax", function="train_step"),
    Engine("Tunix", "tunix_sft.py", ".venv-engines-jax", function="train_step"),
)


@dataclass(slots=True)
class Counts:
    """What a run of a program ended with, and what the trainer in it counted."""

    exit_code: int | None = None
    """None where it ran out of time."""
    losses: list[float] = field(default_factory=list)
    steps: int | None = None
    compiles: int | None = None
    versions: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    processes: int = 0
    """How many counted that."""


@dataclass(slots=True)
class Row:
    """A row of the table, and what is wrong with it."""

    text: str
    wrong: list[str]


def command_of(engine: Engine, folder: Path, *, traced: bool) -> tuple[list[str], dict[str, str]]:
    """What runs its program, and in which environment."""
    program = str(HERE / engine.program)
    inner = ["coldstep", "run", "-o", "run.pftrace", program] if traced else ["python", program]
    path = f"{ROOT / engine.python / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TORCH_EXTENSIONS_DIR": str(folder / _BUILT)}
    return [*engine.launcher.split(), *inner], os.environ | env


def run(engine: Engine, folder: Path, *, traced: bool) -> Counts:
    """Run its program to the end; where that fails, show the end of its output."""
    command, env = command_of(engine, folder, traced=traced)
    began, log = time.monotonic(), folder / f"traced-{traced}.log"
    with log.open("w") as output:
        try:
            code = subprocess.run(
                command, cwd=folder, env=env, stdout=output, stderr=output, check=False, timeout=_LIMIT_S
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    text = log.read_text(errors="replace")
    counted = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    tell(f"{engine.name} {'with' if traced else 'without'} coldstep: exit {code}, {time.monotonic() - began:.0f} s")
    if code != 0 or not counted:
        tell("\n".join(text.splitlines()[-30:]))
    return Counts(code, **json.loads(counted[-1]), processes=counted.count(counted[-1])) if counted else Counts(code)


def tell(text: str) -> None:
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


def judge(engine: Engine) -> Row:
    """Run it both ways and compare."""
    with tempfile.TemporaryDirectory(prefix="coldstep-engines-") as name:
        plain, traced = (run(engine, Path(name), traced=traced) for traced in (False, True))
        traces = [coldstep.load(path) for path in sorted(Path(name).glob("run*.pftrace"))]
    wrong = [text for trace in traces for text in differences(engine, plain, traced, trace)]
    wrong += [text for trace in traces for text in false_absences(render(trace), traced)]
    if not 0 < len(traces) == plain.processes == traced.processes:
        wrong.append(f"processes {plain.processes} without coldstep, {traced.processes} with it, traces {len(traces)}")
    return Row(row_of(engine, plain, traced, traces[0] if traces else None), list(dict.fromkeys(wrong)))


def judge_builds(engine: Engine) -> Row:
    """Run it with coldstep where nothing is built yet, then where all is, then without; then behind a stale lock."""
    with tempfile.TemporaryDirectory(prefix="coldstep-engines-") as name:
        folder, states = Path(name), []
        for _ in range(2):
            traced = run(engine, folder, traced=True)
            traces = [coldstep.load(path) for path in sorted(folder.glob("run*.pftrace"))]
            states.append(sorted(row.state for trace in traces for row in trace.builds if row.name == engine.builds))
        plain = run(engine, folder, traced=False)
        names_lock = warns_of_stale_lock(engine, folder)
    wrong = [text for trace in traces for text in differences(engine, plain, traced, trace)]
    # the second time, too, a rank that comes while the other looks whether all is built waits for its lock
    if states not in ([["built", "waited"], ["loaded", second]] for second in ("loaded", "waited")):
        wrong.append(f"the ranks' builds of {engine.builds}: {states}")
    if not names_lock:
        wrong.append("a lock that no process holds is not named")
    return Row(row_of(engine, plain, traced, traces[0] if traces else None), list(dict.fromkeys(wrong)))


def warns_of_stale_lock(engine: Engine, folder: Path) -> bool:
    """Whether coldstep names the lock of a build that no process holds, while the program waits for it."""
    lock = folder / _BUILT / engine.builds / "lock"
    lock.touch()
    command, env = command_of(engine, folder, traced=True)
    log = folder / "locked.log"
    with log.open("w") as output:
        waits = subprocess.Popen(command, cwd=folder, env=env, stdout=output, stderr=output)
    deadline = time.monotonic() + _LOCKED_S
    try:
        while not (named := f"lock {lock}," in log.read_text() and _STALE in log.read_text()):
            if time.monotonic() > deadline or waits.poll() is not None:
                break
            time.sleep(0.5)
    finally:
        lock.unlink(missing_ok=True)
        waits.wait(_LIMIT_S)
    return named


def steps_of(trace: coldstep.Trace) -> int:
    """How many steps coldstep reports."""
    return sum(row.kind == "step" for row in trace.intervals)


def compiles_of(engine: Engine, trace: coldstep.Trace) -> int:
    """How many compiles coldstep reports of what the trainer counts."""
    made = [row for row in trace.compiles if row.outcome in ("compiled", "cache_hit") and row.origin != "eager"]
    return sum(engine.function in row.function for row in made)


def differences(engine: Engine, plain: Counts, traced: Counts, trace: coldstep.Trace) -> Iterator[str]:
    """In what the run with coldstep differs from the one without, and its trace from what the trainer counts."""
    steps, compiles = steps_of(trace), compiles_of(engine, trace)
    if not plain.losses or plain.losses != traced.losses:
        yield f"losses {plain.losses} without coldstep, {traced.losses} with it"
    if (plain.exit_code, traced.exit_code) != (0, 0):
        yield f"exit code {plain.exit_code} without coldstep, {traced.exit_code} with it"
    if not plain.steps == traced.steps == steps:
        yield f"steps {plain.steps} without coldstep, {traced.steps} with it, {steps} in the trace"
    if not plain.compiles == traced.compiles == compiles:
        yield f"compiles {plain.compiles} without coldstep, {traced.compiles} with it, {compiles} in the trace"
    yield from (f"collector {each.name} is {each.state}" for each in trace.collectors if each.state not in _WELL)


def false_absences(report: str, counts: Counts) -> Iterator[str]:
    """What the report claims not to be there, and is."""
    text = " ".join(report.split())
    yield from (f"the report has the words {words!r}" for words in _ABSENT if words in text)
    if never := re.search(r"never imported: ([a-z_, ]+)", text):
        absent = re.split(r", | and ", never[1])
        yield from (f"{name} is never imported, by the report" for name in counts.imported if name in absent)


def row_of(engine: Engine, plain: Counts, traced: Counts, trace: coldstep.Trace | None) -> str:
    """The row of the table; of several processes the first one's trace."""
    equal = bool(plain.losses) and plain.losses == traced.losses
    cells = [
        f"{engine.name} ({', '.join(plain.versions)})",
        f"`{f'{engine.launcher} coldstep run'.strip()}`",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        f"yes, {len(plain.losses)} of {len(traced.losses)}" if equal else "no",
        f"{plain.exit_code}, {traced.exit_code}",
        f"{plain.steps}, {steps_of(trace) if trace else '?'}",
        f"{plain.compiles}, {compiles_of(engine, trace) if trace else '?'}",
        " ".join(headline(trace).split()).replace("|", "\\|") if trace else "?",
    ]
    return f"| {' | '.join(cells)} |\n"


def judged(engine: Engine) -> Row:
    """The same; an error is a row, and does not end the others."""
    try:
        return judge_builds(engine) if engine.builds else judge(engine)
    except Exception as error:
        return Row(f"| {engine.name} | not judged: {type(error).__name__} |\n", [f"{type(error).__name__}: {error}"])


def main() -> int:
    """Write the table; 1 where anything is wrong."""
    rows = {engine.name: judged(engine) for engine in ENGINES}
    TABLE.write_text(f"{_HEAD}{''.join(row.text for row in rows.values())}{_TAIL}")
    wrong = [f"{name}: {text}" for name, row in rows.items() for text in row.wrong]
    for text in wrong:
        tell(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
