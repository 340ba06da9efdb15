"""A line is a line, whatever carries it: each specimen in each dressing gives the rows of the bare file."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import pytest
import scenarios
from log_dressings import DRESSINGS, excuse

import coldstep
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.places import is_installed

SPECIMENS = {path.stem: path for path in sorted((Path(__file__).parents[2] / "log_specimens").glob("*.log"))}
ALL = [(specimen, dressing) for specimen in SPECIMENS for dressing in DRESSINGS]
ONCE_WRONG = [(f"jax-{version}-shape", "wrapped_at_120") for version in ("0.4.38", "0.5.3")]
"""Lines that are just as long as the terminal is wide, and whole."""
SOME = [*random.Random(32).sample(ALL, 120), *ONCE_WRONG]
"""What CI tries; `make carriers` tries all."""


def rows(content: bytes, folder: Path) -> Any:
    (folder / "ci.log").write_bytes(content)
    try:
        convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    except TraceError as error:
        return str(error)
    trace = coldstep.load(folder / "ci.pftrace")
    return {
        "processes": len(trace.processes),
        "compiles": [(row.function, row.reason, row.variant.n, row.outcome) for row in trace.compiles],
        "recompiles": [(row.cause, row.argument, row.before, row.after) for row in trace.recompiles],
        "breaks": [(row.kind, row.function, row.location, row.count) for row in trace.graph_breaks],
        "limits": [row.text for row in trace.findings if row.kind == "cache_limit"],
    }


@functools.cache
def bare(specimen: str, folder: Path) -> Any:
    return rows(SPECIMENS[specimen].read_bytes(), folder)


def differs(specimen: str, dressing: str, folder: Path) -> str | None:
    expected = bare(specimen, folder)
    got = rows(DRESSINGS[dressing](SPECIMENS[specimen].read_text()), folder)
    if got == expected:
        return None
    parts = [part for part in expected if not isinstance(got, dict) or got[part] != expected[part]]
    return f"{specimen} in {dressing}: " + "\n".join(
        f"{part}: {expected[part]}\n  but {got[part] if isinstance(got, dict) else got}" for part in parts[:1]
    )


def test_a_dressed_log_gives_the_rows_of_the_bare_one(tmp_path: Path) -> None:
    assert [why for pair in SOME if excuse(*pair) is None and (why := differs(*pair, tmp_path)) is not None] == []


RECOMPILE = (
    "Recompiling function scale in /tmp/ipykernel_7/12.py:1",
    "    triggered by the following guard failure(s):",
    "    - 0/0: tensor 'x' size mismatch at index 0. expected 5, actual 7",
)
SHAPE = [("shape", "x", "size 5 at dimension 0", "size 7 at dimension 0")]


@pytest.mark.parametrize(
    ("form", "variant"),
    [
        ("{}", 2),
        ("[0/1] [__recompiles] {}", 2),
        (".../torch/_dynamo/guards.py:2772] [16/8] [__recompiles_verbose] {}", 9),
        ("[2023-11-14 10:41:12,330] [0/1] torch._dynamo.guards.__recompiles: [DEBUG] {}", 2),
    ],
)
def test_a_recompile_is_read_without_a_stamp_and_between_results(form: str, variant: int, tmp_path: Path) -> None:
    text = "tensor([1., 2.])\n".join(f"{form.format(line)}\n" for line in RECOMPILE)
    (tmp_path / "ci.log").write_text(text)
    convert([str(tmp_path / "ci.log")], str(tmp_path / "ci.pftrace"), lambda read, total: None)
    trace = coldstep.load(tmp_path / "ci.pftrace")
    assert [(row.function, row.reason, row.variant.n) for row in trace.compiles] == [("scale", "recompile", variant)]
    assert scenarios.said(trace) == SHAPE
    is_timed = "2023" in form
    assert bool(trace.run.started) == is_timed
    assert any("When things happened is not known" in note for note in trace.run.notes) != is_timed


def test_an_empty_reason_is_a_recompile_of_unknown_cause(tmp_path: Path) -> None:
    found = rows(("\n".join(RECOMPILE[:2]) + "\n    - 0/0: \n").encode(), tmp_path)
    assert found["recompiles"] == [("unknown", None, None, None)]


def test_paths_of_windows_are_whose_they_are(tmp_path: Path) -> None:
    stamp = r"W0912 13:20:45.118000 4401 Lib\site-packages\torch\_dynamo\convert_frame.py:1680] [0/8] "
    said = [
        "torch._dynamo hit config.recompile_limit (8)",
        r"   function: 'step' (C:\env\Lib\site-packages\net.py:2)",
        "   last reason: 0/7: tensor 'x' size mismatch at index 0. expected 5, actual 7",
    ]
    (tmp_path / "ci.log").write_text("".join(f"{stamp}{line}\r\n" for line in said))
    convert([str(tmp_path / "ci.log")], str(tmp_path / "ci.pftrace"), lambda read, total: None)
    [compile_] = coldstep.load(tmp_path / "ci.pftrace").compiles
    assert (compile_.outcome, compile_.location) == (
        "limit",
        coldstep.model.Location(r"C:\env\Lib\site-packages\net.py", 2, "step"),
    )
    assert is_installed(r"C:\env\Lib\site-packages\net.py")
    assert is_installed(r"C:\env\Lib\site-packages\torch\nn\modules\module.py")
    assert not is_installed(r"C:\repo\net.py")


def test_two_equal_compiles_at_different_times_stay_two(tmp_path: Path) -> None:
    step = (
        "WARNING:2026-11-25 00:03:4{0},295:jax._src.dispatch:204: Compiling jit(f) with global shapes and types "
        "(ShapedArray(float32[4]),). Argument mapping: (UnspecifiedValue,).\n"
        "WARNING:2026-11-25 00:03:4{0},395:jax._src.dispatch:204: Finished XLA compilation of jit(f) in 0.1 sec\n"
    )
    assert len(rows((step.format(1) + step.format(2)).encode(), tmp_path)["compiles"]) == 2
    assert (
        len(rows("".join(2 * f"{line}\n" for line in step.format(1).splitlines()).encode(), tmp_path)["compiles"]) == 1
    )


def main() -> int:
    """Try every specimen in every dressing: prints where the rows differ without an excuse."""
    import tempfile

    failed = excused = 0
    with tempfile.TemporaryDirectory() as folder:
        for specimen, dressing in ALL:
            excused += excuse(specimen, dressing) is not None
            if excuse(specimen, dressing) is None and (why := differs(specimen, dressing, Path(folder))) is not None:
                failed += 1
                print(why)
    print(f"{len(ALL) - failed - excused} of {len(ALL)} give the rows of the bare log, {excused} are excused")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
