"""Caches on disk: how each program is keyed, and why one that had been compiled before was compiled again."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import program
import pytest
from click.testing import CliRunner
from scenarios import warm

import coldstep
from coldstep.analysis.reuse import compared, foretold
from coldstep.model import Cache, Compile, Trace
from coldstep_viewers.commands import cli

pytestmark = [pytest.mark.jax, pytest.mark.torch]

JAX = """
import os, sys
case = sys.argv[1]
flags = {"fast_math": " --xla_cpu_enable_fast_math=true", "more_devices": " --xla_force_host_platform_device_count=3"}
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + flags.get(case, "")
import jax
import jax.numpy as jnp
import numpy as np
import coldstep

jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000 if case == "threshold" else 0)
if case == "disabled":
    jax.config.update("jax_enable_compilation_cache", False)
if case == "late":
    jax.jit(lambda x: x * 3)(np.float32(1))
folders = {"off": None, "moved": "moved", "threshold": "empty"}
folder = folders.get(case, "cache")
jax.config.update("jax_compilation_cache_dir", folder and os.path.abspath(folder))
if case == "metadata":
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
if case == "precision":
    jax.config.update("jax_default_matmul_precision", "highest")
constant = 3.0 if case == "constant" else 2.0

def train_step(x):
    return jnp.tanh(x @ x) * constant

if case == "host_callback":
    def train_step(x):
        jax.debug.print("x {x}", x=x[0, 0])
        return jnp.tanh(x @ x) * constant

options = {"options": {"xla_cpu_enable_fast_min_max": True}}.get(case)
train_step = jax.jit(train_step, donate_argnums=(0,) if case == "donated" else (), compiler_options=options)
x = np.ones((6, 6) if case == "shape" else (4, 4), np.int32 if case == "dtype" else np.float32)
if case == "device_1":
    x = jax.device_put(x, jax.devices()[-1])
if case == "disabled":
    jax.jit(lambda x: x + 7)(np.float32(1))
    jax.config.update("jax_enable_compilation_cache", True)
with coldstep.step():
    coldstep.wait(train_step(x))
if case == "directory_changed":
    jax.config.update("jax_compilation_cache_dir", os.path.abspath("another"))
    coldstep.wait(train_step(np.ones((9, 9), np.float32)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of a stack's processes run."""
    folder = tmp_path_factory.mktemp("jax")
    (folder / "program.py").write_text(JAX)
    return folder


@pytest.fixture(scope="module")
def traced(folder: Path) -> Callable[..., Trace]:
    """What a process compiled that ran the program for a case; each further one finds what the first had stored."""
    known: dict[str, Trace] = {}

    def run(case: str, *arguments: str) -> Trace:
        if case not in known:
            command = ["coldstep", "run", "-o", f"{case}.pftrace", "program.py", case, *arguments]
            code, said = warm.server("jax", sys.executable).run(command, folder)
            assert code == 0, said
            known[case] = coldstep.load(folder / f"{case}.pftrace")
        return known[case]

    run("first")
    return run


def of(trace: Trace, function: str = "train_step") -> tuple[Compile, Cache]:
    """The last compile of a function, and what the persistent cache said of it."""
    row = [row for row in trace.compiles if row.function == function][-1]
    (cache,) = row.caches
    return row, cache


def test_a_program_has_the_same_name_in_every_process_with_or_without_a_cache(traced: Callable[..., Trace]) -> None:
    first, stored = of(traced("first"))
    again, loaded = of(traced("again"))
    off, unstored = of(traced("off"))
    assert first.program == again.program == off.program
    assert re.fullmatch("1:[0-9a-f]{16}", first.program or "")
    assert of(traced("constant"))[0].program != first.program
    assert of(traced("fast_math"))[0].program == first.program

    assert (stored.state, stored.written, loaded.state, loaded.written) == ("miss", True, "hit", None)
    assert stored.key == loaded.key != unstored.key
    assert stored.components == loaded.components
    assert [row.name for row in stored.components][:4] == [
        "computation",
        "jax_lib version",
        "backend version",
        "XLA flags",
    ]
    assert loaded.load_ns
    assert stored.load_ns is None
    assert all(row.self_ns for row in (stored, loaded, unstored))


@pytest.mark.parametrize(
    ("case", "state", "why", "words"),
    [
        ("off", "off", "disabled", "no directory is set"),
        ("disabled", "off", "disabled", "it was off when the process first compiled"),
        ("threshold", "miss", "threshold", "jax_persistent_cache_min_compile_time_secs is 1000"),
        ("host_callback", "miss", "host_callback", "it calls back into this process"),
        ("directory_changed", "miss", "late", "after the first compile"),
    ],
)
def test_what_was_not_stored_says_why(
    traced: Callable[..., Trace], case: str, state: str, why: str, words: str
) -> None:
    _, cache = of(traced(case))
    assert (cache.state, cache.why) == (state, why)
    assert words in cache.why_text


@pytest.mark.parametrize(
    ("case", "differs"),
    [
        ("fast_math", {"XLA flags": ("", "--xla_cpu_enable_fast_math=true")}),
        ("argv", {"XLA flags": ("", "--xla_foo=1")}),
        ("more_devices", {"accelerator_config": ("2 cpu devices, process 0", "3 cpu devices, process 0")}),
        ("options", {"compile_options.env_option_overrides": ("", "[[xla_cpu_enable_fast_min_max, True]]")}),
        ("moved", {"compile_options.xla_gpu_per_fusion_autotune_cache_dir": ("/cache", "/moved")}),
        ("constant", {"constant": ("2.0", "3.0")}),
        ("shape", {"x": ("f32[4,4]", "f32[6,6]")}),
        ("dtype", {"x": ("f32[4,4]", "i32[4,4]")}),
        ("donated", {"x": ("not donated", "donated")}),
        ("precision", {"jax_default_matmul_precision": ("None", "highest")}),
    ],
)
def test_a_miss_names_what_differs_and_both_values(
    traced: Callable[..., Trace], case: str, differs: dict[str, tuple[str, str]]
) -> None:
    later = traced(case, *(["--xla_foo=1"] if case == "argv" else []))
    (row,) = [row for row in compared(traced("first"), later).programs if row.function == "train_step"]
    assert row.verdict == "missed"
    assert {each.name for each in row.components} == set(differs)
    for each in row.components:
        before, after = differs[each.name]
        assert before in (each.before or "")
        assert after in (each.after or "")


def test_a_damaged_entry_is_told_apart_from_none(traced: Callable[..., Trace], folder: Path) -> None:
    shutil.copytree(folder / "cache", folder / "kept")
    for entry in (folder / "cache").glob("jit_train_step*-cache"):
        entry.write_bytes(b"damaged")
    later = traced("damaged")
    shutil.rmtree(folder / "cache")
    (folder / "kept").rename(folder / "cache")
    _, cache = of(later)
    assert (cache.state, cache.written, cache.why) == ("unreadable", False, "corrupt")
    (row,) = compared(traced("first"), later).programs
    assert (row.verdict, row.why, row.components) == ("missed", "corrupt", [])
    (row,) = foretold(later).programs
    assert (row.verdict, row.why) == ("not_written", "corrupt")


def test_an_entry_that_is_gone_blames_no_component(traced: Callable[..., Trace], folder: Path) -> None:
    (folder / "cache").rename(folder / "elsewhere")
    later = traced("emptied")
    shutil.rmtree(folder / "cache")
    (folder / "elsewhere").rename(folder / "cache")
    (row,) = compared(traced("first"), later).programs
    assert (row.verdict, row.why, row.components) == ("missed", "evicted", [])


@pytest.mark.parametrize("case", ["first", "again", "threshold", "off"])
def test_what_the_next_process_pays_adds_up(traced: Callable[..., Trace], case: str) -> None:
    trace = traced(case)
    found = foretold(trace)
    second = found.second_run
    assert second.wall_ns == second.again_ns + second.load_ns + second.unattributed_ns
    assert second.again_ns == sum(row.ns for row in found.again)
    wall_ns = trace.processes[0].before_trace_ns + trace.processes[0].wall_ns
    saves = case == "first"
    assert wall_ns - second.wall_ns == (second.saved_ns if saves else 0)
    assert (second.saved_ns > 0) == saves
    (program,) = found.programs
    assert program.verdict == {"threshold": "not_written", "off": "off"}.get(case, "hit")


def test_what_was_compiled_before_the_directory_was_set_is_told_apart(traced: Callable[..., Trace]) -> None:
    found = {row.function: (row.verdict, row.why) for row in foretold(traced("late")).programs}
    assert found["<lambda>"] == ("off", "late")
    assert found["train_step"] == ("hit", None)


def said(*words: str | Path) -> str:
    """What `coldstep cache` prints."""
    done = CliRunner().invoke(cli.main, ["cache", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_says_it_in_words_and_as_data(traced: Callable[..., Trace], folder: Path) -> None:
    for case in ("first", "again", "fast_math", "threshold"):
        traced(case)
    first = folder / "first.pftrace"
    assert said(first, folder / "again.pftrace").endswith("again.pftrace: 1 loaded\n")
    text = said(first, folder / "fast_math.pftrace")
    assert ": 1 missed\n" in text
    assert re.search(r"\n  XLA flags: .* → .*--xla_cpu_enable_fast_math=true", text)
    data = json.loads(said(first, folder / "fast_math.pftrace", "--json"))
    assert data["schema"] == "coldstep-cache/1"
    assert [row["verdict"] for row in data["programs"]] == ["missed"]
    text = said(folder / "threshold.pftrace")
    assert "  fix: JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 stores every program\n" in text


def test_ranks_are_held_together_and_who_differs_is_named(
    traced: Callable[..., Trace], folder: Path, tmp_path: Path
) -> None:
    for case in ("first", "again", "constant"):
        traced(case)
    for side, cases in {"a": ("first", "first"), "b": ("again", "constant")}.items():
        (tmp_path / side).mkdir()
        for rank, case in enumerate(cases):
            shutil.copy(folder / f"{case}.pftrace", tmp_path / side / f"train-rank{rank}.pftrace")
    data = json.loads(said(tmp_path / "a", tmp_path / "b", "--json"))
    assert [row["verdict"] for row in data["programs"]] == ["hit", "missed"]
    text = said(tmp_path / "a", tmp_path / "b")
    assert "  constant: 2.0 → 3.0\n" in text


def test_a_check_counts_what_is_compiled_again(traced: Callable[..., Trace], folder: Path) -> None:
    for case, code, words in (
        ("again", 0, "0 missed programs, 0 allowed"),
        ("fast_math", 1, "1 missed program, 0 allowed"),
        ("off", 1, "1 missed program, 0 allowed"),
    ):
        traced(case)
        asked = [
            "check",
            f"{folder / case}.pftrace",
            "--max-cache-misses",
            "0",
            "--baseline",
            f"{folder}/first.pftrace",
        ]
        done = CliRunner().invoke(cli.main, asked, catch_exceptions=False)
        assert (done.exit_code, words in done.output) == (code, True), done.output
    assert "--baseline" in CliRunner().invoke(cli.main, asked[:-2]).stderr


def test_stripped_together_they_still_compare_and_tell_no_values(
    traced: Callable[..., Trace], folder: Path, tmp_path: Path
) -> None:
    names = [f"{case}.pftrace" for case in ("first", "again", "fast_math", "moved") if traced(case)]
    asked = ["strip", *(str(folder / name) for name in names), "-o", str(tmp_path / "public")]
    assert CliRunner().invoke(cli.main, asked, catch_exceptions=False).exit_code == 0
    first, again, fast_math, moved = (tmp_path / "public" / name for name in names)
    assert said(first, again).endswith("again.pftrace: 1 loaded\n")
    assert "  XLA flags: differs" in said(first, fast_math)
    assert "  compile_options: differs" in said(first, moved)
    (row,) = coldstep.load(first).compiles
    assert row.program != traced("first").compiles[0].program
    hashes = {each.hash for each in traced("first").compiles[0].caches[0].components}
    assert not hashes & {each.hash for each in row.caches[0].components}
    assert "fast_math" not in json.dumps(coldstep.load(fast_math).to_json())


def test_what_jaxs_folder_holds(traced: Callable[..., Trace], folder: Path, tmp_path: Path) -> None:
    traced("first")
    shutil.copytree(folder / "cache", tmp_path / "cache")
    (tmp_path / "cache" / f"jit_evaluate-{'0' * 64}-cache").write_bytes(b"damaged")
    whole = next((folder / "cache").glob("jit_train_step-*-cache")).read_bytes()
    (tmp_path / "cache" / f"jit_init-{'0' * 64}-cache").write_bytes(whole[: len(whole) // 2])
    text = said("--holds", tmp_path / "cache")
    assert "  corrupt: evaluate: " in text
    assert "  corrupt: init: it was cut\n" in text
    rows = json.loads(said("--holds", tmp_path / "cache", "--json"))["entries"]
    assert {row["state"] for row in rows if row["function"] == "train_step"} == {"whole"}
    assert of(traced("first"))[1].key in {f"jit_train_step-{row['key']}" for row in rows}


def test_nothing_that_a_cache_holds_is_run(tmp_path: Path) -> None:
    hostile = b"cos\nsystem\n(S'touch " + str(tmp_path / "run").encode() + b"'\ntR."
    for layer in ("fxgraph/ab/fabc", "aotautograd/aabc"):
        (tmp_path / "cache" / layer).mkdir(parents=True)
        (tmp_path / "cache" / layer / "entry").write_bytes(hostile)
        (tmp_path / "cache" / layer / "cut").write_bytes(hostile[:-1])
    text = said("--holds", tmp_path / "cache")
    assert text.count("corrupt: ") == 2
    assert not (tmp_path / "run").exists()
    mega = tmp_path / "mega"
    for content in (b"", b"\0" * 12, zlib.crc32(b"\0" * 7 + b"\1" + b"\xff" * 8).to_bytes(4, "big")):
        mega.write_bytes(content + b"\0" * 7 + b"\1" + b"\xff" * 8)
        done = CliRunner().invoke(cli.main, ["cache", "--holds", str(mega)])
        assert (done.exit_code, "is no whole Mega-cache" in done.stderr) == (2, True)


TORCH = """
import sys
import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
import coldstep

torch.set_num_threads(2)
w = torch.ones(4, requires_grad=True)
plain = "def step(x):\\n    return torch.sin(x) * 2.0"
train = "def step(x):\\n    return (torch.sin(x) * w).sum()"
sources = {
    "constant": plain.replace("2.0", "3.0"),
    "renamed": "def step(x):\\n    something = torch.sin(x) * 2.0\\n    return something",
    "train": train, "autocast": train, "no_grad": train,
}

def drop(graph):
    pass

settings = {
    "epilogue_fusion": lambda: inductor.patch(epilogue_fusion=False),
    "off": lambda: inductor.patch(fx_graph_cache=False),
    "all_off": lambda: inductor.patch(force_disable_caches=True),
    "freezing": lambda: inductor.patch(freezing=True),
    "raw_pass": lambda: inductor.patch(post_grad_custom_post_pass=drop),
    "functorch": lambda: functorch.patch(recompute_views=True),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
}
changes = {
    "threads": (lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(2)),
    "precision": (lambda: torch.set_float32_matmul_precision("high"),
                  lambda: torch.set_float32_matmul_precision("highest")),
    "deterministic": (lambda: torch.use_deterministic_algorithms(True),
                      lambda: torch.use_deterministic_algorithms(False)),
}
for case in sys.argv[1:]:
    torch._dynamo.reset()
    exec(compile(sources.get(case, plain), __file__, "exec"))
    do, undo = changes.get(case, (lambda: None,) * 2)
    do()
    with coldstep.trace(f"torch-{case}.pftrace", collectors=["dynamo", "inductor"]):
        with settings.get(case, lambda: inductor.patch())(), coldstep.step():
            torch.compile(step)(torch.ones(5 if case == "batch" else 4))
    undo()
open("mega", "wb").write(torch.compiler.save_cache_artifacts()[0])
"""
_TORCH_CASES = (
    "plain", "threads", "deterministic", "epilogue_fusion", "off", "all_off", "freezing", "raw_pass",
    "functorch", "constant", "renamed", "batch", "train", "no_grad", "autocast", "precision",
)  # fmt: skip


@pytest.fixture(scope="module")
def torch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where torch's processes run."""
    return tmp_path_factory.mktemp("torch")


@pytest.fixture(scope="module")
def compiled(torch_folder: Path) -> dict[str, Trace]:
    """Two processes: one that fills the caches, one that finds them, and changes one thing after another."""
    folder = torch_folder
    env = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    for cases in (("first", "train"), _TORCH_CASES):
        program.run(TORCH.replace("sys.argv[1:]", repr(cases)), folder, env=env)
        if cases[0] == "first":
            shutil.copy(folder / "torch-train.pftrace", folder / "torch-trained_before.pftrace")
    return {
        case: coldstep.load(folder / f"torch-{case}.pftrace") for case in ("first", "trained_before", *_TORCH_CASES)
    }


_AOT, _FX, _CPP = "aot.autograd", "inductor.fx_graph", "inductor.cpp"


@pytest.mark.parametrize(
    ("case", "verdicts", "names"),
    [
        ("plain", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("threads", {_AOT: "missed", _FX: "missed", _CPP: "hit"}, {"cpp_runtime_thread_count": ("2", "1")}),
        ("precision", {_AOT: "missed", _FX: "missed"}, {"cuda_matmul_settings": ("none", "tf32")}),
        ("deterministic", {_AOT: "missed", _FX: "missed"}, {"deterministic_algorithms": ("False", "True")}),
        ("epilogue_fusion", {_AOT: "missed", _FX: "missed"}, {"inductor_config[epilogue_fusion]": ("", "False")}),
        ("functorch", {_AOT: "missed", _FX: "hit"}, {"autograd_config[recompute_views]": ("", "True")}),
        ("renamed", {_AOT: "missed", _FX: "hit", _CPP: "hit"}, {"gm": ("mul = sin * 2.0", "something = sin * 2.0")}),
        ("constant", {_AOT: "missed", _FX: "missed", _CPP: "missed"}, {"gm": ("sin * 2.0", "sin * 3.0")}),
        ("batch", {_AOT: "missed", _FX: "missed", _CPP: "missed"}, {"x": ("f32[4]", "f32[5]")}),
        ("no_grad", {_AOT: "missed", _FX: "missed"}, {"grad_enabled": ("True", "False")}),
        ("autocast", {_AOT: "missed", _FX: "hit"}, {"autocast_state[cpu]": ("", "torch.bfloat16")}),
        ("train", {_AOT: "not_written", _FX: "hit", _CPP: "hit"}, {}),
        ("off", {_AOT: "bypassed", _FX: "off", _CPP: "hit"}, {}),
        ("all_off", {_AOT: "off", _FX: "off"}, {}),
        ("freezing", {_AOT: "bypassed", _FX: "missed"}, {}),
        ("raw_pass", {_AOT: "bypassed", _FX: "bypassed"}, {}),
    ],
)
def test_each_layer_of_torch_says_what_differs(
    compiled: dict[str, Trace], case: str, verdicts: dict[str, str], names: dict[str, tuple[str, str]]
) -> None:
    earlier = compiled["trained_before" if case in ("train", "no_grad", "autocast") else "first"]
    found = {row.layer: row for row in compared(earlier, compiled[case]).programs if row.verdict != "gone"}
    assert {layer: found[layer].verdict for layer in verdicts} == verdicts
    assert {row.name for row in found[_AOT].components} == set(names)
    for row in found[_AOT].components:
        before, after = names[row.name]
        assert before in (row.before or "")
        assert after in (row.after or "")


def test_a_graph_of_torch_has_one_name_whatever_it_is_compiled_with(compiled: dict[str, Trace]) -> None:
    names = {case: trace.compiles[-1].program for case, trace in compiled.items()}
    same = ("first", "plain", "threads", "epilogue_fusion", "off", "all_off", "freezing", "renamed", "precision")
    assert len({names[case] for case in same}) == 1
    others = ("first", "constant", "batch", "train", "no_grad", "autocast")
    assert len({names[case] for case in others}) == len(others)


def test_what_torchs_folder_and_a_mega_cache_hold(torch_folder: Path, compiled: dict[str, Trace]) -> None:
    rows = json.loads(said("--holds", torch_folder / "cache", "--json"))["entries"]
    layers = {row["layer"] for row in rows if row["state"] == "whole"}
    assert layers == {_AOT, _FX, _CPP}
    assert {row["key"] for row in rows} >= {row.key for row in compiled["first"].compiles[0].caches if row.key}
    mega = json.loads(said("--holds", torch_folder / "mega", "--json"))["entries"]
    assert {row["layer"] for row in mega} >= {_AOT, _FX}
    assert {row["key"] for row in mega} & {row["key"] for row in rows}


def test_what_torch_did_not_store_says_why(compiled: dict[str, Trace]) -> None:
    caches = {row.layer: row for row in compiled["trained_before"].compiles[-1].caches}
    assert (caches[_AOT].written, caches[_AOT].why) == (False, "no_backward")
    assert caches[_FX].written
    caches = {row.layer: row for row in compiled["all_off"].compiles[-1].caches}
    assert {caches[layer].why for layer in (_AOT, _FX)} == {"disabled"}
    assert "force_disable_caches is on" in caches[_FX].why_text
