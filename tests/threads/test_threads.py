"""A dozen of the threads: the report's first answer is the one that the maintainer gave. `make threads` judges all."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from scenarios import warm

import coldstep
from coldstep_viewers.report.terminal import render
from threads.judge import EIGHTH, FIFTH, FOURTH, NINTH, PROGRAMS, SECOND, SEVENTH, SIXTH, THIRD, answered, header

DOZEN = (
    "jax_debug_callback_dispatch", "jax_env_reset_pose_baked", "jax_fori_collect_new_closure",
    "jax_gather_growing_index", "jax_restored_params_committed", "jax_sim_time_weak_type",
    "jax_sparse_operator_constants", "tf_annealed_step_size", "torch_boolean_mask_loss", "torch_item_in_metric",
    "torch_generate_eager", "torch_lazy_cache_entries",
)  # fmt: skip
STACKS = {"tf": "tensorflow", "keras": "tensorflow"}


def stack_of(name: str) -> str:
    first = name.partition("_")[0]
    return STACKS.get(first, first)


@pytest.mark.usefixtures("_few_small_programs_are_cheap")
@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, stack_of(name))) for name in DOZEN])
def test_the_first_answer_is_the_maintainers(name: str, tmp_path: Path) -> None:
    program = next(path for path in PROGRAMS if path.stem == name)
    shutil.copy(program, tmp_path / "program.py")
    command = ["coldstep", "run", "--no-live", "--device", "off", "-o", "run.pftrace", "program.py"]
    code, printed = warm.server(stack_of(name), sys.executable).run(command, tmp_path)
    assert code == 0, printed
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert answered(trace, header(program))[:1] == [True], [row.text for row in trace.answers]
    lines = render(trace, 100).split("\n")
    assert next(at for at, line in enumerate(lines, 1) if line.startswith("What to change")) <= 12


@pytest.mark.parametrize(
    "program",
    [*PROGRAMS, *SECOND, *THIRD, *FOURTH, *FIFTH, *SIXTH, *SEVENTH, *EIGHTH, *NINTH],
    ids=lambda path: path.stem,
)
def test_a_header_has_the_threads_answer(program: Path) -> None:
    about, lines = header(program), program.read_text().splitlines()
    assert about["address"].startswith("https://")
    assert about["stack"] in ("jax", "torch", "torch_xla", "tensorflow")
    assert all(about[key] for key in ("asked", "answer", "mechanism", "counted", "cure"))
    assert all(0 < at <= len(lines) for at in (about["line"], *about["lines_accepted"]))
    assert about["losses"] in ("equal", "close", "other")
    queries = "".join(path.read_text() for path in Path(__file__).parent.glob("queries_*.md"))
    assert re.sub(r"#.*", "", about["address"]) in queries or about["address"].rpartition("/")[2] in queries
