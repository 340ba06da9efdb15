"""Caches on disk: how each program is keyed, and why one that had been compiled before was compiled again."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
import zlib
from pathlib import Path

import program
import pytest
from cached_runs import CachedRuns, assert_named
from click.testing import CliRunner
from scenarios.logs import READ_AGAIN

import coldstep
from coldstep.analysis.caches.reuse import Program, compared, foretold
from coldstep.model import Cache, Compile, Trace
from coldstep_collectors.torch._private.cache_keys import options_of
from coldstep_viewers.commands import cli
from coldstep_viewers.report.cache_reuse import compared_lines, next_process
from coldstep_viewers.report.html import page
from coldstep_viewers.report.terminal import render

pytestmark = [pytest.mark.jax, pytest.mark.torch]

JAX = """
import os, sys
case = sys.argv[1]
flags = {"fast_math": " --xla_cpu_enable_fast_math=true", "more_devices": " --xla_force_host_platform_device_count=3",
         "dump_to": " --xla_dump_to=dumped"}
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + flags.get(case, "")
os.environ |= {"libtpu": {"LIBTPU_INIT_ARGS": "--xla_foo=2"}, "omp": {"OMP_NUM_THREADS": "1"}}.get(case, {})
import jax
import jax.numpy as jnp
import numpy as np
import coldstep

settings = {
    "threshold": {"persistent_cache_min_compile_time_secs": 1000},
    "small": {"persistent_cache_min_entry_size_bytes": 1 << 30},
    "large": {"compilation_cache_max_size": 10},
    "disabled": {"enable_compilation_cache": False},
    "always_off": {"enable_compilation_cache": False},
    "metadata": {"compilation_cache_include_metadata_in_key": True},
    "precision": {"default_matmul_precision": "highest"},
    "x64": {"enable_x64": True},
    "share_binary": {"share_binary_between_hosts": True},
    "max_size": {"compilation_cache_max_size": 1 << 30},
}.get(case, {})
if "logged" in sys.argv:
    settings |= {"explain_cache_misses": True, "log_compiles": True}
    whole = {"logging_level": "WARNING", "debug_log_modules": "jax._src.cache_key"}
    settings |= whole if "whole" in sys.argv else {}
for name, value in ({"persistent_cache_min_compile_time_secs": 0} | settings).items():
    jax.config.update(f"jax_{name}", value)
if case == "late":
    jax.jit(lambda x: x * 3)(np.float32(1))
folder = {"off": None, "moved": "moved", "slash": "cache/", "no_folder": "program.py/cache", "max_size": "limited",
          "threshold": "empty", "small": "empty", "large": "empty", "relative": "cache",
          }.get(case, "logged" if "logged" in sys.argv else "cache")
if folder and case != "relative":
    folder = os.path.join(os.getcwd(), folder)
jax.config.update("jax_compilation_cache_dir", folder)
constant = 3.0 if case == "constant" else 2.0
times = 9 if case == "longer" else 1

def train_step(x):
    for _ in range(times):
        x = jnp.tanh(x @ x) * constant
    return x

if case == "host_callback":
    def train_step(x):
        jax.debug.print("x {x}", x=x[0, 0])
        return jnp.tanh(x @ x) * constant

if case.startswith("unseeded"):
    weights = np.random.default_rng().standard_normal((4, 4))
    def train_step(x):
        return jnp.tanh(x @ weights)

if case.endswith("numbered"):  # a lowering that makes two functions, and takes them away again
    from jax.extend.core import Primitive
    from jax.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func
    through = Primitive("through")
    through.def_abstract_eval(lambda x: x)
    def lower(ctx, x):
        table, made = ctx.module_context.symbol_table, []
        for _ in range(2 if case == "renumbered" else 0):
            made.append(func.FuncOp("clip", ir.FunctionType.get([], []), ip=ctx.module_context.ip))
            with ir.InsertionPoint(made[-1].add_entry_block()):
                func.ReturnOp([])
            table.insert(made[-1])
        for function in made:
            table.erase(function)
        return [x]
    mlir.register_lowering(through, lower)
    def train_step(x):
        return jnp.clip(through.bind(x), 0, 1).sum() + jnp.clip(x[:2], 0, 1).sum()

if case == "renamed":
    train_step.__name__ = train_step.__qualname__ = "another"

options = {"options": {"xla_cpu_enable_fast_min_max": True}}.get(case)
train_step = jax.jit(train_step, donate_argnums=(0,) if case == "donated" else (), compiler_options=options)
x = np.ones((6, 6) if case == "shape" else (4, 4), np.int32 if case == "dtype" else np.float32)
if case == "device_1":
    x = jax.device_put(x, jax.devices()[-1])
if case == "sharded":
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("rows",))
    x = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows")))
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
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(scope="module")
def traced(folder: Path) -> CachedRuns:
    """What a process compiled that ran the program for a case; each further one finds what the first had stored."""
    return CachedRuns("jax", JAX, folder)


def of(trace: Trace, function: str = "train_step") -> tuple[Compile, Cache]:
    """The last compile of a function, and what the persistent cache said of it."""
    row = [row for row in trace.compiles if row.function == function][-1]
    (cache,) = row.caches
    return row, cache


def test_a_program_has_the_same_name_in_every_process_with_or_without_a_cache(traced: CachedRuns) -> None:
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
        ("always_off", "off", "disabled", "jax_enable_compilation_cache is off"),
        ("no_folder", "off", "disabled", "was not made a cache"),
        ("threshold", "miss", "threshold", "jax_persistent_cache_min_compile_time_secs is 1000"),
        ("small", "miss", "threshold", "jax_persistent_cache_min_entry_size_bytes, 1,073,741,824"),
        ("large", "miss", "full", "jax_compilation_cache_max_size is 10"),
        ("host_callback", "miss", "host_callback", "it calls back into this process"),
        ("directory_changed", "miss", "late", "after the first compile"),
    ],
)
def test_what_was_not_stored_says_why(traced: CachedRuns, case: str, state: str, why: str, words: str) -> None:
    _, cache = of(traced(case))
    assert (cache.state, cache.why) == (state, why)
    assert words in cache.why_text


@pytest.mark.parametrize(
    ("case", "differs"),
    [
        ("fast_math", {"XLA flags": ("", "--xla_cpu_enable_fast_math=true")}),
        ("argv", {"XLA flags": ("", "--xla_foo=1")}),
        ("libtpu", {"XLA flags": ("", "--xla_foo=2")}),
        ("more_devices", {"accelerator_config": ("2 cpu devices, process 0", "3 cpu devices, process 0")}),
        ("options", {"compile_options.env_option_overrides": ("", "[[xla_cpu_enable_fast_min_max, True]]")}),
        ("moved", {"compile_options.xla_gpu_per_fusion_autotune_cache_dir": ("/cache", "/moved")}),
        ("relative", {"compile_options.xla_gpu_per_fusion_autotune_cache_dir": ("/cache", "cache")}),
        ("constant", {"constant": ("2.0", "3.0")}),
        ("longer", {"times": ("1", "9")}),
        ("shape", {"x": ("f32[4,4]", "f32[6,6]")}),
        ("dtype", {"x": ("f32[4,4]", "i32[4,4]")}),
        ("donated", {"x": ("not donated", "donated")}),
        ("precision", {"jax_default_matmul_precision": ("None", "highest")}),
        ("device_1", {"x": ("f32[4,4]", "f32[4,4] @cpu:1")}),
        ("sharded", {"x": ("f32[4,4]", "f32[4,4] @P('rows')/mesh(rows=1:auto)")}),
        ("renamed", {"function": ("train_step", "another")}),
        ("metadata", {"jax_compilation_cache_include_metadata_in_key": ("", "True")}),
    ],
)
def test_a_miss_names_what_differs_and_both_values(
    traced: CachedRuns, case: str, differs: dict[str, tuple[str, str]]
) -> None:
    later = traced(case, *(["--xla_foo=1"] if case == "argv" else []))
    (row,) = [row for row in compared(traced("first"), later).programs if row.origin == "user"]
    assert_named(row, differs)


def test_an_array_that_a_function_holds_is_the_program_itself(traced: CachedRuns) -> None:
    (row,) = compared(traced("unseeded"), traced("unseeded_again")).programs
    assert row.verdict == "missed"
    assert [each.name for each in row.components] == ["computation"]
    assert row.components[0].before != row.components[0].after
    assert "its code, or a constant that it holds" in row.why_text


def test_names_within_a_program_are_told_from_what_it_computes(traced: CachedRuns) -> None:
    numbered, renumbered = (traced(case, ir=True) for case in ("numbered", "renumbered"))
    (row,) = [row for row in compared(numbered, renumbered).programs if row.origin == "user"]
    assert (row.verdict, [each.name for each in row.components]) == ("cosmetic", ["computation"])
    (row,) = [row for row in compared(numbered, traced("constant")).programs if row.origin == "user"]
    assert row.verdict == "missed"


@pytest.mark.parametrize("case", ["again", "slash", "dump_to", "x64", "omp", "share_binary"])
def test_what_is_loaded_is_silent(traced: CachedRuns, case: str) -> None:
    (row,) = compared(traced("first"), traced(case)).programs
    assert (row.verdict, row.components, row.why, row.why_text, row.cost_ns) == ("hit", [], None, "", 0)


def test_a_limit_on_the_caches_size_is_in_no_key(traced: CachedRuns) -> None:
    filled, later = traced("max_size"), traced("max_size", "again")
    (row,) = compared(filled, later).programs
    assert (of(filled)[1].written, row.verdict, row.components) == (True, "hit", [])


def test_a_damaged_entry_is_told_apart_from_none(traced: CachedRuns, folder: Path) -> None:
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


def test_an_entry_that_is_gone_blames_no_component(traced: CachedRuns, folder: Path) -> None:
    (folder / "cache").rename(folder / "elsewhere")
    later = traced("emptied")
    shutil.rmtree(folder / "cache")
    (folder / "elsewhere").rename(folder / "cache")
    (row,) = compared(traced("first"), later).programs
    assert (row.verdict, row.why, row.components) == ("missed", "evicted", [])


@pytest.mark.parametrize("case", ["first", "again", "threshold", "off"])
def test_what_the_next_process_pays_adds_up(traced: CachedRuns, case: str) -> None:
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


def test_what_was_compiled_before_the_directory_was_set_is_told_apart(traced: CachedRuns) -> None:
    found = {row.function: (row.verdict, row.why) for row in foretold(traced("late")).programs}
    assert found["<lambda>"] == ("off", "late")
    assert found["train_step"] == ("hit", None)


def test_a_report_tells_what_is_compiled_again_only_where_a_cache_is_on(traced: CachedRuns) -> None:
    lines = next_process(traced("threshold"))
    assert lines[0].endswith("(coldstep cache)")
    assert "  fix: JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 stores every program" in lines
    title = "Caches on disk: what the next process compiles again"
    assert title in render(traced("threshold"))
    assert title in page(traced("threshold"))
    for case in ("off", "again"):
        assert next_process(traced(case)) == []
        assert title not in render(traced(case))


def said(*words: str | Path) -> str:
    """What `coldstep cache` prints."""
    done = CliRunner().invoke(cli.main, ["cache", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_says_it_in_words_and_as_data(traced: CachedRuns, folder: Path) -> None:
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


@pytest.mark.parametrize(
    ("case", "whole", "verdict", "names", "words"),
    [
        ("again", False, "hit", set(), ""),
        ("shape", False, "missed", {"leaf 0"}, "what else its key is made of was not seen"),
        ("fast_math", False, "missed", set(), "what its key is made of was not seen"),
        ("libtpu", True, "missed", {"XLA flags"}, ""),
        ("host_callback", False, "missed", set(), "what its key is made of was not seen"),
    ],
)
def test_logs_of_jax_tell_what_was_loaded_and_of_a_key_what_they_say(
    traced: CachedRuns, folder: Path, case: str, whole: bool, verdict: str, names: set[str], words: str
) -> None:
    how = ("logged", "whole") if whole else ("logged",)
    logs = [folder / f"{'-'.join((each, *how))}.log" for each in ("first", case) if traced(each, *how)]
    (row,) = [row for row in json.loads(said(*logs, "--json"))["programs"] if row["function"] == "train_step"]
    assert (row["verdict"], {each["name"] for each in row["components"]}, row["why_text"]) == (verdict, names, words)


@pytest.mark.parametrize(
    ("case", "why", "words"),
    [
        ("threshold", "threshold", "it took < 1000.00 seconds to compile"),
        ("host_callback", "host_callback", "it uses host callbacks"),
        ("small", "threshold", "is less than threshold (1073741824 bytes)"),
    ],
)
def test_logs_of_jax_tell_why_nothing_was_stored(
    traced: CachedRuns, folder: Path, case: str, why: str, words: str
) -> None:
    traced(case, "logged")
    log = folder / f"{case}-logged.log"
    (row,) = [row for row in json.loads(said(log, log, "--json"))["programs"] if row["function"] == "train_step"]
    assert (row["verdict"], row["why"]) == ("not_written", why)
    assert words in row["why_text"]


def test_one_log_foretells_nothing(traced: CachedRuns, folder: Path) -> None:
    traced("again", "logged")
    done = CliRunner().invoke(cli.main, ["cache", str(folder / "again-logged.log")])
    assert (done.exit_code, "give two, or a trace" in done.stderr) == (2, True)


def test_ranks_are_held_together_and_who_differs_is_named(traced: CachedRuns, folder: Path, tmp_path: Path) -> None:
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
    found = [compared(traced("first"), traced(case)) for case in ("again", "constant")]
    for rank, reuse in enumerate(found):
        reuse.programs[0].rank = rank
    lines = list(compared_lines("a", "b", found))
    assert "not all loaded: rank 1 of 2" in lines
    assert any(line.startswith("persistent XLA cache: missed, rank 1: 1 program (train_step)") for line in lines)


def test_a_check_counts_what_is_compiled_again(traced: CachedRuns, folder: Path) -> None:
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
    traced: CachedRuns, folder: Path, tmp_path: Path
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


def test_what_jaxs_folder_holds(traced: CachedRuns, folder: Path, tmp_path: Path) -> None:
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


def test_entries_of_other_makes_are_looked_into(tmp_path: Path) -> None:
    content = b"\0\0\0\1an executable"
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    frame = b"\x28\xb5\x2f\xfd" + bytes((0x20, len(content))) + block + content
    (tmp_path / f"jit_init-{'0' * 64}-cache").write_bytes(frame)
    (tmp_path / f"jit_cut-{'0' * 64}-cache").write_bytes(frame[:-2])
    for name, lost in (("triton_poi_fused_sin_0", ""), ("triton_red_fused_sum_1", "triton_red_fused_sum_1.cubin")):
        kernel = tmp_path / "triton" / f"KEY{name}"
        kernel.mkdir(parents=True)
        files = [f"{name}.json", f"{name}.cubin"]
        for file in files:
            if file != lost:
                (kernel / file).write_bytes(b"{}")
        children = {file: f"/made/elsewhere/{file}" for file in files}
        (kernel / f"__grp__{name}.json").write_text(json.dumps({"child_paths": children}))
    rows = {row["function"]: row for row in json.loads(said("--holds", tmp_path, "--json"))["entries"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "init": "whole", "cut": "corrupt", "triton_poi_fused_sin_0": "whole", "triton_red_fused_sum_1": "corrupt",
    }  # fmt: skip
    assert rows["triton_red_fused_sum_1"]["why"] == "triton_red_fused_sum_1.cubin is not there"
    assert rows["triton_poi_fused_sin_0"]["layer"] == "triton"


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
import logging, os, sys
import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
import torch._inductor.custom_graph_pass as passes
import coldstep

inductor.compile_threads = 1
torch.set_num_threads(2)
w = torch.ones(4, requires_grad=True)
plain = "def step(x):\\n    return torch.sin(x) * 2.0"
train = "def step(x):\\n    return (torch.sin(x) * w).sum()"
module = "class Step(torch.nn.Module):\\n    def __init__(self):\\n        super().__init__()"
module += "\\n        self.register_buffer('a', torch.ones(4))"
module += "\\n    def forward(self, x):\\n        return x * self.a\\nstep = Step()"
sized = "def step(x):\\n    factor = 2.0\\n    if x.shape[0] > 50:\\n        factor = 2.0\\n"
sized += "    return torch.cos(x) * factor"
renamed = "def step(x):\\n    something = torch.sin(x) * 2.0\\n    return something"
sources = {
    **dict.fromkeys(("open", "open_1", "open_90", "open_20"), sized),
    "constant": plain.replace("2.0", "3.0"),
    "operation": plain.replace("* 2.0", "* 2.0 + 1.0"),
    "function": plain.replace("step", "another") + "\\nstep = another",
    "in_graph": "def step(x):\\n    return kept(x) * 2.0",
    "profiled": plain.replace("sin", "tan"), "told_renamed": renamed, "renamed": renamed,
    "train": train, "autocast": train, "no_grad": train, "module": module,
    "attribute": module.replace("'a'", "'b'").replace("self.a", "self.b"),
}

def drop(graph):
    return graph

@torch._dynamo.allow_in_graph
def kept(x):
    return torch.sin(x)

class Pass(passes.CustomGraphPass):
    def __init__(self, number):
        self.number = number
    def __call__(self, graph):
        pass
    def uuid(self):
        return self.number

class Told:
    logger = logging.getLogger("torch._functorch._aot_autograd.autograd_cache")
    def __enter__(self):
        self.logger.setLevel(logging.DEBUG)
    def __exit__(self, *error):
        self.logger.setLevel(logging.NOTSET)

settings = {
    "profiled": lambda: torch.compiler.config.patch(job_id="mine"),
    **dict.fromkeys(("told", "told_renamed"), Told),
    "epilogue_fusion": lambda: inductor.patch(epilogue_fusion=False),
    "skip_guards": lambda: inductor.patch(unsafe_skip_cache_dynamic_shape_guards=True),
    "off": lambda: inductor.patch(fx_graph_cache=False),
    "all_off": lambda: inductor.patch(force_disable_caches=True),
    "aot_off": lambda: functorch.patch(enable_autograd_cache=False),
    "freezing": lambda: inductor.patch(freezing=True),
    "raw_pass": lambda: inductor.patch(post_grad_custom_post_pass=drop),
    "nameless_pass": lambda: inductor.patch(post_grad_custom_post_pass=Pass(None)),
    "fusion_pass": lambda: inductor.patch(_pre_fusion_custom_pass=drop),
    "early_pass": lambda: inductor.patch(pre_grad_custom_pass=drop),
    "pass_1": lambda: inductor.patch(post_grad_custom_post_pass=Pass("1")),
    "pass_2": lambda: inductor.patch(post_grad_custom_post_pass=Pass("2")),
    "provenance": lambda: inductor.patch({"trace.provenance_tracking_level": 1}),
    "functorch": lambda: functorch.patch(recompute_views=True),
    "donated": lambda: functorch.patch(donated_buffer=not functorch.donated_buffer),
    "tag": lambda: torch.compiler.config.patch(cache_key_tag="mine"),
    "workers": lambda: inductor.patch(compile_threads=7, worker_start_method="fork"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
}
options = {
    "autotuned": {"mode": "max-autotune-no-cudagraphs"}, "fusion_size": {"options": {"max_fusion_size": 32}},
    "eager": {"backend": "aot_eager"}, **dict.fromkeys(("open", "open_1", "open_90", "open_20"), {"dynamic": True}),
}
sizes = {"batch": 5, "open": 80, "open_1": 1, "open_90": 90, "open_20": 20}
changes = {
    "threads": (lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(2)),
    "precision": (lambda: torch.set_float32_matmul_precision("high"),
                  lambda: torch.set_float32_matmul_precision("highest")),
    "deterministic": (lambda: torch.use_deterministic_algorithms(True),
                      lambda: torch.use_deterministic_algorithms(False)),
    "fewer": (lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(2)),
    "dtype": (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
}
if os.environ.get("MEGA") == "load":
    torch.compiler.load_cache_artifacts(open("mega", "rb").read())
for case in sys.argv[1:]:
    torch._dynamo.reset()
    exec(compile(sources.get(case, plain), __file__, "exec"))
    do, undo = changes.get(case, (lambda: None,) * 2)
    do()
    with coldstep.trace(f"torch-{case}.pftrace", collectors=["dynamo", "inductor"]):
        with settings.get(case, lambda: inductor.patch())(), coldstep.step():
            torch.compile(step, **options.get(case, {}))(torch.ones(sizes.get(case, 4), dtype=torch.float32))
    undo()
if "MEGA" not in os.environ:
    open("mega", "wb").write(torch.compiler.save_cache_artifacts()[0])
"""
_TORCH_FIRST = ("profiled", "first", "told", "train", "open", "pass_1", "module")
_TORCH_CASES = (
    "profiled", "plain", "threads", "deterministic", "epilogue_fusion", "off", "all_off", "freezing", "raw_pass",
    "functorch", "constant", "renamed", "batch", "train", "no_grad", "autocast",
    "autotuned", "fusion_size", "skip_guards", "dtype", "tag", "provenance", "operation", "open_1", "open_90",
    "open_20", "pass_2", "early_pass", "nameless_pass", "fusion_pass", "in_graph", "donated", "attribute", "aot_off",
    "workers", "function", "eager", "precision",
)  # fmt: skip
_OF_FIRST = {
    **dict.fromkeys(("train", "no_grad", "autocast"), "train"),
    **dict.fromkeys(("open_1", "open_90", "open_20"), "open"),
    "pass_2": "pass_1", "attribute": "module", "profiled": "profiled",
}  # fmt: skip
"""What of the first process a case is held against, where that is not the plain program."""


@pytest.fixture(scope="module")
def torch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where torch's processes run."""
    return tmp_path_factory.mktemp("torch")


def ran(folder: Path, cases: tuple[str, ...], cache: str, **env: str) -> dict[str, Trace]:
    """A process that compiles one case after another: the trace of each."""
    env |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / cache)}
    (folder / "logs_again.py").write_text(READ_AGAIN)
    again = ["logs_again"] if "TORCH_TRACE" in env else []  # which PyTorch reads as it is imported
    program.run(TORCH.replace("sys.argv[1:]", repr(list(cases))), folder, env=env, stack="torch", settings=again)
    return {case: coldstep.load(folder / f"torch-{case}.pftrace") for case in cases}


# a process each, so that on a busy machine no single test waits for all of them


@pytest.fixture(scope="module")
def filled(torch_folder: Path) -> dict[str, Trace]:
    """The process that fills the caches; it leaves PyTorch's own trace and a Mega-cache, too."""
    return ran(torch_folder, _TORCH_FIRST, "cache", TORCH_TRACE=str(torch_folder / "trace"))


@pytest.fixture(scope="module")
def carried(torch_folder: Path, filled: dict[str, Trace]) -> dict[str, Trace]:
    """One that has the Mega-cache alone, and leaves PyTorch's own trace."""
    settings = {"TORCH_TRACE": str(torch_folder / "later_trace"), "MEGA": "load"}
    return ran(torch_folder, ("mega", "fewer", "epilogue_fusion", "train", "told_renamed"), "empty", **settings)


@pytest.fixture(scope="module")
def compiled(torch_folder: Path, filled: dict[str, Trace], carried: dict[str, Trace]) -> dict[str, Trace]:
    """One that finds the caches, and changes one thing after another; and all before."""
    later = ran(torch_folder, _TORCH_CASES, "cache", MEGA="none")
    return {**{f"before-{case}": trace for case, trace in filled.items()}, **carried, **later}


_AOT, _FX, _CPP, _PROFILE = "aot.autograd", "inductor.fx_graph", "inductor.cpp", "dynamo.pgo"


def of_torch(compiled: dict[str, Trace], case: str) -> dict[str, Program]:
    """By layer, how a case of the second process compares with what the first had stored."""
    earlier = compiled[f"before-{_OF_FIRST.get(case, 'first')}"]
    return {row.layer: row for row in compared(earlier, compiled[case]).programs if row.verdict != "gone"}


def test_a_run_that_loaded_all_does_not_know_what_the_keys_were_made_of(compiled: dict[str, Trace]) -> None:
    found = {row.layer: row for row in compared(compiled["plain"], compiled["threads"]).programs}
    verdicts = {layer: row.verdict for layer, row in found.items()}
    assert verdicts == {_AOT: "missed", _FX: "missed", _CPP: "hit"}
    for layer in (_AOT, _FX):
        assert found[layer].components == []
        assert "the earlier run loaded it" in found[layer].why_text


def test_what_one_of_two_runs_alone_compiles_is_new_or_gone(compiled: dict[str, Trace]) -> None:
    earlier, later = compiled["before-module"], compiled["constant"]
    found = compared(earlier, later)
    assert {(row.function, row.verdict) for row in found.programs} == {("step", "new"), ("Step.forward", "gone")}
    lines = list(compared_lines("a", "b", [found]))
    assert [line for line in lines if line.startswith(("new", "gone"))] == [
        "new: 1 program (step)",
        "gone: 1 program (Step.forward)",
    ]


def test_what_torch_did_not_store_says_why(filled: dict[str, Trace]) -> None:
    caches = {row.layer: row for row in filled["train"].compiles[-1].caches}
    assert (caches[_AOT].written, caches[_AOT].why) == (False, "no_backward")
    assert caches[_FX].written


def test_what_torchs_folder_and_a_mega_cache_hold(torch_folder: Path, filled: dict[str, Trace]) -> None:
    rows = json.loads(said("--holds", torch_folder / "cache", "--json"))["entries"]
    layers = {row["layer"] for row in rows if row["state"] == "whole"}
    assert layers == {_AOT, _FX, _CPP, _PROFILE}
    keys = {row.key for row in filled["first"].compiles[0].caches if row.key}
    assert {row["key"] for row in rows} >= keys
    mega = json.loads(said("--holds", torch_folder / "mega", "--json"))["entries"]
    assert {row["layer"] for row in mega} == {_AOT, _FX, _PROFILE}
    assert {row["key"] for row in mega} >= keys


def test_pytorchs_own_traces_tell_the_graphs_keys(
    torch_folder: Path, carried: dict[str, Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("inductor", "functorch"):  # which another test may have imported: they know the usual values
        monkeypatch.delitem(sys.modules, f"torch._{name}.config", raising=False)
    rows = json.loads(said(torch_folder / "trace", torch_folder / "later_trace", "--json"))["programs"]
    cases = [{row["layer"]: row for row in rows if row["later"] == f"c{number}"} for number in range(5)]
    found = [{layer: row["verdict"] for layer, row in case.items()} for case in cases]
    missed = {_AOT: "missed", _FX: "missed"}
    assert found == [{_AOT: "hit"}, missed, missed, {_AOT: "not_written", _FX: "hit"}, {_AOT: "missed", _FX: "hit"}]
    _, fewer, fusion, train, renamed = cases
    threads = {"name": "cpp_runtime_thread_count", "before": "2", "after": "1"}
    epilogue = {"name": "inductor_config[epilogue_fusion]", "before": "True", "after": "False"}
    for case, component in ((fewer, threads), (fusion, epilogue)):
        # what both keys hold is told of Inductor's alone
        assert case[_AOT]["components"] == case[_FX]["components"] == [component]
        assert case[_AOT]["why_text"] == "what else its key is made of was not seen"
    assert train[_AOT]["why"] == "no_backward"
    # a level of PyTorch's logging tells all
    (component,) = renamed[_AOT]["components"]
    assert component["name"] == "gm"
    assert ("mul = " in component["before"], "something = " in component["after"]) == (True, True)


@pytest.mark.parametrize(
    ("case", "verdicts", "names"),
    [
        ("plain", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("profiled", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("open_90", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("workers", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("function", {_AOT: "hit", _FX: "hit", _CPP: "hit"}, {}),
        ("mega", {_AOT: "hit", _FX: "hit", _CPP: "missed"}, {}),
        ("threads", {_AOT: "missed", _FX: "missed", _CPP: "hit"}, {"cpp_runtime_thread_count": ("2", "1")}),
        ("precision", {_AOT: "missed", _FX: "missed"}, {"cuda_matmul_settings": ("none", "tf32")}),
        ("deterministic", {_AOT: "missed", _FX: "missed"}, {"deterministic_algorithms": ("False", "True")}),
        ("epilogue_fusion", {_AOT: "missed", _FX: "missed"}, {"inductor_config[epilogue_fusion]": ("", "False")}),
        ("fusion_size", {_AOT: "missed", _FX: "missed"}, {"inductor_config[max_fusion_size]": ("", "32")}),
        (
            "skip_guards",
            {_AOT: "missed", _FX: "missed"},
            {"inductor_config[unsafe_skip_cache_dynamic_shape_guards]": ("", "True")},
        ),
        (
            "autotuned",
            {_AOT: "missed", _FX: "missed"},
            {
                "inductor_config[max_autotune]": ("", "True"),
                "inductor_config[coordinate_descent_tuning]": ("", "True"),
            },
        ),
        ("dtype", {_AOT: "missed", _FX: "missed", _CPP: "hit"}, {"default_dtype": ("float32", "float64")}),
        ("tag", {_AOT: "missed", _FX: "missed"}, {"cache_key_tag": ("", "mine")}),
        ("provenance", {_AOT: "missed", _FX: "missed"}, {"provenance_tracking_level": ("0", "1")}),
        ("pass_2", {_AOT: "missed", _FX: "missed"}, {"post_grad_custom_post_pass": ("1", "2")}),
        ("early_pass", {_AOT: "missed", _FX: "missed"}, {"pre_grad_custom_pass": ("None", "")}),
        ("functorch", {_AOT: "missed", _FX: "hit"}, {"autograd_config[recompute_views]": ("", "True")}),
        ("donated", {_AOT: "missed", _FX: "hit"}, {"autograd_config[donated_buffer]": ("", "False")}),
        ("renamed", {_AOT: "missed", _FX: "hit", _CPP: "hit"}, {"gm": ("mul = sin * 2.0", "something = sin * 2.0")}),
        ("attribute", {_AOT: "missed", _FX: "hit", _CPP: "hit"}, {"aot_config": ("", "")}),
        ("constant", {_AOT: "missed", _FX: "missed", _CPP: "missed"}, {"gm": ("sin * 2.0", "sin * 3.0")}),
        ("operation", {_AOT: "missed", _FX: "missed", _CPP: "missed"}, {"gm": ("return", "+ 1.0")}),
        ("batch", {_AOT: "missed", _FX: "missed", _CPP: "missed"}, {"x": ("f32[4]", "f32[5]")}),
        ("open_1", {_AOT: "missed", _FX: "missed"}, {"x": ("f32[80]", "f32[1]")}),
        ("no_grad", {_AOT: "missed", _FX: "missed"}, {"grad_enabled": ("True", "False")}),
        ("autocast", {_AOT: "missed", _FX: "hit"}, {"autocast_state[cpu]": ("", "torch.bfloat16")}),
        ("train", {_AOT: "not_written", _FX: "hit", _CPP: "hit"}, {}),
        ("open_20", {_AOT: "missed", _FX: "missed"}, {"x": ("f32[80]", "f32[20]")}),
        ("off", {_AOT: "bypassed", _FX: "off", _CPP: "hit"}, {}),
        ("all_off", {_AOT: "off", _FX: "off"}, {}),
        ("aot_off", {_AOT: "off", _FX: "hit", _CPP: "hit"}, {}),
        ("freezing", {_AOT: "bypassed", _FX: "missed"}, {}),
        ("in_graph", {_AOT: "bypassed", _FX: "hit"}, {}),
        ("raw_pass", {_AOT: "bypassed", _FX: "bypassed"}, {}),
        ("nameless_pass", {_AOT: "bypassed", _FX: "bypassed"}, {}),
        ("fusion_pass", {_AOT: "bypassed", _FX: "bypassed"}, {}),
        ("eager", {}, {}),
    ],
)
def test_each_layer_of_torch_says_what_differs(
    compiled: dict[str, Trace], case: str, verdicts: dict[str, str], names: dict[str, tuple[str, str]]
) -> None:
    found = of_torch(compiled, case)
    assert {layer: found[layer].verdict for layer in verdicts} == verdicts
    if not verdicts:
        assert not found
        return
    assert_named(found[_AOT], names)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("off", "FX graph cache is not enabled"),
        ("freezing", "Cannot cache a graph with freezing enabled"),
        ("in_graph", "Unsupported call_function target"),
        ("raw_pass", "post"),
        ("nameless_pass", "post"),
        ("fusion_pass", "pre_fusion"),
    ],
)
def test_a_cache_that_is_passed_by_says_why_in_pytorchs_words(
    compiled: dict[str, Trace], case: str, words: str
) -> None:
    found = of_torch(compiled, case)[_AOT]
    assert words in found.why_text
    assert " at 0x" not in found.why_text


def test_a_graph_of_torch_has_one_name_whatever_it_is_compiled_with(compiled: dict[str, Trace]) -> None:
    names = {case: trace.compiles[-1].program for case, trace in compiled.items()}
    same = ("before-first", "plain", "threads", "epilogue_fusion", "off", "all_off", "freezing", "renamed", "precision")
    assert len({names[case] for case in same}) == 1
    assert names["attribute"] == names["before-module"]
    others = ("plain", "constant", "batch", "train", "no_grad", "autocast")
    assert len({names[case] for case in others}) == len(others)


def test_a_cache_that_is_off_says_by_which_switch(compiled: dict[str, Trace]) -> None:
    caches = {row.layer: row for row in compiled["all_off"].compiles[-1].caches}
    assert {caches[layer].why for layer in (_AOT, _FX)} == {"disabled"}
    assert "force_disable_caches is on" in caches[_FX].why_text


def test_dynamos_profile_is_stored_for_the_next_process_of_a_job(compiled: dict[str, Trace]) -> None:
    def profile(case: str) -> tuple[str, bool | None, str | None]:
        (row,) = [row for row in compiled[case].compiles[-1].caches if row.layer == _PROFILE]
        return row.state, row.written, row.key

    assert profile("before-profiled") == ("miss", True, "mine:None:")
    assert profile("profiled")[0] == "hit"
    assert not [row for row in compiled["plain"].compiles[-1].caches if row.layer == _PROFILE]  # of no job


def test_an_option_that_the_environment_sets_is_never_taken_for_usual() -> None:
    source = Path(importlib.util.find_spec("torch").submodule_search_locations[0], "_inductor", "config.py").read_text()  # type: ignore[union-attr,index]
    assert options_of(source, ["HOME", "TORCHINDUCTOR_CACHE_DIR"]) == set()
    assert options_of(source, ["TORCHINDUCTOR_COORDINATE_DESCENT_TUNING"]) == {"coordinate_descent_tuning"}
    assert options_of(source, ["TORCHINDUCTOR_PROLOGUE_FUSION"]) >= {"prologue_fusion"}
    assert options_of(source, ["TORCHINDUCTOR_UNIQUE_KERNEL_NAMES"]) == {"triton.unique_kernel_names"}
