"""What a long run leaves, and what reading it takes, by how many steps and compiles it has.

    .venv/bin/python benchmarks/reading.py [--most STEPS] [--keep FILE]
    python benchmarks/reading.py --plot FILE docs/evidence/reading.png    # and reading.md; requirements/shows.txt

Made-up runs, written by the recorder itself: one to a thousand thousand steps, ten to a thousand compiles. Seconds are
CPU time, of fresh processes where something is read; memory is the most that such a process had.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests/helpers"
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

STEPS, COMPILES = (1_000, 10_000, 100_000, 1_000_000), (10, 100, 1_000)
READERS = {
    "report": ("report", "TRACE"),
    "check": ("check", "TRACE", "--max-recompiles", "100000"),
    "json": ("report", "TRACE", "--json"),
    "changed": ("report", "TRACE", "--json", "--steps", "changed"),
    "html": ("report", "TRACE", "--html", "PAGE"),
}
"""What is read, in the words of the command line."""
WRITE = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import generated_trace
steps, compiles, inferred = map(int, sys.argv[3:])
generated_trace.write(Path(sys.argv[2]), steps=steps, compiles=compiles, inferred=bool(inferred))
"""
TELLING = """
import atexit, runpy, sys
out = sys.argv.pop(1)
def tell():
    with open("/proc/self/status") as status, open(out, "w") as told:
        told.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
atexit.register(tell)
runpy.run_module("coldstep", run_name="__main__", alter_sys=True)
"""
"""coldstep, which tells the most memory that it had: what the system says of a child begins with its parent's."""
GOALS = {"report": (10.0, 200.0), "check": (5.0, None), "html": (None, None)}
"""Of a million steady steps: seconds, and MiB."""

Row = dict[str, float]


def coldstep(words: tuple[str, ...], trace: Path, page: Path) -> tuple[float, float]:
    """CPU seconds and MiB of one of our commands."""
    named = {"TRACE": str(trace), "PAGE": str(page)}
    told = trace.with_name("memory.txt")
    seconds = spent("-c", TELLING, str(told), *(named.get(word, word) for word in words))
    return seconds, int(told.read_text()) / 1024


def spent(*arguments: str) -> float:
    """CPU seconds of Python in a process of its own."""
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen([sys.executable, *arguments], stdout=nowhere, stderr=subprocess.DEVNULL)
        _, _, used = os.wait4(child.pid, 0)
    return used.ru_utime + used.ru_stime


def row(steps: int, compiles: int, folder: Path) -> Row:
    """All figures of one run."""
    import engine

    trace, page = folder / "run.pftrace", folder / "run.html"
    write_s = spent("-c", WRITE, str(TESTS), str(trace), str(steps), str(compiles), "0")
    found: Row = {"steps": steps, "compiles": compiles, "write_s": write_s}
    found["bytes"] = trace.stat().st_size
    for name, words in READERS.items():
        found[f"{name}_s"], found[f"{name}_mib"] = coldstep(words, trace, page)
    found["page_bytes"] = page.stat().st_size
    began = time.monotonic()
    engine.query(trace, "select count(*) as n from slice")
    found["perfetto_s"] = time.monotonic() - began
    return found


def inferred(steps: int, compiles: int, folder: Path) -> Row:
    """What a report of as many steps takes that the program does not mark."""
    trace = folder / "inferred.pftrace"
    spent("-c", WRITE, str(TESTS), str(trace), str(steps), str(compiles), "1")
    seconds, mib = coldstep(READERS["report"], trace, folder / "none.html")
    return {"inferred_s": seconds, "inferred_mib": mib}


def line(found: Row) -> str:
    """A run's figures, in words."""
    told = [f"{found['steps']:9,} steps {found['compiles']:5,} compiles {found['bytes'] / 1e6:7.1f} MB"]
    told.append(f"written {found['write_s']:5.1f} s")
    for name in READERS:
        seconds, mib = GOALS.get(name, (None, None))
        goal = f" (≤ {seconds:g} s{f', {mib:g} MiB' if mib else ''})" if seconds and found["steps"] == STEPS[-1] else ""
        told.append(f"{name} {found[f'{name}_s']:5.1f} s {found[f'{name}_mib']:4.0f} MiB{goal}")
    return "  ".join([*told, f"page {found['page_bytes'] / 1e6:.2f} MB", f"Perfetto {found['perfetto_s']:.1f} s"])


def plot(rows: list[Row], out: Path) -> None:
    """Each figure by the number of steps, a line for each number of compiles."""
    import matplotlib.pyplot as plt

    panels = {
        "bytes": ("the file", 1e6, "MB"), "write_s": ("writing it", 1, "s of CPU"),
        "report_s": ("coldstep report", 1, "s of CPU"), "report_mib": ("its memory", 1, "MiB"),
        "json_s": ("report --json", 1, "s of CPU"), "changed_s": ("--steps changed", 1, "s of CPU"),
        "page_bytes": ("the HTML page", 1e6, "MB"), "perfetto_s": ("loading it in Perfetto's engine", 1, "s"),
    }  # fmt: skip
    figure, axes = plt.subplots(2, 4, figsize=(14, 6), sharex=True, layout="constrained")
    for axis, (name, (title, unit, words)) in zip(axes.flat, panels.items(), strict=True):
        for compiles in sorted({found["compiles"] for found in rows}):
            mine = sorted((found["steps"], found[name] / unit) for found in rows if found["compiles"] == compiles)
            axis.plot(*zip(*mine, strict=True), marker="o", markersize=3, label=f"{compiles:,.0f} compiles")
        axis.set(title=title, ylabel=words, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("steps")
    axes.flat[0].legend()
    figure.savefig(out, dpi=110)


def page(rows: list[Row], png: Path) -> str:
    """The same as a table, and how each figure grows from one number of steps to the next."""
    columns = {
        "the file": ("bytes", 1e6, "MB"), "written": ("write_s", 1, "s"), "`report`": ("report_s", 1, "s"),
        "its memory": ("report_mib", 1, "MiB"), "`check`": ("check_s", 1, "s"), "`--json`": ("json_s", 1, "s"),
        "`--steps changed`": ("changed_s", 1, "s"), "page": ("html_s", 1, "s"), "its size": ("page_bytes", 1e6, "MB"),
        "Perfetto": ("perfetto_s", 1, "s"),
    }  # fmt: skip
    most = max(found["steps"] for found in rows)
    fewer = max(found["steps"] for found in rows if found["steps"] < most)
    lines = [
        "# Long runs",
        "",
        "What a run of so many steps leaves, and what reading it takes: seconds of CPU, of fresh processes; those of",
        "Perfetto's engine are on the clock. The runs are made up, and written by the recorder itself.",
        "`benchmarks/reading.py` writes this page.",
        "",
        f"![Each figure by the number of steps, a line for each number of compiles]({png.name})",
        "",
        f"| steps | compiles | {' | '.join(columns)} |",
        f"| ---: | ---: |{' ---: |' * len(columns)}",
    ]
    for found in rows:
        cells = [f"{found[name] / unit:,.2f} {words}" for name, unit, words in columns.values()]
        lines.append(f"| {found['steps']:,} | {found['compiles']:,} | {' | '.join(cells)} |")
    lines += [
        "",
        f"From {fewer:,} to {most:,} steps, {most / fewer:g} times as many, each grows to so many times itself:",
    ]
    lines += ["", f"| compiles | {' | '.join(columns)} |", f"| ---: |{' ---: |' * len(columns)}"]
    by_size = {(found["steps"], found["compiles"]): found for found in rows}
    for compiles in sorted({found["compiles"] for found in rows}):
        before, after = by_size[fewer, compiles], by_size[most, compiles]
        cells = [f"{after[name] / before[name]:.1f}" for name, _, _ in columns.values()]
        lines.append(f"| {compiles:,} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=STEPS[-1], help="the steps of the longest run (default: a million)")
    parser.add_argument("--keep", metavar="FILE", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("FILE", "PNG"), help="draw figures that were kept")
    options = parser.parse_args()
    if options.plot is not None:
        rows = json.loads(options.plot[0].read_text())
        plot(rows, options.plot[1])
        options.plot[1].with_suffix(".md").write_text(page(rows, options.plot[1]))
        return
    rows = []
    for steps in (each for each in STEPS if each <= options.most):
        for compiles in COMPILES:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row(steps, compiles, Path(folder)))
            print(line(rows[-1]), flush=True)
            if options.keep is not None:
                options.keep.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
