"""Regions that PyTorch compiles once for all their calls: traced, reused, traced again and why, near their limit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coldstep
from coldstep.model import Finding

torch = pytest.importorskip("torch")
_MARKS = getattr(torch.compiler, "nested_compile_region", None)
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        _MARKS is None or "max_reuse_entries" not in inspect.signature(_MARKS).parameters,
        reason="PyTorch 2.13 reuses what it traced of a region",
    ),
]


def regions(tmp_path: Path, function: Callable[..., Any], x: Any) -> list[Finding]:
    torch._dynamo.reset()
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["dynamo"]):
        torch.compile(function, backend="eager")(x)
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [row for row in trace.collectors if row.missing or row.state == "failed"] == []
    return [row for row in trace.findings if row.kind == "nested_region"]


def region(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compiler.nested_compile_region(function, **options)
    return made


def shift(x: Any, by: int = 1) -> Any:
    return x.sin() + by


def test_a_region_that_is_traced_once_is_a_note_with_its_line(tmp_path: Path) -> None:
    layer = region(shift)
    [row] = regions(tmp_path, lambda x: layer(layer(layer(x))), torch.ones(4))
    assert row.severity == "note"
    assert row.text.startswith("shift is a nested_compile_region: of 3 calls in <lambda>, PyTorch traced the first")
    assert row.location is not None
    assert (Path(row.location.file).name, row.location.line) == (Path(__file__).name, shift.__code__.co_firstlineno)


class Layer(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    @torch.compiler.nested_compile_region
    def forward(self, x: Any) -> Any:
        return x * self.scale


def stacked(*scales: float) -> Any:
    return torch.nn.Sequential(*map(Layer, scales))


def test_a_region_that_is_traced_again_names_the_guard_and_both_values(tmp_path: Path) -> None:
    [row] = regions(tmp_path, stacked(1.0, 2.0, 2.0), torch.ones(4))
    assert row.text.endswith("of 3 calls in Sequential.forward, PyTorch traced 2")
    assert row.severity == "note"  # one of them was reused
    [reason] = row.evidence
    assert "_MATCH of " in reason
    assert reason.endswith(".scale: 1.0, now 2.0")
    assert "max_reuse_entries" in row.advice


class Named(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    @torch.compiler.nested_compile_region
    def forward(self, x: Any) -> Any:
        return x + len(self.name)


def test_a_long_text_that_a_guard_compares_is_not_kept(tmp_path: Path) -> None:
    short = regions(tmp_path, torch.nn.Sequential(Named("a"), Named("bc")), torch.ones(4))[0].evidence[0]
    assert short.endswith(".name: 'a', now 'bc'")
    long = regions(tmp_path, torch.nn.Sequential(Named("a" * 10_000), Named("b" * 9_999)), torch.ones(4))[0].evidence[0]
    assert long.endswith(".name")


def test_a_region_that_is_never_reused_is_a_warning_and_so_is_one_near_its_limit(tmp_path: Path) -> None:
    [row] = regions(tmp_path, stacked(*map(float, range(3, 9))), torch.ones(4))
    assert row.severity == "warning"
    assert row.text.endswith("PyTorch traced 6, and keeps 8 at most")
    layer = region(shift)
    [row] = regions(tmp_path, lambda x: layer(x, 1).sum() + layer(x.view(2, 2), 1).sum(), torch.ones(4))
    assert (row.severity, row.evidence) == (
        "warning", ["reuse failed -- input 0 is of another shape, stride, dtype, device or requires_grad"],
    )  # fmt: skip


def test_where_the_limit_ends_the_compile_the_region_is_named_beside_the_error(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["dynamo"]), pytest.raises(Exception, match="exceeded"):
        torch.compile(stacked(*map(float, range(3, 13))), backend="eager")(torch.ones(4))
    kinds = [row.kind for row in coldstep.load(tmp_path / "run.pftrace").findings]
    assert [kind for kind in kinds if kind != "blind"] == ["failed_compile", "nested_region"]


def test_a_region_that_is_called_once_or_not_compiled_or_traced_anew_after_a_break_is_no_finding(
    tmp_path: Path,
) -> None:
    layer = region(shift)

    def breaks(x: Any) -> Any:
        y = layer(x)
        torch._dynamo.graph_break()
        return y * 2

    assert regions(tmp_path, breaks, torch.ones(4)) == []
    assert regions(tmp_path, lambda x: x + 1, layer(torch.ones(4))) == []


def test_a_key_of_the_programs_own_and_an_effect_are_told_apart(tmp_path: Path) -> None:
    keyed = region(shift, reuse_hash_fn=lambda x: 1)
    [row] = regions(tmp_path, lambda x: keyed(keyed(x)), torch.ones(4))
    assert (row.severity, row.evidence) == ("note", [])
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return x + 1

    layer = region(counted)
    [row] = regions(tmp_path, lambda x: layer(layer(x)), torch.ones(4))
    assert (row.severity, row.evidence) == ("warning", ["not eligible -- subgraph has side effects"])


def test_nothing_of_it_stays_in_pytorch(tmp_path: Path) -> None:
    from torch._dynamo.variables import invoke_subgraph as module

    layer, before = region(shift), (module.hc_log, module.stamp_out_subgraph)
    regions(tmp_path, lambda x: layer(layer(x)), torch.ones(4))
    assert (module.hc_log, module.stamp_out_subgraph) == before
