"""What `coldstep cache` foretells of a second process, held against that process: the demo's GPT, cold, warm, and warm
after one changed flag.

    .venv/bin/python benchmarks/caches/second_process.py [--rounds N] [jax | jax, threshold 0 | torch]…

In each round every program has a fresh cache: a cold process, from whose trace the next ones are foretold, two warm
ones, and a warm one with another flag. Of that one, which entries its other keys miss is taken from the comparison,
what they cost from the cold trace. Programs take turns. The spread of warm processes is that of the null: two of them
differ by so much though nothing does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
from coldstep._util.figures import duration
from coldstep.analysis.caches.reuse import GONE, HIT, Reuse, compared, foretold
from coldstep.model import Trace

EXAMPLES = Path(__file__).parents[2] / "examples"
ALLOWED = 0.2


@dataclass(slots=True)
class Program:
    """One of the demo's halves, and how it is run."""

    script: str
    folder: str
    """The variable that names its cache's directory."""
    changed: dict[str, str]
    """The one flag."""
    settings: dict[str, str] = field(default_factory=dict)


PROGRAMS = {
    "jax": Program("gpt_jax.py", "JAX_COMPILATION_CACHE_DIR", {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}),
    "jax, threshold 0": Program(
        "gpt_jax.py",
        "JAX_COMPILATION_CACHE_DIR",
        {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"},
        {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"},
    ),
    "torch": Program("gpt_torch.py", "TORCHINDUCTOR_CACHE_DIR", {"TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1"}),
}


def run(program: Program, cache: str, path: Path, changed: bool = False) -> Trace:
    """A process's trace."""
    env = {**os.environ, **program.settings, **(program.changed if changed else {}), program.folder: cache}
    command = [sys.executable, "-m", "coldstep", "run", "-o", str(path), str(EXAMPLES / program.script)]
    subprocess.run(command, env=env, cwd=path.parent, check=True, stdout=subprocess.DEVNULL)
    return coldstep.load(path)


def took(trace: Trace) -> int:
    """A process's time, in ns, from its start."""
    return trace.processes[0].before_trace_ns + trace.processes[0].wall_ns


def adds_up(found: Reuse) -> bool:
    """Whether the ledger's parts are the whole."""
    second = found.second_run
    return (
        second.wall_ns
        == second.again_ns + second.load_ns + second.unattributed_ns
        == (sum(row.ns for row in found.again) + second.load_ns + second.unattributed_ns)
    )


@dataclass(slots=True)
class Measured:
    """What the rounds came to."""

    cold: list[int] = field(default_factory=list)
    foretold: list[int] = field(default_factory=list)
    warm: list[int] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)
    """How far the two warm processes of a round were apart."""
    changed: list[int] = field(default_factory=list)
    """With the other flag."""
    foretold_changed: list[int] = field(default_factory=list)
    sums: bool = True
    reasons: set[str] = field(default_factory=set)
    """Why the process with the other flag compiled again."""


def measure(program: Program, into: Measured) -> None:
    """One round."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), str(Path(name, "cache"))
        cold = run(program, cache, folder / "cold.pftrace")
        found = foretold(cold)
        warm = [run(program, cache, folder / f"warm{n}.pftrace") for n in range(2)]
        other = run(program, cache, folder / "changed.pftrace", changed=True)
    into.cold.append(took(cold))
    into.foretold.append(found.second_run.wall_ns)
    into.warm += map(took, warm)
    into.pairs.append(abs(took(warm[0]) / took(warm[1]) - 1))
    into.sums &= adds_up(found) and all(adds_up(compared(cold, row)) for row in warm)
    rows = compared(cold, other).programs
    lost = [(row.earlier, row.layer, row.part) for row in rows if row.earlier and row.verdict not in (HIT, GONE)]
    without = foretold(cold, lost=lost)
    into.sums &= adds_up(without)
    into.changed.append(took(other))
    into.foretold_changed.append(without.second_run.wall_ns)
    for row in rows:
        words = "; ".join(f"{each.name}: {each.before or 'none'} → {each.after or 'none'}" for each in row.components)
        into.reasons.add(f"{row.layer}: {row.verdict}{f' ({words})' if words else ''}")


def line(row: Measured, foretold: list[int], took: list[int]) -> str:
    """The figures of one kind of process, by medians, and whether they are near enough."""
    cold, said, then = (round(statistics.median(each)) for each in (row.cold, foretold, took))
    off, null = said / then - 1, statistics.median(row.pairs)
    holds = abs(off) <= max(ALLOWED, 2 * null)
    figures = (duration(cold), duration(said), duration(then), f"{off:+.0%}", f"{null:.0%}")
    return " | ".join((*figures, *("yes" if each else "no" for each in (holds, row.sums))))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    results: dict[str, Measured] = defaultdict(Measured)
    for round_ in range(asked.rounds):
        for name in asked.programs or PROGRAMS:
            measure(PROGRAMS[name], results[name])
            print(f"round {round_ + 1}: {name}", file=sys.stderr, flush=True)
    print(
        "| program | the next process | cold | foretold | took | off by | two warm ones differ by | holds | adds up |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for name, row in results.items():
        for kind, said, then in (
            ("unchanged", row.foretold, row.warm),
            ("one flag changed", row.foretold_changed, row.changed),
        ):
            print(f"| {name} | {kind} | {line(row, said, then)} |")
    for name, row in results.items():
        print(f"\n{name}, with {PROGRAMS[name].changed}:")
        print("\n".join(f"- {reason}" for reason in sorted(row.reasons)))


if __name__ == "__main__":
    main()
