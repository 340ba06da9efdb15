"""Runs a stack's programs with another interpreter, whatever versions it has, and says how much of each was right.

`python -m scenarios.elsewhere --python PATH jax`. A program is held where the report says all that the program expects;
short where it says less (`unknown`, a null, `not_observable`), and wrong where it says something else, or is silent of
a recompile without saying that it may be. What does not even run without coldstep, or what the framework itself does
otherwise there (the program's line `# before:` says so), cannot be expressed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import scenarios
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import RECOMPILES
from coldstep.model import Trace
from scenarios import Said, Scenario
from scenarios.matrix import NOTHING, UNKNOWN, Outcome

HELD, SHORT, WRONG, NOT_EXPRESSIBLE = "held", "short", "WRONG", "cannot be expressed"
_AT_A_TIME = 2
_AXIS_TYPE = ":auto"  # a mesh's axes are so by default in one version, and explicit in another


@dataclass(slots=True)
class Result:
    """What came of one program."""

    program: str
    expects_nothing: bool
    verdict: str = HELD
    why: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    """Of Python, and of the frameworks in its trace; none where there is no trace."""
    missing: list[str] = field(default_factory=list)
    """What the trace says that was not observed."""
    partial: list[str] = field(default_factory=list)
    """The collectors that lack a hook on these versions."""


def judge(scenario: Scenario, trace: Trace) -> tuple[str, str]:
    """A verdict, and in words what it is for."""
    pairs = Outcome(scenario, scenarios.said(trace)).pairs
    worst, words = HELD, []
    for expected, reported in pairs:
        verdict = _compare(expected, reported, trace)
        if verdict != HELD:
            worst = WRONG if WRONG in (worst, verdict) else SHORT
            words.append(f"expected {expected or NOTHING}; reported {reported or NOTHING}")
    for word, missed in _beside(scenario, trace):
        worst = WRONG if WRONG in (worst, missed) else SHORT
        words.append(word)
    return worst, "; ".join(words)


def _compare(expected: Said | None, reported: Said | None, trace: Trace) -> str:
    if expected == reported or (expected and reported and _plain(expected) == _plain(reported)):
        return HELD
    if reported is None:
        claims = unknown(trace, RECOMPILES) is None and any(row.verdict == "settled" for row in trace.settling)
        return WRONG if claims else SHORT
    if expected is None:
        return WRONG
    if reported[0] == UNKNOWN:
        return SHORT
    return SHORT if all(now in (was, None) for was, now in zip(expected, reported, strict=True)) else WRONG


def _plain(said: Said) -> list[str | None]:
    return [text and text.replace(_AXIS_TYPE, "") for text in said]


def _beside(scenario: Scenario, trace: Trace) -> list[tuple[str, str]]:
    """What else the program expects and did not get, and how bad that is."""
    missed = []
    says = scenario.says
    if settled := says.get("settles"):
        row = trace.settling[0]
        if str(row.settled_at_step) != settled[0]:
            words = f"expected to settle at {settled[0]}; reported {row.verdict} at {row.settled_at_step}"
            missed.append((words, WRONG if row.verdict == "settled" else SHORT))
    found = {finding.kind for finding in trace.findings}
    missed += [(f"no finding {kind}", SHORT) for kind in says.get("finding", []) if kind not in found]
    patterns = [row.pattern for row in trace.recompiles if row.pattern]
    if says.get("pattern", patterns) != patterns:
        missed.append((f"expected patterns {says['pattern']}; reported {patterns}", SHORT))
    causes = [cause.cause or "-" for row in trace.settling for cause in row.causes]
    if says.get("settling", causes) != causes:
        missed.append((f"expected settling by {says['settling']}; reported {causes}", SHORT))
    breaks = [row.kind for row in trace.graph_breaks]
    if says.get("break", breaks) != breaks:
        missed.append((f"expected breaks {says['break']}; reported {breaks}", SHORT))
    return missed


def run_all(programs: Iterable[Path], python: str, *, marked: bool = True) -> Iterator[Result]:
    """The result of each program, with its marks or without, in their order."""
    with tempfile.TemporaryDirectory(prefix="coldstep-scenarios-") as name, ThreadPoolExecutor(_AT_A_TIME) as pool:
        yield from pool.map(lambda program: run(program, python, Path(name, program.stem), marked=marked), programs)


def run(program: Path, python: str, folder: Path, *, marked: bool = True) -> Result:
    """The result of one program, in a folder of its own. Without its marks its recompiles alone are held against it."""
    folder.mkdir()
    if not marked:
        program = scenarios.unmarked(program, folder)
    scenario = scenarios.read(program)
    result = Result(program.stem, expects_nothing=not scenario.recompiles)
    try:
        trace = scenarios.run(program, folder, python=python)
    except Exception as error:
        env = {**os.environ, **scenarios.ENVIRONMENT}
        alone = subprocess.run([python, str(program)], cwd=folder, env=env, capture_output=True, text=True, check=False)
        result.why = (alone.stderr.strip() or str(error).strip() or repr(error)).splitlines()[-1]
        result.verdict = NOT_EXPRESSIBLE if alone.returncode else WRONG
        return result
    result.versions = trace.processes[0].versions
    result.missing = [f"{row.name}: {text}" for row in trace.collectors for text in row.missing]
    result.partial = [row.name for row in trace.collectors if row.state in ("partial", "failed")]
    result.verdict, result.why = judge(scenario if marked else scenario.without_steps(), trace)
    if result.verdict != HELD and (does_otherwise := scenario.before(result.versions)):
        result.verdict, result.why = NOT_EXPRESSIBLE, does_otherwise
    return result


def main() -> int:
    """Print the verdict on each program, and a sum. The exit code is 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.elsewhere", description=__doc__)
    parser.add_argument("--python", required=True, metavar="PATH", help="the interpreter that runs the programs")
    parser.add_argument("stack", choices=scenarios.ENVIRONMENTS)
    parser.add_argument("programs", nargs="*", help="their names; all of the stack, where none is given")
    parser.add_argument("--unmarked", action="store_true", help="take the marks of steps out of the programs")
    options = parser.parse_args()
    programs = [path for path in scenarios.programs(options.stack) if path.stem in (options.programs or [path.stem])]
    verdicts: Counter[str] = Counter()
    missing: dict[str, None] = {}
    for result in run_all(programs, os.path.abspath(options.python), marked=not options.unmarked):
        verdicts[f"{result.verdict}, expects nothing" if result.expects_nothing else result.verdict] += 1
        print(f"{result.verdict:20} {result.program:28} {result.why}", flush=True)
        missing |= dict.fromkeys(result.missing)
    print()
    print(*(f"{count:4} {verdict}" for verdict, count in sorted(verdicts.items())), sep="\n")
    print(*(f"missing: {text}" for text in missing), sep="\n")
    return 1 if any(WRONG in verdict for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
