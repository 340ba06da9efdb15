"""The stack wars at their smallest: stacks train FFN, GPT-2 and ResNet alike, and their first steps are told.

Every stack trains the FFN; the others are trained by those that compile little, for a test's time: the whole is
`python -m examples.stack_wars`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import coldstep
from coldstep.analysis.stacks import StackRow, compare
from coldstep.model import Trace

pytestmark = pytest.mark.timeout(1500)  # a busy machine takes minutes for what a quiet one compiles in seconds

ROOT = Path(__file__).parent.parent
MODELS = ("ffn", "gpt2", "resnet50")
OF = {
    "eager": MODELS,
    "inductor": ("ffn",),
    "jax": MODELS,
    "tensorflow": MODELS,
    "tensorflow_xla": ("ffn",),
    "torch_xla": ("ffn", "gpt2"),
    "openxla": ("ffn",),
}
"""What each stack trains here."""
NAMES = {
    "eager": "torch eager",
    "inductor": "dynamo",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "tensorflow_xla": "tensorflow+xla",
}
STEPS = 5
TRAIN = """
import sys
from examples.stack_wars import pair

folder, *pairs = sys.argv[1:]
for each in pairs:
    model, stack = each.split("-")
    pair.main([model, stack, "tiny", f"{folder}/{each}.pftrace", "--steps", "5"])
"""


def trained(folder: Path, *stacks: str) -> None:
    """Traces and rows of these stacks, in one process, which has imported the framework once."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(folder), *(f"{model}-{stack}" for stack in stacks for model in OF[stack])],
        cwd=ROOT,
        env=os.environ
        | {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def read(folder: Path, model: str) -> dict[str, Trace]:
    """By stack, a model's trace."""
    return {path.stem.partition("-")[2]: coldstep.load(path) for path in sorted(folder.glob(f"{model}-*.pftrace"))}


def losses(folder: Path, model: str, stack: str) -> list[float]:
    found: list[float] = json.loads((folder / f"{model}-{stack}.json").read_text())["losses"]
    return found


def compared(folder: Path, model: str) -> dict[str, StackRow]:
    """The comparison's rows, by the file's stack."""
    traces = read(folder, model)
    rows = compare([(stack, trace) for stack, trace in traces.items()]).rows
    return {row.trace: row for row in rows}


@pytest.fixture(scope="module")
def war(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("war")
    for stacks in (("jax",), ("eager", "inductor"), ("tensorflow", "tensorflow_xla")):
        trained(folder, *stacks)
    return folder


@pytest.fixture(scope="module")
def lazy_war(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lazy_war")
    trained(folder, "eager", "torch_xla", "openxla")
    return folder


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
@pytest.mark.parametrize("model", MODELS)
def test_every_stack_computes_the_same_losses(war: Path, model: str) -> None:
    expected = losses(war, model, "eager")
    assert len(expected) == STEPS
    assert expected[-1] < expected[0]
    others = {path.stem.partition("-")[2] for path in war.glob(f"{model}-*.json")} - {"eager"}
    assert others == {stack for stack, models in OF.items() if model in models} - {"eager", "torch_xla", "openxla"}
    for stack in others:
        assert losses(war, model, stack) == pytest.approx(expected, rel=1e-4), stack


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
@pytest.mark.parametrize("model", MODELS)
def test_every_number_of_every_stack_has_its_reason(war: Path, model: str) -> None:
    rows = compared(war, model)
    named = {stack: row.stack for stack, row in rows.items()}
    assert named == {stack: name for stack, name in NAMES.items() if stack in rows}
    for stack, row in rows.items():
        assert None not in (row.first_ns, row.second_ns, row.steady_ns), stack
        assert all(row.reasons[figure] for figure in ("first", "second", "steady", "compiles", "graphs", "memory"))
        assert row.settled_at_step == (0 if stack == "eager" else 1), stack
    assert (rows["eager"].compiles, rows["jax"].compiles) == (0, 1)
    assert (rows["eager"].graphs_per_step, rows["jax"].graphs_per_step) == (0, 1)
    assert "XLA compilation" in rows["jax"].reasons["first"]
    assert "TensorFlow" in rows["tensorflow"].reasons["first"]


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
def test_what_compiles_kernels_says_so(war: Path) -> None:
    rows = compared(war, "ffn")
    assert rows["inductor"].graphs_per_step == 2
    assert "C++ compilation" in rows["inductor"].reasons["first"]
    assert "TensorFlow XLA compilation" in rows["tensorflow_xla"].reasons["first"]


@pytest.mark.torch_xla
@pytest.mark.parametrize(("model", "stack"), [("ffn", "torch_xla"), ("gpt2", "torch_xla"), ("ffn", "openxla")])
def test_the_lazy_stacks_compute_the_same_losses(lazy_war: Path, model: str, stack: str) -> None:
    assert losses(lazy_war, model, stack) == pytest.approx(losses(lazy_war, model, "eager"), rel=1e-4)


@pytest.mark.torch_xla
def test_the_lazy_stacks_need_a_second_step_for_the_optimizer_state(lazy_war: Path) -> None:
    rows = compared(lazy_war, "ffn")
    assert rows["torch_xla"].stack == "torch_xla"
    assert rows["openxla"].stack == "dynamo+torch_xla"
    assert rows["torch_xla"].graphs_per_step == 1
    for stack in ("torch_xla", "openxla"):
        assert rows[stack].settled_at_step == 2
        assert "(optimizer_state)" in rows[stack].reasons["second"]
        assert "tensors of optimizer state" in rows[stack].reasons["second"]
    for trace in read(lazy_war, "ffn").values():
        assert not any(row.state == "failed" for row in trace.collectors)


@pytest.mark.torch
def test_out_of_memory_is_a_row_with_its_reason_and_is_not_run_again(tmp_path: Path) -> None:
    words = ["gemm", "--stack", "eager", "--size", "published", "--memory", "600MiB", "-o", str(tmp_path)]
    first, again = (
        subprocess.run(
            [sys.executable, "-m", "examples.stack_wars", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
        for _ in range(2)
    )
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert "gemm in eager" in first.stderr
    assert "gemm in eager" not in again.stderr
    assert "eager: out of memory: " in first.stdout
    assert again.stdout == first.stdout
    row = json.loads((tmp_path / "published/gemm/eager.json").read_text())
    assert row["ended"] == "out_of_memory"
    assert "llocat" in row["why"]


def test_a_wrong_word_is_one_line() -> None:
    for words, said in ((["gpt3"], "gpt3 is none of gemm, "), (["--memory", "32"], "32 is no size such as 32GiB")):
        done = subprocess.run(
            [sys.executable, "-m", "examples.stack_wars", *words], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert said in done.stderr.splitlines()[-1]
