"""What no hook sees before the first step is named by the user's lines that it was spent under."""

from __future__ import annotations

import re
import time
from pathlib import Path

import program
import pytest

import coldstep
from coldstep.loading.lines import HELD
from coldstep_viewers.report.terminal import render

SLOW = """
import time
import coldstep

def tables():
    time.sleep(1.2)

def tokens():
    time.sleep(0.6)

def main():
    tables()
    tokens()
    for _ in range(3):
        with coldstep.step():
            time.sleep(0.2)

with coldstep.trace("run.pftrace", collectors=["process"]):
    main()
"""

HOLDS = """
import coldstep
from ctypes import PyDLL  # whose calls keep the lock

with coldstep.trace("run.pftrace", collectors=["process"]):
    sum(i for i in range(3_000_000))
    PyDLL(None).usleep(900_000)
    sum(i for i in range(3_000_000))
"""


@pytest.mark.timing
def test_the_outermost_lines_that_tell_the_time_apart_are_named(tmp_path: Path) -> None:
    program.run(SLOW, tmp_path)
    trace = coldstep.load(tmp_path / "run.pftrace")
    before = trace.intervals[0]
    named = {line: ns / 1e9 for line, ns in before.sampled.items()}
    assert named["program.py:12"] == pytest.approx(1.2, abs=0.3)
    assert named["program.py:13"] == pytest.approx(0.6, abs=0.3)
    assert sum(before.sampled.values()) <= before.unattributed_ns
    assert all(row.sampled == {} for row in trace.intervals[2:]), "nothing is sampled once the first step has ended"
    assert re.search(r"unattributed .*% program\.py:12, \d+ % program\.py:13", render(trace, 140))


@pytest.mark.timing
def test_what_a_call_into_c_kept_from_being_looked_at_is_said(tmp_path: Path) -> None:
    program.run(HOLDS, tmp_path)
    [whole] = coldstep.load(tmp_path / "run.pftrace").intervals
    assert whole.sampled[HELD] / 1e9 == pytest.approx(0.8, abs=0.3)


def test_little_is_not_named(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["process"]), coldstep.step():
        time.sleep(0.01)
    assert coldstep.load(tmp_path / "run.pftrace").intervals[0].sampled == {}
