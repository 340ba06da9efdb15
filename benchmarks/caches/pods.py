"""Two pods that should share a cache: what `coldstep cache` says of what keeps them from it, and of the cure.

    .venv/bin/python benchmarks/caches/pods.py

Each pod is a process of its own. The second one has another home folder, host name or number of processors, one package
more, or a copy of the cache; then the same again, with the advice followed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

JAX = """
import jax
import jax.numpy as jnp

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: jnp.tanh(x @ x))(jnp.ones((8, 8))).block_until_ready()
"""
TORCH = """
import torch

torch.compile(lambda x: torch.sin(x) * 2)(torch.ones(8))
"""
FOLDER = {"jax": "JAX_COMPILATION_CACHE_DIR", "torch": "TORCHINDUCTOR_CACHE_DIR"}


@dataclass(slots=True)
class Pod:
    """A process: its environment, and what stands before its command."""

    env: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()


@dataclass(slots=True)
class Case:
    """What of the second pod is other, and the advice followed by both."""

    stack: str
    name: str
    second: Pod
    cure: str
    cured: dict[str, str] = field(default_factory=dict)
    """More of both pods' environment."""
    copied: bool = False
    """Whether the second pod has a copy of the first one's cache, in a folder of its own."""


def cases(packages: Path) -> list[Case]:
    """All of them; `packages` holds one package more than there is."""
    other_home = Pod({"HOME": "{pod}"})
    other_host = Pod(prefix=("unshare", "--uts", "sh", "-c", 'hostname pod-b && exec "$0" "$@"'))
    one_processor = Pod(prefix=("taskset", "-c", "0"))
    one_more = Pod({"PYTHONPATH": str(packages)})
    no_path = {"JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none"}
    found = []
    for stack in ("jax", "torch"):
        found += [
            Case(stack, "another home folder", other_home, "none needed"),
            Case(stack, "another host name", other_host, "none needed"),
        ]
    return [
        *found,
        Case("jax", "one processor of two", one_processor, "none needed"),
        Case("torch", "one processor of two", one_processor, "OMP_NUM_THREADS=2 in both", {"OMP_NUM_THREADS": "2"}),
        Case("jax", "zstandard installed", one_more, "zstandard in both", {"PYTHONPATH": str(packages)}),
        Case("jax", "a copied cache", Pod(), "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none", no_path, copied=True),
        Case("torch", "a copied cache", Pod(), "none needed", copied=True),
    ]


def compare(case: Case, cured: bool) -> str:
    """What is said of the two pods."""
    with tempfile.TemporaryDirectory(prefix="pods-") as name:
        top, more = Path(name), case.cured if cured else {}
        for pod, about in (("a", Pod()), ("b", case.second)):
            folder = top / pod
            folder.mkdir()
            cache = top / "a" / "cache"
            if pod == "b" and case.copied:
                cache = Path(shutil.copytree(cache, folder / "cache"))
            (top / "program.py").write_text({"jax": JAX, "torch": TORCH}[case.stack])
            extra = {key: value.format(pod=folder) for key, value in (about.env | more).items()}
            command = [
                *about.prefix,
                sys.executable,
                "-m",
                "coldstep",
                "run",
                "-o",
                f"../{pod}.pftrace",
                "../program.py",
            ]
            env = {**os.environ, FOLDER[case.stack]: str(cache), **extra}
            subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True)
        asked = [sys.executable, "-m", "coldstep", "cache", "a.pftrace", "b.pftrace"]
        return subprocess.run(asked, cwd=top, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print a table, and below it what was said in full."""
    told = []
    print("| stack | the second pod has | said | cure | with it |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="packages-") as packages:
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--target", packages]
        subprocess.run([*pip, "zstandard"], check=True)
        for case in cases(Path(packages)):
            before = compare(case, cured=False)
            after = compare(case, cured=True) if case.cured else ""
            said, then = (text.partition(": ")[2].partition("\n")[0] for text in (before, after))
            print(f"| {case.stack} | {case.name} | {said} | {case.cure} | {then or '-'} |", flush=True)
            told.append(f"{case.stack}, {case.name}\n{before}")
    print("\n" + "\n\n".join(told))


if __name__ == "__main__":
    main()
