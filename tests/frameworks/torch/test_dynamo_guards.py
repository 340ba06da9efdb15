"""What is read from Dynamo's words on failed guards: real texts, and what nobody has seen yet."""

from __future__ import annotations

import warnings

import pytest
from guard_texts import TEXTS
from hypothesis import given
from hypothesis import strategies as st

from coldstep.analysis.rules.dynamo import Guard, read, refine
from coldstep.model import Change


@pytest.mark.parametrize("text", TEXTS)
def test_the_words_are_understood(text: str) -> None:
    guard = read(text)
    assert (guard.mechanism, guard.argument, guard.before) == TEXTS[text]


BACKEND = (
    "0/0: BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend: "
    "_TorchCompileWrapper(compiler='{}', dynamic=None) (id=0x7f46). New backend: "
    "_TorchCompileWrapper(compiler='{}', dynamic={}) (id=0x7f47). If this is unexpected, wrap your backend"
)


@pytest.mark.parametrize(
    ("old", "new", "dynamic", "change"),
    [
        ("eager", "inductor", None, Change("backend", "config", "eager", "inductor")),
        ("eager", "eager", True, Change("dynamic", "config", "None", "True")),
        ("mine", "mine", None, Change("backend", "identity", "mine", "another mine")),
    ],
)
def test_backends_differ_by_name_by_option_or_as_objects(
    old: str, new: str, dynamic: bool | None, change: Change
) -> None:
    assert read(BACKEND.format(old, new, dynamic)).change() == change


@pytest.mark.parametrize(
    ("text", "path", "found", "change"),
    [
        ("0/0: fn.scale == 2.0", "fn.scale", ("self.scale", "attribute", "3.0"), ("module_attribute", "2.0", "3.0")),
        ("0/0: k['a'] == 1", "k['a']", ("k['a']", "closure", "2"), ("closure", "1", "2")),
        ("0/0: len(xs) != 0", "xs", ("xs", "argument", "list of 1"), ("container", "[]", "list of 1")),
        ("0/0: not xs", "xs", ("xs", "argument", "{'a'}"), ("container", "{}", "{'a'}")),
        (
            "1/0: len(self.state[list(dict.keys(self.state))[0]]) != 0",
            "self.state[list(dict.keys(self.state))[0]]",
            ("optimizer.state", "optimizer_state", "{'momentum_buffer'}"),
            ("optimizer_state", "{}", "{'momentum_buffer'}"),
        ),
        (
            "0/0: tensor 'args[0]' size mismatch at index 1. expected 3, actual 4",
            "args[0]",
            ("input", "argument", "f32[8,4]"),
            ("shape", "f32[8,3]", "f32[8,4]"),
        ),
        ("0/0: ___check_type_id(s, 12), type=<class 'int'>", "s", ("s", "global", "2.5"), ("global", "int", "2.5")),
        ("0/0: ___check_type_id(s, 12), type=<class 'int'>", "s", ("s", "global", "None"), ("type", "int", "None")),
    ],
)
def test_the_collectors_names_and_values_complete_the_words(
    text: str, path: str, found: tuple[str, str, str], change: tuple[str, str, str]
) -> None:
    argument, place, value = found
    guard = read(text, {path: {"argument": argument, "place": place, "value": value}})
    assert guard.change() == Change(argument, *change)


def test_what_older_pytorch_does_not_say_is_told_by_the_collector() -> None:
    layer = {"argument": "self.layer", "place": "attribute", "value": "Identity", "type": "torch.nn.Linear"}
    text = "0/0: ___check_type_id(self._modules['layer'], 93856209854048)"
    told = read(text, {"self._modules['layer']": layer}).change()
    assert told == Change("self.layer", "identity", "Linear", "Identity")
    training = {"argument": "self.training", "place": "attribute", "value": "False", "was": "True"}
    text = "0/0: ___check_obj_id(L['self'].training, 9466848)"
    assert read(text, {"L['self'].training": training}).change() == Change(None, "training_mode", "on", "off")
    cache = {"argument": "self.cache", "place": "attribute", "value": "f32[3]", "was": "None"}
    told = read("0/0: ___check_obj_id(L['self'].cache, 9466112)", {"L['self'].cache": cache}).change()
    assert told == Change("self.cache", "type", "None", "f32[3]")
    adam = {"argument": "optimizer", "place": "argument", "value": "Adam", "type": "torch.optim.adam.Adam"}
    told = read("0/0: ___check_obj_id(L['self'], 139947440603808)", {"L['self']": adam}).change()
    assert told == Change("optimizer", "identity", "Adam", "another Adam")
    eager, aot_eager = (f"(compiler='{name}', dynamic=None) (id=0x1)" for name in ("eager", "aot_eager"))
    backends = {"0/0: ": {"before": eager, "value": aot_eager}}
    assert read("0/0: ", backends).change() == Change("backend", "config", "eager", "aot_eager")
    assert read("0/1: ", backends).change() is None
    # of PyTorch 2.12
    words = "0/0: BACKEND_MATCH failure: torch.compile detected different backend callables. If this is unexpected"
    assert read(words, {words: backends["0/0: "]}).change() == Change("backend", "config", "eager", "aot_eager")
    assert read(words).change() is None


def test_no_optimizer_state_without_proof() -> None:
    text = "1/0: len(self.state[list(dict.keys(self.state))[0]]) != 0"
    assert read(text).mechanism is None
    lost = {"argument": "optimizer.state", "place": "optimizer_state", "value": "{}"}
    assert read(text, {"self.state[list(dict.keys(self.state))[0]]": lost}).mechanism is None


def test_a_guard_speaks_of_its_own_argument_and_of_no_other() -> None:
    guard = read("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5")
    assert guard.speaks_of(Change("x", "shape", "f32[4]", "f32[5]"))
    assert not guard.speaks_of(Change("y", "shape", "f32[4]", "f32[5]"))
    assert not guard.speaks_of(Change("x", "dtype", "f32[4]", "f64[4]"))
    assert read("0/0: y.size()[0] == x.size()[0]").speaks_of(Change("x", "shape", "f32[4]", "f32[5]"))
    assert read("0/0: s == 2.0").speaks_of(Change("s", "closure", "2.0", "3.0"))
    assert read("0/0: n == 2").speaks_of(Change("n", "type", "2", "2.5"))
    marked = read("0/0: _has_dynamo_dim_marking is present on runtime tensor but was absent at compile time")
    assert marked.speaks_of(Change("mark_dynamic(x)", "config", "no mark", "dimension 0 dynamic"))
    assert not marked.speaks_of(Change("num_threads", "config", "1", "2"))
    both = read("0/0: GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled ")
    assert both.speaks_of(Change(None, "grad_mode", "on", "off"))
    assert both.speaks_of(Change(None, "autocast", "off", "bf16"))
    assert not both.speaks_of(Change(None, "training_mode", "on", "off"))
    garbled = read("0/0: GLOBAL_STATE changed: autocast (cpu)_enabled")
    assert garbled.mechanism == "autocast"
    assert not garbled.speaks_of(Change("jax_enable_x64", "config", "False", "True"))
    named = read("0/0: GLOBAL_STATE changed: grad_mode default_dtype")
    assert named.speaks_of(Change("default_dtype", "config", "torch.float32", "torch.float64"))
    assert not named.speaks_of(Change("num_threads", "config", "1", "2"))


@pytest.mark.parametrize(
    ("change", "mechanisms"),
    [
        (Change("xs", "pytree", "list of 1", "list of 2"), ["container"]),
        (Change("xs", "pytree", "[]", "list of 2"), ["container"]),
        (Change("d", "pytree", "{'a'}", "dict of 300"), ["container"]),
        (Change("xs", "pytree", "list of 1", "tuple of 1"), ["type"]),
        (Change("h", "pytree", "f32[2]", "tuple of 2"), ["type"]),
        (Change("w", "closure", "f32[2]", "f64[3]"), ["dtype", "shape"]),
        (Change("w", "closure", "None", "f32[2]"), ["type"]),
        (Change("w", "closure", "2.0", "f32[]"), ["type"]),
        (Change("inference(x)", "config", "on", "inference"), ["grad_mode"]),
        (Change("s", "closure", "2.0", "3"), ["closure"]),
        (Change("s", "closure", "'a'", "torch.float32"), ["closure"]),
        (Change("s", "closure", "[]", "list of 2"), ["container"]),
        (Change("s", "closure", "Linear", "Identity"), ["identity"]),
        (Change("s", "closure", "<function a>", "<function b>"), ["identity"]),
        (Change("x", "sharding", "f32[2]", "f32[2] @meta"), ["device"]),
        (Change("d", "unknown", "torch.float32", "torch.float64"), ["python_scalar"]),
        (Change("d", "unknown", "A", "B"), ["type"]),
        (Change("d", "unknown", "Mode.A", "Mode.B"), ["identity"]),
        (Change("d", "unknown", "what is this?", "B"), ["unknown"]),
    ],
)
def test_differences_are_told_in_torchs_words(change: Change, mechanisms: list[str]) -> None:
    assert [refined.mechanism for refined in refine([change])] == mechanisms


# --- what nobody has seen yet ---------------------------------------------------------------------------------


def unknown(guard: Guard) -> bool:
    return guard.mechanism is None and guard.change() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0/0: ",
        "0/0: Unexpected recompilation: runtime guards failed even though they passed during analysis.",
        "0/0: getattr failed on source a",
        "0/0: f(x) == 2",
        "0/0: x == y",
        "0/0: x == f(2)",
        "0/0: x > 2 > 1",
        "0/0: lambda: 1",
        "0/0: x[y] == 2",
        "0/0: ___dict_contains('a', self.__dict__)",
        "0/0: tensor 'x' flavour mismatch. expected sweet, actual sour",
        "0/0: GLOBAL_STATE changed: ",
        "0/0: " + "(" * 5000 + ")" * 5000,
        "0/0: " + "-" * 50_000 + "x",
        "0/0: x\0 == 2",
    ],
)
def test_what_is_not_recognised_has_no_mechanism_and_keeps_its_words(text: str) -> None:
    guard = read(text)
    assert unknown(guard)
    assert guard.text == text.removeprefix("0/0: ")
    assert not guard.speaks_of(Change("x", "shape", None, None))


@pytest.mark.parametrize(
    "text", ["0/0: 1if x else y", "0/0: x == 1.5or 2", "0/0: x == '\\d'", "0/0: 0xfor x in y", "0/0: x == 1or 2"]
)
def test_python_says_nothing_of_a_text_that_it_would_warn_of(text: str, recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    read(text)
    refine([Change("x", "closure", text.removeprefix("0/0: "), "2")])
    assert not recwarn.list


MECHANISMS = {mechanism for mechanism, _, _ in TEXTS.values()} | {"keyword", "optimizer_state"}


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert read(text).mechanism in MECHANISMS
    assert read(f"0/0: {text}").mechanism in MECHANISMS


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_no_mutilated_message_raises_and_what_it_says_is_kept(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    mutated = text[:start] + data.draw(st.text(max_size=8)) + text[stop:]
    found = {path: {"argument": path, "place": "argument", "value": "f32[2]"} for path in ("x", "self", "xs")}
    guard = read(mutated, found if data.draw(st.booleans()) else None)
    assert guard.mechanism in MECHANISMS
    assert mutated.endswith(guard.text)
    assert unknown(guard) == (guard.mechanism is None)


@given(
    st.dictionaries(st.text(max_size=9), st.dictionaries(st.sampled_from(["argument", "place", "value"]), st.text()))
)
def test_no_values_raise(guarded: dict[str, dict[str, str]]) -> None:
    for text in TEXTS:
        assert read(text, guarded).mechanism in MECHANISMS


@pytest.mark.timeout(60)
def test_a_long_text_that_is_no_expression_is_read_in_one_go() -> None:
    assert read(f"0/0: ({'a' * 500_000}").mechanism is None
    assert read(f"0/0: ({'a' * 500_000}.size()[0]").mechanism == "shape"
