"""Trains nine models in every stack, and says for each model which stack is faster when, and why.

`python -m benchmarks.stack_wars` runs each pair in a process of its own, with an environment of this repository that
has its stack (`make venv venv-xla`). A pair whose trace is there already is not run again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import psutil
from benchmarks.stack_wars import STACKS
from benchmarks.stack_wars.interpreters import interpreters, memory
from benchmarks.stack_wars.models import MODELS
from benchmarks.stack_wars.pair import Row, read, write
from benchmarks.stack_wars.sizes import SIZES, SIZES_OF
from benchmarks.study import endings

import coldstep
from coldstep.analysis.across.frameworks import NotComparable, compare
from coldstep.errors import TraceError
from coldstep_viewers.pages.frameworks_text import text

LIMIT_S = 360
_MEMORY_SHARE = 0.9  # of what is available as it begins
_WIDTH = 110
_MOST_CHARS = 300


def main() -> None:
    options = _options()
    folder = Path(options.output, f"{options.size}-ir" if options.ir else options.size).resolve()
    pythons = interpreters(options.stack)
    limit = options.memory or int(_MEMORY_SHARE * psutil.virtual_memory().available)
    for model in options.model:
        for stack in options.stack:
            trace = folder / model / f"{stack}.pftrace"
            if not trace.with_suffix(".json").exists() and stack in pythons:
                print(f"{model} in {stack} …", file=sys.stderr, flush=True)
                row = Row(model, stack, options.size, limit_bytes=limit)
                run(pythons[stack], row, trace, options.steps, options.ir)
    for model in options.model:
        print(f"\n{SIZES_OF[model][options.size]}")
        show(model, [folder / model / f"{stack}.pftrace" for stack in options.stack])


def run(python: str, row: Row, trace: Path, steps: int, ir: bool) -> None:
    """Run one pair; whatever becomes of it, its row is there afterwards."""
    trace.parent.mkdir(parents=True, exist_ok=True)
    words = [row.model, row.stack, row.size, str(trace), "--steps", str(steps), "--memory", str(row.limit_bytes)]
    with tempfile.TemporaryDirectory(prefix="stack-wars-") as cache:
        # an empty one: a first run, every time
        begin = [python, "-m", "benchmarks.stack_wars.pair", *words, *(["--ir"] if ir else [])]
        done = endings.run(begin, {"TORCHINDUCTOR_CACHE_DIR": cache}, LIMIT_S)
    if done.ended != "ok":
        if done.ended != "too_long" and trace.with_suffix(".json").exists():
            row = read(trace)  # it has said itself what ended it
        else:
            row.why = done.why
        row.ended = "out_of_memory" if _is_full(trace) else done.ended
        row.why = row.why[:_MOST_CHARS]
        write(row, trace)


def _is_full(trace: Path) -> bool:
    """Whether the trace says that the pair ended out of memory."""
    try:
        return any(row.kind == "out_of_memory" for row in coldstep.load(trace).findings)
    except TraceError:
        return False


def show(model: str, traces: list[Path]) -> None:
    """The comparison of one model's traces, and what became of the pairs that did not end by themselves."""
    there = [path for path in traces if path.with_suffix(".json").exists()]
    for path in traces:
        if path not in there:
            print(f"{path.stem}: not installed here; make venv venv-xla builds what has it")
    loaded = []
    for path in there:
        row = read(path)
        if row.ended != "ok":
            print(f"{path.stem}: {row.ended.replace('_', ' ')}: {row.why}")
        try:
            loaded.append((str(path), coldstep.load(path)))
        except TraceError as error:
            print(f"{path.stem}: {error}")
    try:
        print(text(compare(loaded), [], "Of traces made with --ir, coldstep compare compares the programs.", _WIDTH))
    except NotComparable:  # none came to a step
        for path, trace in loaded:
            for found in (found for found in trace.findings if found.kind == "out_of_memory"):
                print(f"{Path(path).stem}: {found.text}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_wars", description=__doc__)
    parser.add_argument("model", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (all)")
    parser.add_argument("--stack", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--size", choices=SIZES, default="tiny", help="(%(default)s)")
    parser.add_argument("--memory", type=memory, metavar="32GiB", help="what a process may ask for (what is available)")
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="of each pair, 2 or more (%(default)s)")
    parser.add_argument("--ir", action="store_true", help="keep the programs too, in traces of their own")
    parser.add_argument("-o", "--output", default="stack-wars", help="the folder of traces and rows (%(default)s)")
    options = parser.parse_args()
    options.model = options.model or list(MODELS)
    if unknown := [name for name in options.model if name not in MODELS]:
        parser.error(f"{unknown[0]} is none of {', '.join(MODELS)}")
    if options.steps < 2:
        parser.error("--steps: there is no second step below 2")
    return options


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on with the pair that was under way", file=sys.stderr)
        sys.exit(130)
