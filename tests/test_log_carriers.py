"""A line is a line, whatever carries it: each specimen in each dressing gives the rows of the bare file."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

from log_dressings import DRESSINGS, excuse

import coldstep
from coldstep.errors import TraceError
from coldstep.logs import convert

SPECIMENS = {path.stem: path for path in sorted((Path(__file__).parent / "log_specimens").glob("*.log"))}
ALL = [(specimen, dressing) for specimen in SPECIMENS for dressing in DRESSINGS]
SOME = random.Random(32).sample(ALL, 120)
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
    assert [pair for pair in SOME if (differs(*pair, tmp_path) is None) != (excuse(*pair) is None)] == []


def main() -> int:
    """Try every specimen in every dressing: prints where the rows differ without an excuse."""
    import tempfile

    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for specimen, dressing in ALL:
            why = differs(specimen, dressing, Path(folder))
            if (why is None) != (excuse(specimen, dressing) is None):
                failed += 1
                print(why or f"{specimen} in {dressing}: excused, and the same")
    print(f"{len(ALL) - failed} of {len(ALL)} are as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
