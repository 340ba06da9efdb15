"""Comparing two signatures: every mechanism, the order of changes, the nearest, and garbage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coldstep.model import Signature
from coldstep.signature import differences, nearest, signature_of

MECHANISMS = {
    *("shape", "dtype", "weak_type", "layout", "sharding", "device", "committed", "donation", "requires_grad"),
    *("type", "static_argument", "python_scalar", "module_attribute", "global", "closure", "pytree", "keyword"),
    *("training_mode", "grad_mode", "autocast", "config", "new_function", "cache_cleared", "unknown"),
}

WORDS = [
    "f32[8,4]",
    "f32[5,4]",
    "i32[] weak",
    "f32[3] @cpu:1 committed",
    "f32[8] @P('d')/mesh(d=2)",
    "None",
    "3",
    "'a'",
]
GARBAGE = [
    "{[]: 1}",
    "",
    " ",
    "[",
    "f32[",
    "f32[8]]",
    "(" * 300,
    "1" * 5000,
    "\0",
    "{'a'",
    "tree",
]
KEYS = [
    *("function", "cache", "device", "donated", "call", "training", "grad_mode", "autocast(cpu)", "transform"),
    *("tree x", "tree x['a']", "static n", "static x", "config mode", "usual mode", "closure s", "global G"),
    *("attribute self.s", "in_shardings", "out_shardings", "tree ", "static", "", "of another day"),
]
texts = st.sampled_from([*WORDS, *GARBAGE, "x", "x=", "x, y="]) | st.text(max_size=30)
paths = st.sampled_from(["x", "x['a']", "x['a'].b[0]", "y", "x[", "", ".", "x #2"]) | st.text(max_size=10)
signatures = st.builds(
    Signature,
    inputs=st.dictionaries(paths, texts, max_size=5),
    context=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=10), texts, max_size=6),
)


def changed(was: str, now: str) -> list[str]:
    return [change.mechanism for change in differences(Signature({"x": was}), Signature({"x": now}))]


def said(before: Signature, after: Signature) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(each.mechanism, each.argument, each.before, each.after) for each in differences(before, after)]


@pytest.mark.parametrize(
    ("was", "now", "mechanisms"),
    [
        ("f32[8,4]", "f32[5,4]", ["shape"]),
        ("f32[4]", "f32[1,4]", ["shape"]),
        ("f32[4]", "bf16[4]", ["dtype"]),
        ("key<fry>[]", "u32[2]", ["dtype", "shape"]),
        ("f32[] weak", "f32[]", ["weak_type"]),
        ("f32[4]", "f32[4] committed", ["committed"]),
        ("f32[4]", "f32[4] @cpu:1 committed", ["device", "committed"]),
        ("f32[4]", "f32[4] @P('d')/mesh(d=2) committed", ["sharding", "committed"]),
        ("f32[4] @P('d')/mesh(d=2)", "f32[4] @P()/mesh(d=2)", ["sharding"]),
        ("f32[4] @cpu:0", "f32[4] @cuda:1", ["device"]),
        ("f32[4,4]", "f32[4,4] stride(1,4)", ["layout"]),
        ("f32[4,4] stride(4,1)", "f32[2,2] stride(1,2)", ["shape"]),
        ("f32[4]", "f32[4] requires_grad", ["requires_grad"]),
        ("f32[4]", "None", ["type"]),
        ("None", "3", ["type"]),
        ("3", "f32[]", ["type"]),
        ("3", "3.0", ["type"]),
        ("3", "4", ["python_scalar"]),
        ("'relu'", "'gelu'", ["python_scalar"]),
        ("True", "False", ["python_scalar"]),
        ("f32[4]", "GPT", ["type"]),
        ("Foo", "Bar", ["unknown"]),
        ("f32[4]", "a new kind of text [4]", ["unknown"]),
        ("f32[4] twice  spaced", "f32[4] twice spaced", ["unknown"]),
    ],
)
def test_each_property_of_a_value_has_its_mechanism(was: str, now: str, mechanisms: list[str]) -> None:
    assert changed(was, now) == mechanisms
    assert sorted(changed(now, was)) == sorted(mechanisms)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"config x64": "True", "usual x64": "False"}, {}, [("config", "x64", "True", "False")]),
        ({}, {"config x64": "True", "usual x64": "False"}, [("config", "x64", "False", "True")]),
        ({"static n": "2"}, {"static n": "3"}, [("static_argument", "n", "2", "3")]),
        ({"donated": "x, y"}, {"donated": "y, z"}, [("donation", "z", *"NY"), ("donation", "x", *"YN")]),
        ({"function": "f #1"}, {"function": "f #2"}, [("new_function", None, "f #1", "f #2")]),
        (
            {"function": "f #1", "closure s": "1"},
            {"function": "f #2", "closure s": "2"},
            [("closure", "s", "1", "2")],
        ),
        (
            {"function": "f #1", "global A": "1", "attribute self.b": "1"},
            {"function": "f #2", "global A": "2", "attribute self.b": "2"},
            [("global", "A", "1", "2"), ("module_attribute", "self.b", "1", "2")],
        ),
        (
            {"function": "f #1", "closure s": "1"},
            {"function": "f #2", "closure s": "1"},
            [("new_function", None, "f #1", "f #2")],
        ),
        ({}, {"cache": "generation 2"}, [("cache_cleared", None, "generation 1", "generation 2")]),
        ({"out_shardings": "P('d')"}, {}, [("sharding", "out_shardings", "P('d')", None)]),
        ({"device": "cpu:0"}, {"device": "cpu:1"}, [("device", None, "cpu:0", "cpu:1")]),
        ({"training": "on"}, {"training": "off"}, [("training_mode", None, "on", "off")]),
        ({}, {"autocast(cpu)": "bf16"}, [("autocast", None, "off", "bf16")]),
        ({"transform": "vmap"}, {}, [("unknown", "transform", "vmap", None)]),
    ],
)
def test_the_context_has_its_mechanisms(before: dict[str, str], after: dict[str, str], expected: list[Any]) -> None:
    words = {"N": "not donated", "Y": "donated"}
    wanted = [(kind, name, words.get(was, was), words.get(now, now)) for kind, name, was, now in expected]
    assert said(Signature(context=before), Signature(context=after)) == wanted


def test_none_that_became_a_tree_is_one_change_where_none_stood() -> None:
    before = Signature({"p['w']": "f32[2]", "m": "None"}, {"call": "p, m", "tree p": "{'w'}"})
    after = Signature(
        {"p['w']": "f32[2]", "m['w']": "f32[2]", "m['b'][0]": "f32[1]"},
        {"call": "p, m", "tree p": "{'w'}", "tree m": "{'b', 'w'}", "tree m['b']": "list of 1", "static m.tx": "a"},
    )
    assert said(before, after) == [("type", "m", "None", "{'b', 'w'}")]
    assert said(after, before) == [("type", "m", "{'b', 'w'}", "None")]


def test_structure_is_one_change_at_the_node_that_has_it() -> None:
    before = Signature({"b['x']": "f32[2]"}, {"call": "b", "tree b": "{'x'}"})
    after = Signature(
        {"b['x']": "f32[5]", "b['y'][0]": "f32[2]", "b['y'][1]": "f32[2]"},
        {"call": "b", "tree b": "{'x', 'y'}", "tree b['y']": "tuple of 2"},
    )
    assert said(before, after) == [("pytree", "b", "{'x'}", "{'x', 'y'}")]
    array = Signature({"b": "f32[2]"}, {"call": "b"})
    assert said(array, after) == [("pytree", "b", "f32[2]", "{'x', 'y'}")]


def test_an_argument_that_came_is_one_change_whatever_it_consists_of() -> None:
    before = Signature({"x": "f32[2]"}, {"call": "x"})
    after = Signature({"x": "f32[2]", "s[0]": "f32[1]"}, {"call": "x, s=", "tree s": "list of 1", "static s.k": "1"})
    assert said(before, after) == [("keyword", "s", None, "list of 1")]
    static = Signature({"x": "f32[2]"}, {"call": "x, n", "static n": "3"})
    assert said(static, before) == [("keyword", "n", "3", None)]
    by_keyword = Signature({"x": "f32[2]"}, {"call": "x="})
    assert said(before, by_keyword) == [("keyword", "x", "by position", "by keyword")]


def test_without_a_tree_a_missing_leaf_is_told_by_the_other_leaves_of_its_argument() -> None:
    before, after = Signature({"b.x": "f32[2]"}), Signature({"b.x": "f32[2]", "b.y": "f32[2]", "c": "f32[1]"})
    assert said(before, after) == [("pytree", "b.y", None, "f32[2]"), ("keyword", "c", None, "f32[1]")]


def test_what_explains_the_others_comes_first() -> None:
    before = Signature({"p": "f32[4]", "x": "f64[8]"}, {"static n": "1", "device": "cpu:0"})
    after = Signature(
        {"p": "f32[4] committed", "x": "f32[5] @cpu:1"},
        {
            "static n": "2",
            "device": "cpu:1",
            "function": "f #2",
            "config jax_enable_x64": "True",
            "cache": "generation 2",
        },
    )
    assert [change.mechanism for change in differences(before, after)] == [
        *("new_function", "config", "static_argument", "dtype", "shape", "device", "committed", "cache_cleared")
    ]


def test_nearest_is_by_leaves_and_the_latest_of_equals() -> None:
    def of(shape: str, function: str) -> Signature:
        return Signature({"x": shape}, {"function": function})

    new = of("f32[5]", "f #3")
    assert nearest([of("f32[5]", "f #1"), of("f32[8]", "f #3")], new) == 0
    assert nearest([of("f32[8]", "f #3"), of("f32[6]", "f #3")], new) == 1
    assert nearest([of("f32[8]", "f #3")], new) == 0


def test_a_container_that_came_is_as_far_as_its_leaves_are() -> None:
    def decode(length: int) -> Signature:
        cache = {f"past[{n}]": f"f32[1,{length}]" for n in range(3)}
        return Signature({"x": "i64[1,1]", **cache}, {"tree past": "list of 3"})

    prefill = Signature({"x": "i64[1,4]", "past": "None"})
    assert nearest([decode(5), prefill], decode(6)) == 0
    assert [change.argument for change in differences(decode(5), decode(6))] == ["past[0]", "past[1]", "past[2]"]


def test_a_path_that_occurs_twice_is_two_places() -> None:
    rows = [{"argument": "x", "type": "f32[2]"}, {"argument": "x", "type": "f32[3]"}]
    assert signature_of({"inputs": rows, "context": None}) == Signature({"x": "f32[2]", "x #2": "f32[3]"})


# --- anything -----------------------------------------------------------------------------------------------------


@given(signatures, signatures)
@example(Signature({"x": "(" * 300}), Signature({"x": "1" * 5000}))
@example(Signature(context={"usual mode": "1"}), Signature())
@example(Signature(context={"call": "x"}), Signature(context={"call": "x, "}))
@example(Signature({"x": "a"}, {"tree x": "b"}), Signature({"x": "a"}, {"tree x": "c"}))
@example(Signature({"x": "a"}, {"call": "x"}), Signature({"x": "a"}, {"call": "x", "": "y"}))
@example(Signature({"x": "f32[1] \ta"}), Signature({"x": "f32[1]  a"}))
def test_any_two_signatures_are_compared_and_differ_exactly_when_they_are_unequal(
    before: Signature, after: Signature
) -> None:
    changes = differences(before, after)
    assert bool(changes) == (before != after)
    assert {change.mechanism for change in changes} <= MECHANISMS
    assert differences(before, before) == []
    assert nearest([before, after], after) == 1
    assert before == after or nearest([after, before], after) == 0


@given(st.sampled_from(GARBAGE), st.sampled_from(GARBAGE))
def test_what_is_no_type_is_unknown_with_both_texts(was: str, now: str) -> None:
    changes = differences(Signature({"x": was}), Signature({"x": now}))
    if was != now:
        assert [(each.mechanism, each.argument, each.before, each.after) for each in changes] == [
            ("unknown", "x", was, now)
        ]


def test_of_many_variants_with_many_inputs_few_are_compared_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    from coldstep import signature

    def of(rows: int, inputs: int) -> Signature:
        return Signature({f"x[{n}]": f"f32[{rows if n == 0 else 8}] stride({rows})" for n in range(inputs)}, {})

    asked, compare = [], signature.differences
    monkeypatch.setattr(signature, "differences", lambda old, new: asked.append(old) or compare(old, new))
    many = [of(rows, 50) for rows in range(2, 258)]
    assert nearest([*many, of(300, 50), *many[:9]], of(300, 50)) == 256  # the same one, wherever it stands
    assert nearest(many, of(1000, 50)) == len(many) - 1  # of those that are equally near the latest
    assert len(asked) <= 24
