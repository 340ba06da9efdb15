"""A small repository with a real jitted and a real compiled step, and the traces of two of its commits."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

from program import warm

TRAIN = """
    import jax, numpy as np, torch
    import coldstep

    @jax.jit
    def train_step(params, batch):
        return (params * batch["x"] ** 2).sum()

    @torch.compile(backend="eager")
    def evaluate(batch):
        return (batch["x"] ** 2).sum()

    SIZES = (8, 8, 8, 8, 8)
    params = np.ones(4, np.float32)
    for size in SIZES:
        with coldstep.step():
            loss = coldstep.wait(train_step(params, {"x": np.ones((size, 4), np.float32)}))
    for size in SIZES:
        with coldstep.step("evaluation"):
            coldstep.wait(evaluate({"x": torch.ones(size, 4)}))
"""
PYPROJECT = """
    [tool.coldstep]
    max-recompiles = 0
    max_graph_breaks = 0
    settle_by = 1
    forbid = ["optimizer_state", "shape"]
    max_compiles = {"*" = 1}
"""


def build(folder: Path) -> None:
    """Two commits, each run once, into main.pftrace and branch.pftrace: the second makes the last batch smaller."""
    source = textwrap.dedent(TRAIN).lstrip()
    (folder / "pyproject.toml").write_text(textwrap.dedent(PYPROJECT))
    _git(folder, "init")
    for message, text, output in (
        ("Train", source, "main.pftrace"),
        ("Use all of the data", source.replace("8, 8, 8, 8, 8", "8, 8, 8, 8, 5"), "branch.pftrace"),
    ):
        (folder / "train.py").write_text(text)
        _git(folder, "add", "train.py", "pyproject.toml")
        _git(folder, "commit", "-m", message)
        run(folder, output)


def run(folder: Path, output: str) -> Path:
    """The trace of the repository's training script."""
    warm("torch", ["coldstep", "run", "-o", output, "train.py"], folder)
    return folder / output


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
