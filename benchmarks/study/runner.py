"""Runs a study: each case in a process of its own under `coldstep run`, and what is there already not again."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path

from benchmarks.study import endings
from benchmarks.study.cases import Curve, Record, Study, read, write
from benchmarks.study.results import swept

from coldstep_viewers.pages.sweeps_text import text

_LIMIT_S = 290  # of one process; a case has two, a first and a warm one, or one of twice the time
_WARM = ("jax", "inductor")
_AGAIN = ".again"
"""A further run of the two values around a turn: where they come out otherwise, it was chance."""
_MOST_CHARS = 300
_WIDTH = 120


def main(study: Study, words: list[str] | None = None) -> None:
    """The command line of a study; `words` in place of it."""
    options = _options(study, words)
    folder = Path(options.output).resolve()
    curves = list(study.curves(options.case, quick=options.quick))
    if options.list:
        for curve in curves:
            print(f"{curve.title}, n = {', '.join(map(str, curve.values))}")
        return
    try:
        for at, curve in enumerate(curves, 1):
            _run_curve(study, curve, folder, f"[{at}/{len(curves)}]", quick=options.quick)
    except KeyboardInterrupt:
        print("stopped; the same command goes on with the case that was under way", file=sys.stderr)
        sys.exit(130)
    for curve in curves:
        _show(curve, folder)


def _run_curve(study: Study, curve: Curve, folder: Path, progress: str, *, quick: bool) -> None:
    """All values; then, where the curve turns, the two around the turn once more."""
    quick = quick or not study.sweeps[curve.sweep].is_repeated
    for value in curve.values:
        is_warmed = not quick and curve.stack in _WARM and value == curve.values[-1]
        _run(study, curve, value, curve.trace(folder, value), progress, is_warmed=is_warmed)
    sweeps = None if quick else swept(curve, folder)
    turns_at = sweeps.turns_at if sweeps is not None else None
    if turns_at is not None:
        at = curve.values.index(int(turns_at))
        for value in curve.values[at - 1 : at + 1]:
            _run(study, curve, value, curve.trace(folder, value, _AGAIN), progress, is_warmed=False)


def _run(study: Study, curve: Curve, value: int, trace: Path, progress: str, *, is_warmed: bool) -> None:
    """One value; whatever becomes of it, its record is there afterwards."""
    if read(trace) is not None:
        return
    print(f"{progress} {curve.title}, n = {value} …", file=sys.stderr, flush=True)
    trace.parent.mkdir(parents=True, exist_ok=True)
    record = Record(load=[round(load, 1) for load in os.getloadavg()])
    limit_s = _LIMIT_S if study.sweeps[curve.sweep].is_repeated else 2 * _LIMIT_S
    with tempfile.TemporaryDirectory(prefix="study-") as caches:
        done = endings.run([*_command(study, curve, value, trace)], _environment(caches), limit_s)
        if is_warmed and done.ended == "ok":
            warm = curve.trace(trace.parents[1], value, ".warm")
            endings.run([*_command(study, curve, value, warm)], _environment(caches), _LIMIT_S)
    record.ended, record.why = done.ended, done.why[:_MOST_CHARS]
    if done.ended == "ok":
        found = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
        counted = reduce(or_, (row.pop("counted") for row in found))
        record = replace(record, **found[0], counted=dict(sorted(counted.items())))
    write(record, trace)


def _command(study: Study, curve: Curve, value: int, trace: Path) -> Iterator[str]:
    yield from (sys.executable, "-m", "coldstep", "run", "-o", str(trace), "--no-live")
    for name, words in (("n", value), ("way", curve.way), ("stack", curve.stack)):
        yield from ("--label", f"{name}={words}")
    yield from study.launcher(curve.stack, value)
    yield from ("-m", "benchmarks.study.program", f"{study.package}.{curve.sweep}", curve.stack, curve.way, str(value))


def _environment(caches: str) -> dict[str, str]:
    """Empty caches on disk, which a warm process finds filled; and one thread for PyTorch, whose threads wait for each
    other at length where other work takes the cores: seven times the processor time was seen."""
    return {
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def _show(curve: Curve, folder: Path) -> None:
    """The curve's table, and what became of what did not end by itself."""
    found = swept(curve, folder)
    for value in curve.values:
        record = read(curve.trace(folder, value))
        if record is not None and record.ended != "ok":
            answer = found.answers.get(value) if found is not None else None
            print(f"n = {value}: {record.ended.replace('_', ' ')}: {answer or record.why}")
    if found is not None:
        print(text(found.sweeps, _WIDTH).partition("\n\n")[2])


def _options(study: Study, words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {study.package}", description=sys.modules[study.package].__doc__)
    parser.add_argument("case", nargs="*", metavar="CASE", help=f"of {', '.join(study.sweeps)} (all)")
    parser.add_argument("--quick", action="store_true", help="one way of each case, in JAX and with aot_eager, small")
    parser.add_argument("--list", action="store_true", help="show what would run, and run nothing")
    parser.add_argument(
        "-o",
        "--output",
        default=study.package.rpartition(".")[2],
        metavar="FOLDER",
        help="of traces and records, from which the same command goes on (%(default)s)",
    )
    options = parser.parse_args(words)
    options.case = options.case or list(study.sweeps)
    if unknown := [name for name in options.case if name not in study.sweeps]:
        parser.error(f"{unknown[0]} is none of {', '.join(study.sweeps)}")
    return options
