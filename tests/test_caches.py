"""Caches on disk: how each program is keyed, and why one that had been compiled before was compiled again."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from scenarios import warm

import coldstep
from coldstep.model import Cache, Compile, Trace

pytestmark = pytest.mark.jax

JAX = """
import os, sys
case = sys.argv[1]
if case == "fast_math":
    os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true"
if case == "two_devices":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
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
    if case == "host_callback":
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
def traced(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    """What a process compiled that ran the program for a case; each further one finds what the first had stored."""
    folder = tmp_path_factory.mktemp("jax")
    (folder / "program.py").write_text(JAX)
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
