"""`make scenarios`: runs the programs of every stack, and prints the matrix of expected and reported causes of each."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import scenarios
from coldstep.model import Trace
from scenarios import catalogue
from scenarios.matrix import LEGEND, Outcome, matrix
from scenarios.runner import run_all


def main() -> int:
    """Print the matrices. The exit code is 1 where anything is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m scenarios", description=__doc__)
    parser.add_argument(
        "--catalogue", action="store_true", help="also write what `coldstep explain` shows of each cause"
    )
    options = parser.parse_args()
    here = [stack for stack in scenarios.ENVIRONMENTS if scenarios.interpreter(stack)]
    programs = [path for stack in here for path in scenarios.programs(stack)]
    with tempfile.TemporaryDirectory(prefix="coldstep-scenarios-") as name:
        folder = Path(name).resolve()
        results = dict(zip(programs, run_all([_copied(path, folder) for path in programs], folder), strict=True))
    outcomes = [_outcome(program, result) for program, result in results.items()]
    print(LEGEND)
    for stack in here:
        mine = [outcome for outcome in outcomes if outcome.scenario.path.parent.name == stack]
        print("", matrix(stack, mine), sep="\n")
    print()
    complaints = [complaint for outcome in outcomes for complaint in outcome.complaints()]
    for complaint in complaints:
        print(complaint)
    for stack in (stack for stack in scenarios.ENVIRONMENTS if stack not in here):
        print(f"{stack} was not run: {scenarios.missing(stack)}")
    recompiles = sum(len(outcome.scenario.recompiles) for outcome in outcomes)
    verdict = f"{len(complaints)} not as expected" if complaints else "all as expected"
    print(f"{len(outcomes)} programs, {recompiles} recompiles: {verdict}")
    if options.catalogue:
        try:
            catalogue.write(catalogue.CATALOGUE / "examples", results, folder.name)
        except catalogue.CatalogueError as error:
            print(error, file=sys.stderr)
            return 1
    return 1 if complaints else 0


def _copied(program: Path, folder: Path) -> Path:
    """The program in a folder where no path of this machine gets into its report."""
    copy = folder / program.parent.name / program.name
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(program, copy)
    return copy


def _outcome(program: Path, result: Trace | Exception) -> Outcome:
    if isinstance(result, Trace):
        return Outcome(scenarios.read(program), scenarios.said(result))
    return Outcome(scenarios.read(program), failure=(str(result).strip() or repr(result)).splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
