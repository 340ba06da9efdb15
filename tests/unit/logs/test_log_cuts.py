"""A log that was cut, anywhere: what is left passes no check that it cannot answer, and ends in no exception."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import coldstep
from coldstep.analysis.budgets import judge, parse
from coldstep.errors import TraceError
from coldstep.logs import convert

SPECIMENS = Path(__file__).parents[2] / "log_specimens"
LOGS = ("jax-0.4.31-shape", "jax-0.5.3-kinds", "jax-0.10.2-shape", "jax-0.12.0-shape", "jax-0.10-explained",
        "torch-2.1.2-shape", "torch-2.3.1-limit-recompiles", "torch-2.5.1-limit", "torch-2.13-sizes",
        "torch_xla-2.9-report")  # fmt: skip
TELLS_OF_A_RECOMPILE = re.compile(
    r"Recompiling function|losest previous key|previously seen cache key|but now given|\[\d+/[1-9]\d*\]|last reason: "
    r"|hit config\.|, now \w+\[.* and before \w+\["
)
SOME = 12
"""Cuts of each log that CI tries; `python test_log_cuts.py` tries all."""


def verdict(text: str, folder: Path) -> str:
    """What `coldstep check --max-recompiles 0` says of the log."""
    (folder / "ci.log").write_text(text)
    try:
        convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    except TraceError:
        return "unknown"
    return judge([coldstep.load(folder / "ci.pftrace")], parse({"max-recompiles": 0})).word


def cuts(lines: list[str]) -> Iterator[tuple[str, str]]:
    """What is left of a log that lost its head, its tail or a line in the middle, and what that is called."""
    for at in range(len(lines)):
        yield f"from line {at}", "".join(lines[at:])
        yield f"up to line {at}", "".join(lines[:at])
        yield f"without line {at}", "".join(lines[:at] + lines[at + 1 :])
        yield f"in line {at}", "".join([*lines[:at], lines[at][: len(lines[at]) // 2]])


def passes(name: str, folder: Path, some: int | None) -> list[str]:
    """The cuts that pass a check although what is left tells of a recompile."""
    lines = (SPECIMENS / f"{name}.log").read_text().splitlines(keepends=True)
    found = [(how, text) for how, text in cuts(lines) if TELLS_OF_A_RECOMPILE.search(text)]
    tried = random.Random(4).sample(found, min(some or len(found), len(found)))
    return [f"{name} {how}" for how, text in tried if verdict(text, folder) == "within"]


def test_no_cut_log_passes_a_check_that_what_is_left_contradicts(tmp_path: Path) -> None:
    assert [line for name in LOGS for line in passes(name, tmp_path, SOME)] == []


def main() -> int:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = [line for name in LOGS for line in passes(name, Path(folder), None)]
    print("\n".join(found) or "no cut log passes")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
