"""The stack wars at their smallest: every stack trains FFN, GPT-2 and ResNet alike, and their first steps are told.

A block of each has to do, for a test's time: the whole is `python -m benchmarks.stack_wars`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import program
import pytest
from benchmarks.pages import set_apart
from benchmarks.stack_wars import fitting, foretell, page, pair
from benchmarks.stack_wars.__main__ import main, run
from benchmarks.stack_wars.pair import Row
from benchmarks.stack_wars.results import fought
from benchmarks.stack_wars.sizes import SIZES

import coldstep
from coldstep._util.figures import size
from coldstep.analysis.across.frameworks import StackRow
from coldstep.model import Trace

pytestmark = pytest.mark.timeout(1500)  # a busy machine takes minutes for what a quiet one compiles in seconds

ROOT = Path(__file__).parents[2]
MODELS = ("ffn", "gpt2", "resnet50")
NAMES = {
    "eager": "torch eager",
    "inductor": "dynamo",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "tensorflow_xla": "tensorflow+xla",
}
LAZY_NAMES = {"torch_xla": "torch_xla", "openxla": "dynamo+torch_xla"}
STEPS = 5
Command = Callable[..., tuple[str, str]]
TRAIN = """
from dataclasses import replace
from pathlib import Path
from benchmarks.stack_wars import pair
from benchmarks.stack_wars.sizes import SIZES_OF

if "inductor" in STACKS:
    import torch
    torch.set_num_threads(1)  # C++ without OpenMP

blocks = {"ffn": {"layers": 1}, "gpt2": {"layers": 1}, "resnet50": {"stages": (1,)}}
for stack in STACKS:
    for model, smaller in blocks.items():
        SIZES_OF[model]["tiny"] = replace(SIZES_OF[model]["tiny"], **smaller)
        trace = Path("tiny", model, f"{stack}.pftrace")
        trace.parent.mkdir(parents=True, exist_ok=True)
        pair.main([model, stack, "tiny", str(trace), "--steps", "5", *(["--ir"] if model == "ffn" else [])])
"""


def trained(folder: Path, framework: str, *stacks: str) -> None:
    """Traces and rows of these stacks, in one process."""
    program.run(
        TRAIN.replace("STACKS", repr(stacks)),
        folder,
        env={
            "PYTHONPATH": str(ROOT),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no workers, which import PyTorch anew
            "TORCHINDUCTOR_VEC_ISA_OK": "0",  # half of the C++
            "TORCHINDUCTOR_CPP_MARCH": "x86-64",  # fewer intrinsics in its headers
            "TORCHINDUCTOR_CPP_WRAPPER": "1",  # one file of C++ for each graph, not one for each kernel
            "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0",
            "AOT_INDUCTOR_ENABLE_LINE_TABLES": "0",
        },
        timeout=1400,
        stack=framework,
        settings=["torch._inductor.config"] if "inductor" in stacks else [],
    )


def read(folder: Path, model: str) -> dict[str, Trace]:
    """By stack, a model's trace."""
    return {path.stem: coldstep.load(path) for path in sorted((folder / "tiny" / model).glob("*.pftrace"))}


def losses(folder: Path, model: str, stack: str) -> list[float]:
    found: list[float] = json.loads((folder / "tiny" / model / f"{stack}.json").read_text())["losses"]
    return found


def compared(folder: Path, model: str) -> dict[str, StackRow]:
    """The comparison's rows, by stack."""
    return fought(folder / "tiny")[model].traced


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """What one of the commands prints and says meanwhile; the pairs run in processes of their own all the same."""

    def ran(main: Callable[[], None], *words: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["stack_wars", *words])
        main()
        printed = capsys.readouterr()
        return printed.out, printed.err

    return ran


@pytest.fixture(scope="module")
def war(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("war")
    trained(folder, "jax", "jax")
    trained(folder, "tensorflow", "tensorflow", "tensorflow_xla")
    trained(folder, "torch", "eager", "inductor")
    return folder


@pytest.fixture(scope="module")
def lazy_war(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lazy_war")
    trained(folder, "torch_xla", "eager", "torch_xla", "openxla")
    return folder


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
@pytest.mark.parametrize("model", MODELS)
def test_every_stack_computes_the_same_losses(war: Path, model: str) -> None:
    expected = losses(war, model, "eager")
    assert len(expected) == STEPS
    assert expected[-1] < expected[0]
    for stack in NAMES:
        assert losses(war, model, stack) == pytest.approx(expected, rel=1e-5), stack


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
@pytest.mark.parametrize("model", MODELS)
def test_every_number_of_every_stack_has_its_reason(war: Path, model: str) -> None:
    rows = compared(war, model)
    named = {stack: row.stack for stack, row in rows.items()}
    assert named == NAMES
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
@pytest.mark.parametrize("stack", LAZY_NAMES)
@pytest.mark.parametrize("model", MODELS)
def test_the_lazy_stacks_compute_the_same_losses(lazy_war: Path, model: str, stack: str) -> None:
    assert losses(lazy_war, model, stack) == pytest.approx(losses(lazy_war, model, "eager"), rel=1e-5)


@pytest.mark.torch_xla
@pytest.mark.parametrize("model", MODELS)
def test_the_lazy_stacks_need_a_second_step_for_the_optimizer_state(lazy_war: Path, model: str) -> None:
    rows = compared(lazy_war, model)
    assert {stack: rows[stack].stack for stack in LAZY_NAMES} == LAZY_NAMES
    assert rows["torch_xla"].graphs_per_step == 1
    for stack in LAZY_NAMES:
        assert rows[stack].settled_at_step == 2
        assert "(optimizer_state)" in rows[stack].reasons["second"]
        assert "tensors of optimizer state" in rows[stack].reasons["second"]
        assert "traces the lazy graph anew in each step" in rows[stack].reasons["steady"]
    for trace in read(lazy_war, model).values():
        assert not any(row.state == "failed" for row in trace.collectors)


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
def test_the_page_has_every_figure_with_its_reason(war: Path) -> None:
    wars = fought(war / "tiny")
    lines = list(page.section("tiny", wars, date(2026, 1, 2)))
    tables = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ffn |")]
    assert [sum(bool(cell) for cell in cells) for cells in tables] == [6, 6, 6, 6]  # the model, five stacks; losses
    assert any("15 of 63 pairs ended by themselves, 48 not run." in line for line in lines)
    for stack in NAMES:
        assert lines.count(f"- **{stack}**") == len(MODELS)
    reasons = [line for line in lines if line.startswith("  - ")]
    assert len(reasons) == 3 * 5 * 7
    assert all(line.partition(": ")[2].strip() for line in reasons)


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
def test_what_would_be_held_is_foretold_beside_what_was(war: Path, command: Command) -> None:
    stacks = ("jax", "eager")
    words = ["ffn", "--size", "tiny", "-o", str(war), "--memory"]
    said, _ = command(foretell.main, *words, "300KiB", "--stack", *stacks)
    assert "ffn in jax: does not fit into 300 KiB: " in said
    assert "ffn in eager: does not fit into 300 KiB: " in said
    for stack in stacks:
        fit = fitting.read(war / "tiny/ffn" / f"{stack}.fit.json").fit
        assert fit is not None
        assert fit.fits is False
        assert f"does not fit into 300 KiB: {size(fit.peak_bytes)}" in str(fit)
    lines = list(page.predictions(war))
    again, _ = command(foretell.main, *words, "300 MiB", "--stack", "jax")
    assert "ffn in jax: fits into 300 MiB: " in again
    [jax] = [line for line in lines if line.startswith("| tiny | ffn | jax | ")]
    judged, kept = jax.split(" | ")[-2:]
    assert judged == "not judged"
    assert kept.endswith("B |")
    [held] = [line for line in lines if line.startswith("- ffn, tiny, eager: ")]
    assert "optimizer state" in held
    assert "dtype (bfloat16 instead of float32) " in held


@pytest.mark.jax
@pytest.mark.tensorflow
def test_the_page_lays_programs_beside_each_other(war: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny-ir").mkdir()
    (tmp_path / "tiny-ir/ffn").symlink_to(war / "tiny/ffn")
    lines = list(page.programs(tmp_path))
    [heading] = [line for line in lines if line.startswith("<details>")]
    assert re.fullmatch(r"<details><summary>ffn: operations in (jax|tensorflow_xla) \d+ and \S+ \d+</summary>", heading)
    [paired] = [line for line in lines if line.startswith("- **")]
    assert re.fullmatch(
        r"- \*\*(JAX → TensorFlow with XLA|TensorFlow with XLA → JAX)\*\*: \d+ of [\d and]+ are paired\.", paired
    )


@pytest.mark.torch_xla
def test_of_a_stack_that_keeps_not_all_of_its_programs_the_page_says_so(lazy_war: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny-ir").mkdir()
    (tmp_path / "tiny-ir/ffn").symlink_to(lazy_war / "tiny/ffn")
    [heading] = [line for line in page.programs(tmp_path) if line.startswith("<details>")]
    assert re.search(r"torch_xla \d+", heading)
    assert "openxla not counted (not all programs were kept)" in heading


def test_what_a_page_has_folded_is_kept_as_data_beside_it(tmp_path: Path) -> None:
    folded = "<details><summary>gemm</summary>\n\n- **jax**\n  - First 9 ms\n\n</details>\n\nafter\n"
    assert set_apart(tmp_path / "page.md", "tiny", f"before\n\n{folded}") == "before\n\nafter\n"
    assert set_apart(tmp_path / "page.md", "small", "nothing\n") == "nothing\n"
    set_apart(tmp_path / "page.md", "small", folded)
    rows = {"gemm": ["- **jax**", "  - First 9 ms"]}
    assert json.loads((tmp_path / "page.json").read_text()) == {"tiny": rows, "small": rows}


def test_a_part_of_the_page_is_made_anew_and_the_others_stay() -> None:
    made = "made by benchmarks/stack_wars/page.py -->"
    parts = {"tiny": "<!-- tiny: {made}\n\nold\n<!-- tiny: end -->", "small": "<!-- small: {made}\n<!-- small: end -->"}
    before = f"words\n{parts['tiny']}\n{parts['small']}\nmore\n".replace("{made}", made)
    after = page.replaced(before, "small", ["new", "lines"])
    assert after == before.replace(f"<!-- small: {made}\n", f"<!-- small: {made}\n\nnew\nlines\n")
    assert page.replaced(after, "small", ["new", "lines"]) == after
    for of in (*SIZES, "would it fit", "programs"):
        assert page.replaced(page.PAGE.read_text(), of, ["new"]) != page.PAGE.read_text()


@pytest.mark.torch
def test_out_of_memory_is_a_row_with_its_reason_and_is_not_run_again(tmp_path: Path, command: Command) -> None:
    words = ["gemm", "--stack", "eager", "--size", "published", "--memory", "800MiB", "-o", str(tmp_path)]
    (first, progress), again = (command(main, *words) for _ in range(2))
    assert "gemm in eager" in progress
    assert "eager: out of memory: " in first
    assert again == (first, "")
    lines = list(page.why("gemm", fought(tmp_path / "published")["gemm"]))
    assert any(re.match(r"  - Ended : Out of memory (before the first step|in step \d)", line) for line in lines)
    row = json.loads((tmp_path / "published/gemm/eager.json").read_text())
    assert row["ended"] == "out_of_memory"
    assert "llocat" in row["why"]


def test_a_pair_that_is_killed_says_by_what_and_where(tmp_path: Path) -> None:
    place = ROOT / "benchmarks/stack_wars/train_nothing.py"
    dies = "def prepare():\n import ctypes\n ctypes.string_at(0)\nprepare()"
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\nimport sys\nprint('no memory', file=sys.stderr)\n"
        f"print('I0000 00:00:1.2 3 port.cc:153] a remark', file=sys.stderr, flush=True)\n"
        f"exec(compile({dies!r}, {str(place)!r}, 'exec'))\n"
    )
    python.chmod(0o755)
    run(str(python), Row("gemm", "jax", "tiny"), tmp_path / "jax.pftrace", 2, ir=False)
    row = pair.read(tmp_path / "jax.pftrace")
    assert (row.ended, row.why) == ("failed", "killed by SIGSEGV in prepare (train_nothing.py:3): no memory")


def test_a_wrong_word_is_one_line(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["gpt3"], "gpt3 is none of gemm, "),
        (["--memory", "32x"], "'32x' is no size such as '32GiB'"),
    ):
        with pytest.raises(SystemExit) as ended:
            command(main, *words)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err.splitlines()[-1]
