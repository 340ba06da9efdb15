"""What a long run costs whoever looks at it: the HTML page in a browser, and SQL over a thousand traces.

    .venv/bin/python benchmarks/viewers.py [--json]

One generated trace of 100,000 steps and 5,000 compiles: its page, written and opened; and a thousand copies of it,
asked with an empty cache and again. Then a thousand traces that differ, each of 200 steps and 25 compiles: what a
week of CI leaves. Seconds are wall time; memory is that of the largest process so far. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))

import browser
import generated_trace

TRACES = 1_000
OPENINGS = 5
QUESTION = """select coalesce(cause, 'first') as cause, count(*) as n, sum(wall_ns) / 1e9 as s
              from compiles where parent is null group by all order by s desc"""


def command(*arguments: object) -> dict[str, float]:
    """How long `coldstep` took over `arguments`, and the memory that it needed at most."""
    before, used = time.monotonic(), _children().ru_utime
    subprocess.run([sys.executable, "-m", "coldstep", *map(str, arguments)], stdout=subprocess.DEVNULL, check=True)
    after = _children()
    return {
        "seconds": time.monotonic() - before,
        "cpu_seconds": after.ru_utime - used,
        "mebibytes": after.ru_maxrss / 1024,
    }


def _children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def opening(page: Path) -> float:
    """Seconds until a browser, already running, has loaded and drawn the page: the best of some."""
    with browser.launched() as running:
        took = []
        for _ in range(OPENINGS):
            tab = running.new_page()
            before = time.monotonic()
            tab.goto(page.as_uri())
            tab.locator("figure.steps svg").first.wait_for()
            tab.evaluate("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)))")
            took.append(time.monotonic() - before)
            tab.close()
        return min(took)


def long_run(folder: Path) -> dict[str, Any]:
    trace, page = folder / "long.pftrace", folder / "long.html"
    generated_trace.write(trace, steps=100_000, compiles=5_000)
    results: dict[str, Any] = {"trace_bytes": trace.stat().st_size}
    results["write_page"] = command("report", trace, "--html", page)
    results["page_bytes"] = page.stat().st_size
    results["open_page_seconds"] = opening(page)
    copies = folder / "copies"
    copies.mkdir()
    for n in range(TRACES):
        os.link(trace, copies / f"{n}.pftrace")
    results["copies_first"] = command("sql", copies / "*.pftrace", QUESTION)
    results["copies_again"] = command("sql", copies / "*.pftrace", QUESTION)
    return results


def short_runs(folder: Path) -> dict[str, Any]:
    for n in range(TRACES):
        generated_trace.write(folder / f"run{n}.pftrace", steps=200, compiles=25)
    return {
        "different_first": command("sql", folder / "run*.pftrace", QUESTION),
        "different_again": command("sql", folder / "run*.pftrace", QUESTION),
    }


def table(results: dict[str, Any]) -> str:
    lines = [
        f"{os.cpu_count()} CPUs",
        f"100,000 steps, 5,000 compiles: {results['trace_bytes'] / 1e6:.1f} MB of trace",
        f"  {'its page (< 10 MB)':32} {results['page_bytes'] / 1e6:6.1f} MB",
        f"  {'opens in (< 3 s)':32} {results['open_page_seconds']:6.1f} s",
    ]
    for title, key in (
        ("the page is written in", "write_page"),
        (f"SQL over {TRACES} copies (< 10 s)", "copies_first"),
        ("  again", "copies_again"),
        (f"SQL over {TRACES} others", "different_first"),
        ("  again", "different_again"),
    ):
        row = results[key]
        used = f"{row['seconds']:6.1f} s, {row['cpu_seconds']:5.1f} s of CPU, {row['mebibytes']:5.0f} MiB"
        lines.append(f"  {title:32} {used}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        # the short ones first: the peak of memory that is read is that of all commands so far
        results = short_runs(folder) | long_run(folder)
    print(json.dumps(results, indent=1) if options.json else table(results))


if __name__ == "__main__":
    main()
