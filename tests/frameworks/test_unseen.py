"""What JAX and PyTorch say and do as nobody has seen it yet: never an exception, and never a wrong cause.

Of Dynamo's words alone, without signatures beside them, see test_dynamo_guards.py.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import scenarios
from guard_texts import TEXTS as GUARDS
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sample_trace import sample

import coldstep
from coldstep.analysis.recompiles.rows import recompiles
from coldstep.model import Change, Details, Recompile, Signature, Trace
from coldstep.signature import differences

sys.path.append(str(Path(__file__).parents[2] / "benchmarks/published"))
import stated

# --- texts: what real programs say, and what it becomes when somebody meddles with it -------------------------------

PROGRAMS = sorted((scenarios.HERE / "jax").glob("*.py"))
REAL = sorted({text for path in PROGRAMS for row in scenarios.read(path).recompiles for text in row[2:] if text})
CONTEXT = [
    *(
        "function",
        "cache",
        "device",
        "donated",
        "call",
        "tree x",
        "static n",
        "closure s",
        "global G",
        "attribute self.s",
    ),
    *("config jax_enable_x64", "usual jax_enable_x64", "out_shardings", "transform", "a word of another version"),
]
_LIKE_AN_ARRAY = re.compile(r"([a-z][0-9a-z_]*(?:<\w+>)?)\[([^\]]*)\](.*)", re.DOTALL)


@st.composite
def meddled(draw: st.DrawFn, texts: list[str] = REAL, pieces: str = " |weak| committed|@cpu:1|[|None") -> str:
    """A real text, or one with a piece of it replaced."""
    text = draw(st.sampled_from(texts))
    start = draw(st.integers(0, len(text)))
    stop = draw(st.integers(start, len(text)))
    piece = draw(st.sampled_from(["", *pieces.split("|")]) | st.text(max_size=6))
    return draw(st.sampled_from([text, text[:start] + piece + text[stop:]]))


def words(text: str) -> tuple[set[str], list[str], list[str]]:
    """What follows an array's dimensions: flags, places, and the rest."""
    match = _LIKE_AN_ARRAY.match(text)
    found = match[3].split() if match else []
    flags = {"weak", "committed", "requires_grad"}
    return (
        flags & set(found),
        [word for word in found if word.startswith("@")],
        [word for word in found if word not in flags and not word.startswith("@")],
    )


def literal(text: str) -> type | None:
    try:
        return type(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def is_true(mechanism: str, was: str, now: str) -> bool:
    """Whether two texts really differ in what the mechanism says."""
    arrays = _LIKE_AN_ARRAY.match(was), _LIKE_AN_ARRAY.match(now)
    if mechanism == "unknown":
        return True
    if mechanism == "type":
        return "None" in (was, now) or None in arrays
    if mechanism == "python_scalar":
        return literal(was) is not None and literal(was) is literal(now)
    if mechanism == "identity":  # numbered objects
        return was != now and all(re.fullmatch(r"\S+ #\d+|freed object", text) for text in (was, now))
    if arrays[0] is None or arrays[1] is None:
        return False
    (flags, places, rest), (new_flags, new_places, new_rest) = words(was), words(now)
    return {
        "dtype": arrays[0][1] != arrays[1][1],
        "shape": arrays[0][2] != arrays[1][2],
        "layout": rest != new_rest,
        "sharding": places != new_places,
        "device": places != new_places,
        "weak_type": "weak" in flags ^ new_flags,
        "committed": "committed" in flags ^ new_flags,
        "requires_grad": "requires_grad" in flags ^ new_flags,
    }[mechanism]


@settings(derandomize=True)
@given(meddled(), meddled())
@example("f32[8,4] @P('d')/mesh(d=2) committed", "f32[8,4] @P('d')/mesh(d=2)  committed")
@example("f32[3] weak", "f32[3] weakly")
def test_no_mechanism_is_named_that_two_texts_do_not_show(was: str, now: str) -> None:
    changes = differences(Signature({"x": was}), Signature({"x": now}))
    assert bool(changes) == (was != now)
    for change in changes:
        assert (change.argument, change.before, change.after) == ("x", was, now)
        assert is_true(change.mechanism, was, now), change


dims = st.lists(st.sampled_from([0, 1, 5, 8]), max_size=3)
places = st.sampled_from(["", " @cpu:1", " @cuda:0", " @P('d')/mesh(d=2)", " @P()/mesh(d=2:auto)"])
arrays = st.tuples(
    st.sampled_from(["f32", "bf16", "i32", "key<fry>"]), dims, st.booleans(), places, st.booleans()
)  # dtype, dimensions, weak, place, committed


def written(dtype: str, dims: list[int], weak: bool, place: str, committed: bool) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]{' weak' * weak}{place}{' committed' * committed}"


@given(arrays, arrays)
def test_exactly_what_differs_between_two_arrays_is_named(was: Any, now: Any) -> None:
    expected = {
        name
        for name, old, new in zip(("dtype", "shape", "weak_type", "sharding", "committed"), was, now, strict=True)
        if old != new
    }
    if "sharding" in expected and not any("P(" in side[3] for side in (was, now)):
        expected = expected - {"sharding"} | {"device"}
    changes = differences(Signature({"x": written(*was)}), Signature({"x": written(*now)}))
    assert {change.mechanism for change in changes} == expected


def row_for(before: Signature, after: Signature, words: list[str] | None = None) -> Recompile:
    """What the report says of JAX's recompile in the sample trace, had it these signatures; of PyTorch's, where there
    are `words` on its guards."""
    trace = sample()
    new = "c1" if words is None else "c3"
    for row in trace.compiles:
        trace.details[row.id] = Details(row.key, before, previous={"c1": "c0", "c3": "c2"}.get(row.id))
    trace.details[new].signature, trace.details[new].guard_failures = after, words or []
    return next(row for row in recompiles(trace) if row.compile == new)


sides = st.builds(
    Signature,
    inputs=st.dictionaries(st.sampled_from(["x", "x['a']", "y", "x["]) | st.text(max_size=5), meddled(), max_size=3),
    context=st.dictionaries(st.sampled_from(CONTEXT), meddled() | st.text(max_size=9), max_size=4),
)


@settings(derandomize=True)
@given(sides, sides)
def test_a_row_claims_a_cause_among_the_changes_or_shows_everything(before: Signature, after: Signature) -> None:
    row = row_for(before, after)
    if row.cause != "unknown":
        assert Change(row.argument, row.cause, row.before, row.after) in row.changes
        return
    for change in row.changes:
        assert any(f"{change.before} → {change.after}" in text for text in row.evidence)
    assert row.evidence


@settings(max_examples=300, deadline=None, derandomize=True)
@given(sides, sides, st.lists(meddled(sorted(GUARDS), " |(|not |None|\n"), min_size=1, max_size=3))
@example(Signature({}, {}), Signature({}, {}), ["0/1: KeyError on ['mask']"])
@example(Signature({}, {}), Signature({}, {}), ['0/0: Duplicate tensors found: [""]'])
@example(Signature({}, {}), Signature({}, {}), ["0/0: Cache line invalidated because L['self']not  got deallocated"])
@example(
    Signature({}, {}),
    Signature({}, {}),
    [
        "0/0: tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), actual "
        "DispatchKeySet(CPU, AutogradCPU, AutocastCPU)"
    ],
)
def test_a_cause_stands_in_the_words_on_the_guards_or_all_of_them_are_shown(
    before: Signature, after: Signature, words: list[str]
) -> None:
    row = row_for(before, after, words)
    if row.cause == "unknown":
        assert set(words) <= set(row.evidence)
        return
    assert Change(row.argument, row.cause, row.before, row.after) in row.changes
    assert any(
        stated.states(row.cause, stated.Clause(text, text)) for text in words
    )  # by a rule made to judge other tools
    assert row.argument is None or any(stated.names(row.argument, text, {}) for text in words)


# --- the real thing -------------------------------------------------------------------------------------------------

EVENTS = [
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
    "/jax/compilation_cache/compile_requests_use_cache",
    "/jax/compilation_cache/cache_hits",
    "/jax/compilation_cache/compile_time_saved_sec",
]
numbers = st.floats() | st.integers(-(2**70), 2**70)
names = st.sampled_from(["train_step", "jit(train_step)", "", "jit(", "jit()"]) | st.text(max_size=20)


@pytest.mark.jax
def test_events_in_any_order_and_of_any_name_change_nothing_for_what_is_really_compiled(tmp_path: Path) -> None:
    import jax
    import numpy as np
    from jax import monitoring

    @settings(max_examples=200)
    @given(
        st.sampled_from(["scalar", "span", "event", "duration"]),
        st.sampled_from(EVENTS) | st.text(max_size=30),
        numbers,
        st.fixed_dictionaries({}, optional={"fun_name": names, "other": numbers | st.text(max_size=5)}),
    )
    def record(kind: str, event: str, number: float, more: dict[str, Any]) -> None:
        if kind == "scalar":
            monitoring.record_scalar(event, number, **more)
        elif kind == "span":
            monitoring.record_event_time_span(event, number, 0.0, **more)
        elif kind == "event":
            monitoring.record_event(event, **more)
        else:
            monitoring.record_event_duration_secs(event, number, **more)

    @jax.jit
    def train_step(x: Any) -> Any:
        return x * 2

    with coldstep.trace(tmp_path / "run.pftrace", collectors=["jax"]):
        train_step(np.ones(8, np.float32))
        record()
        train_step(np.ones(5, np.float32))
    trace = coldstep.load(tmp_path / "run.pftrace")
    [collector] = trace.collectors
    assert collector.state != "failed", collector.missing
    assert scenarios.said(trace) == [("shape", "x", "f32[8]", "f32[5]")]


@pytest.mark.jax
@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan, 2**70])
def test_a_cache_that_saved_what_is_no_time_fails_no_collector(tmp_path: Path, seconds: float) -> None:
    import jax
    import numpy as np
    from jax import monitoring

    @jax.jit
    def train_step(x: Any) -> Any:
        monitoring.record_event_duration_secs(EVENTS[-1], seconds)
        return x * 2

    with coldstep.trace(tmp_path / "run.pftrace", collectors=["jax"]):
        train_step(np.ones(8, np.float32))
    trace = coldstep.load(tmp_path / "run.pftrace")
    [collector] = trace.collectors
    assert collector.state != "failed", collector.missing
    assert [row.function for row in trace.compiles] == ["train_step"]


def leaves() -> st.SearchStrategy[Any]:
    import numpy as np

    shapes = st.sampled_from([(), (2,), (3,), (2, 3)])
    ones = st.builds(lambda shape, dtype: np.ones(shape, dtype), shapes, st.sampled_from([np.float32, np.int32]))
    return ones | st.sampled_from([1.0, 2, None])


def trees() -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.lists(inner, max_size=2).map(tuple)
            | st.dictionaries(st.sampled_from(["a", "b"]), inner)
        ),
        max_leaves=4,
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two arguments: any two, or of one structure with other leaves."""
    import jax

    first = draw(trees())
    if draw(st.booleans()):
        return first, draw(trees())
    other = leaves().filter(lambda leaf: leaf is not None)
    return first, jax.tree.map(lambda leaf: draw(other | st.just(leaf)), first)


@pytest.mark.jax
@settings(max_examples=30, deadline=None)
@given(pairs())
def test_whatever_is_passed_the_cause_is_one_that_jax_shows_itself(pair: tuple[Any, Any]) -> None:
    import jax

    def step(x: Any) -> Any:
        return x

    first, second = pair
    trace = traced(jax.jit(step), first, second)
    equal = jax.tree.structure(first) == jax.tree.structure(second)
    if equal and list(map(jax.typeof, jax.tree.leaves(first))) == list(map(jax.typeof, jax.tree.leaves(second))):
        assert trace.recompiles == []
        return
    [row] = trace.recompiles
    assert row.argument is not None
    was, now = (eval(row.argument, {"x": side}) for side in pair)
    if not equal and row.cause == "type":
        assert (was is None) != (now is None)
        assert "None" in (row.before, row.after)
    elif not equal:
        assert row.cause == "pytree"
        assert jax.tree.structure(was) != jax.tree.structure(now)
    else:
        old, new = jax.typeof(was), jax.typeof(now)
        assert row.cause in ("shape", "dtype", "weak_type")
        assert getattr(old, row.cause) != getattr(new, row.cause)
    assert all(change.mechanism != "unknown" for change in row.changes)


def traced(step: Any, *arguments: Any) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        with coldstep.trace(f"{folder}/run.pftrace", collectors=["jax"]):
            for argument in arguments:
                step(argument)
        return coldstep.load(f"{folder}/run.pftrace")
