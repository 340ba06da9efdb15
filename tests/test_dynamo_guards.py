"""What is read from Dynamo's words on failed guards: real texts, and what nobody has seen yet."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstep.analysis.rules.dynamo import Guard, read, refine
from coldstep.model import Change

CODE = "                              # return x * n  # train.py:12 in step"
STACK = '\nUser stack trace:\n  File "train.py", line 12, in step\n    return x * n'
KEYS = "DispatchKeySet({}, BackendSelect{})"

# PyTorch 2.13's own words, with the compile's id: mechanism, argument, before
TEXTS: dict[str, tuple[str | None, str | None, str | None]] = {
    # of PyTorch 2.8, without types, with hints in line
    "0/0: ___check_obj_id(G['helper'].__code__, 1400)      ": ("identity", "helper", "function"),
    "0/0: hasattr(x, '_dynamo_dynamic_indices') == False": ("config", "mark_dynamic", None),
    "0/0: self.calls == 0      (HINT: make this integer dynamic)": ("module_attribute", "self.calls", "0"),
    # tensors
    "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5": ("shape", "x", "size 4 at dimension 0"),
    "0/0: tensor 'batch['x']' rank mismatch. expected 1, actual 2": ("shape", "batch['x']", "rank 1"),
    "0/0: tensor 'x' dtype mismatch. expected Float, actual Double": ("dtype", "x", "f32"),
    "0/0: tensor 'x' stride mismatch at index 0. expected 3, actual 1": ("layout", "x", "stride 3 at dimension 0"),
    "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0": ("requires_grad", "x", "no requires_grad"),
    "0/1: tensor 'self._modules['lin']._parameters['weight']' requires_grad mismatch. expected requires_grad=1. "
    "Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False": (
        "requires_grad",
        "self.lin.weight",
        "requires_grad",
    ),
    "0/0: tensor '___from_numpy(x)' dtype mismatch. expected Double, actual Float": ("dtype", "x", "f64"),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', ADInplaceOrView, AutogradCPU')}, actual {KEYS.format('CPU', ', ADInplaceOrView')}": (
        "grad_mode",
        None,
        "on",
    ),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', AutogradCPU')}, actual {KEYS.format('Meta', ', AutogradMeta')}": ("device", "x", None),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', '')}, actual {KEYS.format('SparseCPU', '')}": ("layout", "x", None),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', '')}, actual {KEYS.format('CPU', ', Conjugate')}": (None, None, None),
    # of PyTorch 2.6
    "0/0: tensor 'L['x']' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', AutogradCPU')}, actual {KEYS.format('CPU', ', AutogradCPU, AutocastCPU')}": (
        "autocast",
        None,
        None,
    ),
    '0/0: Duplicate tensors found: ["x", "y"]': ("aliasing", "y", "another tensor than x"),
    f"0/0: y is x{CODE}": ("aliasing", "y", "the same tensor as x"),
    "0/1: 2 <= x.size()[0]  # return x  # train.py:1 in step (user code shown is first use)": (
        "shape",
        "x",
        "2 <= x.size()[0]",
    ),
    "0/0: y.size()[0] == x.size()[0]  # duck sizing added this equality": ("shape", "y", "y.size()[0] == x.size()[0]"),
    "0/0: ((2*x.size()[0]) % 3) == 0": ("shape", "x", "((2*x.size()[0]) % 3) == 0"),
    "0/0: _has_dynamo_dim_marking is present on runtime tensor but was absent at compile time": (
        "config",
        "mark_dynamic",
        None,
    ),
    # modes
    "0/0: GLOBAL_STATE changed: grad_mode ": ("grad_mode", None, None),
    "0/0: GLOBAL_STATE changed: autocast(cpu)_enabled ": ("autocast", None, None),
    "0/2: GLOBAL_STATE changed: default_dtype ": ("config", "default_dtype", None),
    "0/0: ___check_torch_function_mode_stack()": ("config", "torch_function_modes", None),
    f"0/0: fn._modules['1'].training == True{CODE}{STACK}": ("training_mode", None, "on"),
    # constants
    f"0/0: n == 2{CODE}{STACK}": ("python_scalar", "n", "2"),
    f"0/2: n == True{CODE}{STACK}": ("python_scalar", "n", "True"),
    f"0/0: n == -1.5{CODE}": ("python_scalar", "n", "-1.5"),
    f"0/0: mode == 'a == b'{CODE}": ("python_scalar", "mode", "'a == b'"),
    f"0/0: d == torch.float32{CODE}": ("python_scalar", "d", "torch.float32"),
    f"0/0: (type(m) is float and __math_isnan(m)){CODE}": ("python_scalar", "m", "nan"),
    "2/0: self.param_groups[0]['lr'] == 0.1": ("python_scalar", "self.param_groups[0]['lr']", "0.1"),
    f"0/0: self.scale == 2.0{CODE}{STACK}": ("module_attribute", "self.scale", "2.0"),
    f"0/0: fn._modules['1'].p == 0.5{CODE}": ("module_attribute", "fn[1].p", "0.5"),
    f"0/0: G['LR'] == 0.1{CODE}": ("global", "LR", "0.1"),
    f"0/1: G['CFG']['a'] == 1{CODE}": ("global", "CFG['a']", "1"),
    f"0/2: G['cfg'].lr == 0.1{CODE}": ("module_attribute", "cfg.lr", "0.1"),
    '1/0: g.__closure__[0].cell_contents == 1  # def g(y): return y*k  # train.py:5 in g (HINT: guard on "k")': (
        "closure",
        "k",
        "1",
    ),
    # types and objects
    f"0/0: hid is None{CODE}": ("type", "hid", "None"),
    "0/0: expected type of 'x' to be a tensor type, ' but found <class 'float'>": ("type", "x", "Tensor"),
    # of PyTorch 2.15
    "0/0: expected type of 'x' to be <class 'torch.Tensor'>, but found <class 'float'>": ("type", "x", "Tensor"),
    "0/0: expected type of 'x' to be <class 'torch.nn.parameter.Parameter'>, but found <class 'torch.Tensor'>": (
        "type",
        "x",
        "Parameter",
    ),
    f"0/1: ___check_type_id(n, 1399417), type=<class 'float'>{CODE} (HINT: type float)": ("type", "n", "float"),
    f"0/7: ___check_type_id(self._modules['drop'], 941), type=<class 'torch.nn.Dropout'>{CODE}": (
        "identity",
        "self.drop",
        "Dropout",
    ),
    "0/4: ___check_obj_id(G['helper'].__code__, 1405), type=<class 'code'>": ("identity", "helper", "function"),
    "0/0: ___check_obj_id(fn, 140439264606080)                   ": ("identity", "fn", None),
    "0/0: ___check_type_id(config, 94453421172032)               ": ("type", "config", None),
    "0/0: ___check_type_id(self._modules['layer'], 93856209854048)": ("type", "self.layer", None),
    "0/0: ": (None, None, None),
    "1/1: ClosureGuardAccessor: Not a function on g.__closure__": ("identity", "g", "function"),
    "0/0: Cache line invalidated because L['self'] got deallocated": (
        "identity",
        "self",
        "an object that was freed",
    ),
    # containers
    f"0/0: len(xs) == 1{CODE}": ("container", "xs", "container of 1"),
    "0/1: len(xs) != 1": ("container", "xs", "container of 1"),
    f"0/0: not cache{CODE}": ("container", "cache", "container of 0"),
    f"0/0: list(dict.keys(xs))[0] == 'a'{CODE}": ("container", "xs", "with key 'a'"),
    f"0/0: ___dict_contains('a', d){CODE}": ("container", "d", "with key 'a'"),
    f"0/1: not set.__contains__(d, 'a'){CODE}": ("container", "d", "without key 'a'"),
    "0/1: KeyError on batch['mask']": ("container", "batch", None),
    # stories
    f"0/0: ps[0].grad is None{CODE}": ("gradient_state", "ps[0].grad", "None"),
    "2/1: self.param_groups[0]['params'][0].grad is not None": (
        "gradient_state",
        "self.param_groups[0]['params'][0].grad",
        "a value",
    ),
}


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
