"""Each text of coldstep's that claims an absence stands where the net was asked (`analysis.unobserved`), or its reason
stands here; and for each claim there is a run of which it would be false."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("tracer/coldstep", "viewers/coldstep_viewers", "collectors/coldstep_collectors")
_CLAIM = re.compile(
    r"\bnothing\b|\bno recompile|\bsettled\b|within budget|\bnever\b|\bnot used\b|\bno graph break|\bno compile\b|"
    r"\bneither\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z_]+")  # a verdict or a key, and no sentence
_ASKS = "coldstep.analysis.unobserved"

_RULE = "says how a framework behaves, of which no run is asked"
_INPUT = "is of what was given to coldstep, and not of what ran"
_SEEN = "is of one compile, or of one thing that was seen"
EXCEPTIONS = {
    "tracer/coldstep/analysis/advice.py": _RULE,
    "tracer/coldstep/analysis/caches/advice.py": _RULE,
    "tracer/coldstep/analysis/steps/inference.py": "says that no steps were found, which is no claim that none ran",
    "tracer/coldstep/analysis/rules/dynamo.py": _RULE,
    "tracer/coldstep/analysis/rules/jax.py": "is what JAX prints",
    "tracer/coldstep/analysis/rules/tensorflow.py": _RULE,
    "tracer/coldstep/analysis/recompiles/rows.py": _RULE,
    "tracer/coldstep/analysis/steps/settling.py": "`derive.analyse` asks, and gives the answer to `settle`",
    "tracer/coldstep/recording/device_window.py": "is the name of an option",
    "tracer/coldstep/recording/ending.py": "is said only where `Recorder.uneventful`: no phase of a compiler, no child",
    "tracer/coldstep/_util/installed.py": _INPUT,
    "tracer/coldstep/logs/__init__.py": "is of a log, and says what such a log does not hold",
    "tracer/coldstep/pftrace/reader.py": _INPUT,
    "tracer/coldstep/session.py": "is of coldstep's own file",
    "tracer/coldstep/vocabulary/__init__.py": _SEEN,
    "viewers/coldstep_viewers/report/after_ready.py": "`readiness` asks, and gives the answer as `Readiness.why`",
    "viewers/coldstep_viewers/ci/formats.py": "words a verdict of `budgets`, which asks",
    "viewers/coldstep_viewers/commands/check/check.py": "says what an option means",
    "viewers/coldstep_viewers/commands/jobs/fleet_load.py": _INPUT,
    "viewers/coldstep_viewers/commands/compare/forecast.py": _INPUT,
    "viewers/coldstep_viewers/commands/compare/programs.py": _INPUT,
    "viewers/coldstep_viewers/commands/understand/report.py": "says what the command is for",
    "viewers/coldstep_viewers/commands/record/run.py": "says what an option means",
    "viewers/coldstep_viewers/fleet/differences.py": "is of caches that were asked, and what they answered",
    "viewers/coldstep_viewers/ci/lockfile.py": "words the verdict of `settle`, which was given the answer",
    "viewers/coldstep_viewers/export/queries.py": _INPUT,
    "viewers/coldstep_viewers/report/cache_reuse.py": "`analysis.reuse` asks, and gives the answer as `Reuse.why`",
    "viewers/coldstep_viewers/report/sections.py": "imports are always seen",
    "viewers/coldstep_viewers/report/time_spent.py": "words the verdict of `settle`",
    "collectors/coldstep_collectors/outside/locks.py": "is of processes that were each looked at",
    "collectors/coldstep_collectors/steps/torch_calls.py": "is said only where PyTorch's own counter has no graph",
    "collectors/coldstep_collectors/torch/_private/caches.py": _SEEN,
    "collectors/coldstep_collectors/torch/_private/names.py": "says what a version does not tell",
    "collectors/coldstep_collectors/torch/forecast.py": "is of a function that PyTorch has just looked at",
    "collectors/coldstep_collectors/jax/forecast.py": _INPUT,
    "collectors/coldstep_collectors/jax/logs.py": "is what JAX prints",
    "collectors/coldstep_collectors/torch/logs.py": "says what a log does not tell",
    "collectors/coldstep_collectors/ahead/would_fit.py": _INPUT,
    "viewers/coldstep_viewers/templates/page.html": "its claims are made in html.py; what is imported is always seen",
    "viewers/coldstep_viewers/templates/fleet.html": "says what was seen, of processes that were traced",
}
"""Modules that claim an absence without having asked, and why they may."""

FALSE_OF = {
    "nothing compiled": "test_net.py::test_a_compiler_that_ran_below_is_told_until_a_row_names_it",
    "settled at": "test_net.py::test_what_compiles_by_a_route_that_has_no_compiles_is_told_and_nothing_is_claimed",
    "within budget": "test_net.py::test_children_that_imported_a_framework_are_told_and_keep_check_from_passing",
    "nothing compiled after ready": "test_net.py::test_workers_that_a_ready_master_forks_are_not_ready_by_that",
    "Nothing: no recompile": "test_net.py::test_what_compiles_by_a_route_that_has_no_compiles_is_told_and_nothing_is_"
    "claimed",
    "neither asked a cache": "test_net.py::test_of_such_a_run_nothing_is_foretold",
    "neither run compiled": "test_net.py::test_a_diff_a_comparison_and_slow_steps_claim_nothing_of_such_a_run",
    "compiled nothing": "test_net.py::test_a_diff_a_comparison_and_slow_steps_claim_nothing_of_such_a_run",
}
"""By claim, the test of a run of which it would be false, and of what is printed instead."""


def claims(path: Path) -> Iterator[str]:
    """The texts of a module, or of a page's template, that claim an absence."""
    source = path.read_text()
    if _CLAIM.search(source) is None:
        return
    if path.suffix == ".html":
        yield from (line.strip() for line in source.splitlines() if _CLAIM.search(line))
        return
    inside: set[int] = set()  # docstrings, and the parts of a text that has others in it
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            inside |= {id(part) for part in node.values}
            if _CLAIM.search(text):
                yield text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield from [node.value] if _CLAIM.search(node.value) and not _WORD.fullmatch(node.value) else []


def modules() -> dict[str, Path]:
    return {
        str(path.relative_to(ROOT)): path
        for package in PACKAGES
        for suffix in ("py", "html")
        for path in sorted((ROOT / package).rglob(f"*.{suffix}"))
    }


def test_whoever_claims_an_absence_asked_the_net_or_says_why_not() -> None:
    texts = {name: list(claims(path)) for name, path in modules().items()}
    found = {name for name, said in texts.items() if said}
    asking = {name for name in found if f"from {_ASKS} import" in modules()[name].read_text()}
    assert {"viewers/coldstep_viewers/report/headline.py", "viewers/coldstep_viewers/report/html.py"} <= asking
    assert found - asking - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - (found - asking) == set(), "these claim nothing any more, or ask"
    every = " | ".join(text for said in texts.values() for text in said)
    for claim, where in FALSE_OF.items():
        assert claim.removesuffix(" after ready") in every
        file, _, test = where.partition("::")
        assert f"def {test}(" in (ROOT / "tests/frameworks" / file).read_text()
