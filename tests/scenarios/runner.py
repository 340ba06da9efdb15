"""Runs programs under coldstep, two at a time, and says on stderr how far it is."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import scenarios
from coldstep.model import Trace

_AT_A_TIME = 2


def run_all(programs: Sequence[Path], folder: Path) -> list[Trace | Exception]:
    """The trace of each program, in `folder`; what went wrong in the place of one that there is not."""
    numbers = itertools.count(1)

    def one(program: Path) -> Trace | Exception:
        result: Trace | Exception
        try:
            result = scenarios.run(program, folder)
        except Exception as error:  # it is told where the trace would have been; the others go on
            result = error
        failed = " did not run" if isinstance(result, Exception) else ""
        print(f"{next(numbers)}/{len(programs)} {program.parent.name}/{program.stem}{failed}", file=sys.stderr)
        return result

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(one, programs))
