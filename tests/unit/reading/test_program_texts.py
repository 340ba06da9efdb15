"""Texts of programs that are meant to hurt: read in little time and memory, and compared."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import pytest

from coldstep.analysis.programs.ir import diff
from coldstep.analysis.programs.operations import by_place
from coldstep.analysis.programs.sources import readable

_MOST_S, _MOST_MB = 2.0, 100
_ADD = "\n%0 = stablehlo.add %a : tensor<4xf32> loc(#loc0)"
_LOCATIONS = {
    "each names the next": "\n".join(f"#loc{at} = loc(#loc{at + 1})" for at in range(5_000)),
    "each names the next twice": "\n".join(
        [*(f"#loc{at} = loc(callsite(#loc{at + 1} at #loc{at + 1}))" for at in range(40)), '#loc40 = loc("a.py":1:1)']
    ),
    "one names itself": f"#loc0 = {'#loc0' * 30}:1:1",
    "a place that does not end": f"#loc0 = {':1:1 to ' * 20_000}\n at #loc1",
    "one for all lines": "".join(
        ['#loc1 = loc("a.py":1:1)\n', "a\n" * 3_000, "x loc(fused[", ", ".join(["#loc1"] * 30_000), "])"]
    ),
}


@pytest.mark.parametrize("name", _LOCATIONS)
@pytest.mark.parametrize("read", [lambda text: by_place("stablehlo", text, ""), lambda text: readable(text, "")],
                         ids=["operations", "text"])  # fmt: skip
def test_locations_that_multiply_are_read_in_no_time(name: str, read: Callable[[str], object]) -> None:
    begun, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(_LOCATIONS[name] + _ADD)
    assert time.process_time() - begun < _MOST_S
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024 < _MOST_MB


@pytest.mark.parametrize("text", [";:; " * 50_000, "; a:b" * 50_000, "let a:b " * 50_000])
def test_a_line_of_many_names_is_read_in_no_time(text: str) -> None:
    begun = time.process_time()
    by_place("jaxpr", text, "")
    assert time.process_time() - begun < _MOST_S


def test_a_text_in_quotes_may_have_lines() -> None:
    compared = diff("stablehlo", '  %0 = stablehlo.add %a "x\ny"\n', "  %0 = stablehlo.add %a")
    assert compared.lines == (2, 1)


def test_two_texts_of_many_values_that_are_let_go_are_compared_in_no_time() -> None:
    begun = time.process_time()
    compared = diff("fx", ";  a" * 25_000, "    b = a.sin();  a = None\n    c = b + 1.5;  a = b = None")
    assert time.process_time() - begun < _MOST_S
    assert [line for line in compared.changes if line[0] == "+"] == ["+ %0 = a.sin()", "+ %1 = %0 + 1.5"]
