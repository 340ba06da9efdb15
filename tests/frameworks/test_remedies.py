"""Advice cures as it is printed: a remedy's code at its line, or its variables, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from scenarios import warm
from threads.judge import followed

import coldstep
from coldstep.model import Trace

PROGRAMS = Path(__file__).parents[1] / "remedies"
SETTINGS = ("torch.compiler.config", "torch._dynamo.config")
"""What reads the variables that remedies name."""


@dataclass(slots=True)
class Done:
    """A run: what the program printed, and what compiled."""

    printed: list[str]
    trace: Trace

    @property
    def compiles(self) -> int:
        return sum(
            row.origin == "user" and row.outcome not in ("traced_only", "skipped") for row in self.trace.compiles
        )


def run(program: Path, folder: Path, environment: dict[str, str] | None = None) -> Done:
    """Under coldstep; with variables, PyTorch reads them as where it is imported."""
    name = f"{len(list(folder.glob('*.pftrace')))}.pftrace"
    shutil.copy(program, folder / "program.py")
    command = ["coldstep", "run", "--no-live", "--device", "off", "-o", name, "program.py"]
    has_modules = re.search(r"^(from|import) (equinox|flax)", program.read_text(), re.MULTILINE)
    stack = "jax_modules" if has_modules else program.stem.partition("_")[0]
    server = warm.server(stack, sys.executable)
    if environment is None:
        code, printed = server.run(command, folder)
    else:
        code, printed = server.run(command, folder, {**os.environ, **environment}, SETTINGS)
    printed += (folder / "stdout").read_text()
    assert code == 0, printed
    return Done([line for line in printed.splitlines() if line.startswith("loss ")], coldstep.load(folder / name))


CURED = {
    "jax_committed": ("committed", "edit", "nothing"),
    "jax_default_device": ("config", "edit", "nothing"),
    "jax_dtype": ("dtype", "edit", "rounding"),
    "jax_equinox_count": ("static_argument", "edit", "rounding"),
    "jax_equinox_given": ("static_argument", "edit", "rounding"),
    "jax_jit_of_its_line": ("new_function", "edit", "nothing"),
    "jax_lambda": ("new_function", "edit", "nothing"),
    "jax_new_function": ("new_function", "edit", "nothing"),
    "jax_object": ("static_argument", "edit", "nothing"),
    "jax_part": ("static_argument", "edit", "nothing"),
    "jax_sharding": ("sharding", "edit", "nothing"),
    "jax_static_number": ("static_argument", "edit", "rounding"),
    "jax_static_threshold": ("static_argument", "edit", "rounding"),
    "jax_weak_type": ("weak_type", "edit", "nothing"),
    "jax_wide_index": ("dtype", "edit", "rounding"),
    "tensorflow_sizes": ("shape", "edit", "nothing"),
    "tensorflow_new_function": ("new_function", "edit", "nothing"),
    "tensorflow_new_functions": ("new_function", "edit", "nothing"),
    "tensorflow_epoch": ("python_scalar", "edit", "rounding"),
    "tensorflow_number": ("python_scalar", "edit", "rounding"),
    "tensorflow_slice": ("baked_constant", "edit", "rounding"),
    "torch_attribute": ("module_attribute", "environment", "nothing"),
    "torch_backend": ("backend", "edit", "nothing"),
    "torch_first_one": ("shape", "environment", "nothing"),
    "torch_float": ("python_scalar", "edit", "rounding"),
    "torch_float_kept": ("python_scalar", "edit", "rounding"),
    "torch_gradient": ("gradient_state", "edit", "rounding"),
    "torch_inner_attribute": ("module_attribute", "environment", "nothing"),
    "torch_item": ("data_dependent", "environment", "nothing"),
    "torch_layer_number": ("self.number", "environment", "nothing"),
    "torch_lazy_attribute": ("type", "edit", "rounding"),
    "torch_lazy_function": ("type", "edit", "rounding"),
    "torch_lazy_dict": ("container", "edit", "rounding"),
    "torch_layout": ("layout", "edit", "nothing"),
    "torch_logger": ("side_effect", "edit", "nothing"),
    "torch_module": ("shape", "edit", "nothing"),
    "torch_parameter": ("requires_grad", "edit", "nothing"),
    "torch_parameter_sizes": ("shape", "edit", "nothing"),
    "torch_print": ("side_effect", "edit", "nothing"),
    "torch_random": ("unsupported_call", "edit", "nothing"),
    "torch_momentum": ("optimizer_state", "edit", "rounding"),
    "torch_rate": ("python_scalar", "edit", "rounding"),
    "torch_shape": ("shape", "edit", "nothing"),
    "torch_starred": ("shape", "environment", "nothing"),
    "torch_static_sizes": ("shape", "environment", "nothing"),
    "torch_threads": ("config", "edit", "rounding"),
    "torch_two_shapes": ("shape", "edit", "nothing"),
    "torch_view": ("shape", "environment", "nothing"),
    "torch_warm_sizes": ("limit of 8 variants", "environment", "nothing"),
    "torch_wide": ("dtype", "edit", "rounding"),
    "torch_warning": ("unsupported_call", "edit", "nothing"),
    "torch_warm_up": ("grad_mode", "edit", "nothing"),
}
"""By program: the cause, how the first remedy that a machine can follow is applied, and what else it changes."""
_OPENED = {"torch_static_sizes": False, "torch_first_one": False, "torch_warm_sizes": True}
"""Whether the answer claims that opening a size saves what the recompiles took: three, one and seven of them."""


@pytest.mark.usefixtures("_few_small_programs_are_cheap")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=getattr(pytest.mark, name.partition("_")[0])) for name in CURED]
)
def test_a_remedy_followed_to_the_letter_cures_with_equal_losses(name: str, tmp_path: Path) -> None:
    cause, how, changes = CURED[name]
    program = PROGRAMS / f"{name}.py"
    before = run(program, tmp_path)
    [answer] = before.trace.answers
    finding = next(row for row in before.trace.findings if row.id == answer.finding)
    assert cause in answer.text or cause in {row.cause for row in before.trace.recompiles}
    if name in _OPENED:
        assert answer.saves == _OPENED[name]
    followable = [row for row in finding.remedies if row.code or row.environment]
    assert (followable[0].how, followable[0].changes) == (how, changes)
    assert before.compiles > 1
    for number, remedy in enumerate(followable):
        folder = tmp_path / str(number)
        folder.mkdir()
        edited = folder / program.name
        edited.write_text(followed(program.read_text(), remedy) if remedy.code else program.read_text())
        after = run(edited, folder, remedy.environment or None)
        assert after.compiles == 1, remedy
        assert after.printed == before.printed != []
        assert not any(cause in row.text for row in after.trace.answers)


GONE = {
    "jax_accumulation": ("unrolled", "rounding"),
    "jax_elements": ("unrolled", "rounding"),
    "jax_equinox_step": ("eager_compiles", "rounding"),
    "jax_flax_state": ("eager_compiles", "rounding"),
    "jax_flax_weights": ("eager_compiles", "rounding"),
    "jax_layers": ("unrolled", "rounding"),
    "jax_loop": ("unrolled", "rounding"),
    "jax_list": ("unrolled", "rounding"),
    "jax_mask": ("failed_compile", "rounding"),
    "jax_masked_mean": ("failed_compile", "rounding"),
    "jax_nnx_model": ("eager_compiles", "rounding"),
    "jax_nnx_step": ("eager_compiles", "rounding"),
    "jax_nothing_compiled": ("eager_compiles", "rounding"),
    "jax_outermost": ("fast_path_miss", "rounding"),
    "jax_switched_off": ("uncompiled", "rounding"),
    "jax_scan_by_itself": ("eager_compiles", "rounding"),
    "jax_uncompiled_step": ("eager_compiles", "rounding"),
    "jax_window": ("failed_compile", "nothing"),
    "tensorflow_direct_calls": ("uncompiled", "rounding"),
    "tensorflow_eager_step": ("uncompiled", "rounding"),
    "tensorflow_functions_eagerly": ("uncompiled", "rounding"),
    "tensorflow_optimizer": ("failed_compile", "nothing"),
    "tensorflow_run_eagerly": ("uncompiled", "rounding"),
    "torch_class": ("graph_break", "nothing"),
    "torch_dropped": ("uncompiled", "nothing"),
    "torch_dropped_function": ("uncompiled", "nothing"),
    "torch_forward_by_name": ("uncompiled", "nothing"),
    "torch_recurrent": ("graph_break", "nothing"),
    "torch_module_aside": ("uncompiled", "nothing"),
}
"""By program: the kind of finding that the first remedy takes away, where nothing compiled again."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=getattr(pytest.mark, name.partition("_")[0])) for name in GONE]
)
def test_a_remedy_followed_to_the_letter_takes_the_finding_away(name: str, tmp_path: Path) -> None:
    kind, changes = GONE[name]
    program = PROGRAMS / f"{name}.py"
    before = run(program, tmp_path)
    answers = {answer.finding for answer in before.trace.answers}
    finding = next(row for row in before.trace.findings if row.kind == kind and row.id in answers)
    [remedy] = [row for row in finding.remedies if row.code]
    assert remedy.changes == changes
    folder = tmp_path / "after"
    folder.mkdir()
    edited = folder / program.name
    edited.write_text(followed(program.read_text(), remedy))
    after = run(edited, folder)
    assert after.printed == before.printed != []
    assert not [row for row in after.trace.findings if row.kind == kind]


def test_every_program_is_followed() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == CURED.keys() | GONE.keys()
