"""The collector `jax`: what it says of real JAX programs, and that JAX is afterwards as it was."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import importlib
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import program
import pytest

import coldstep
from coldstep.analysis.advice import advise
from coldstep.analysis.remedies.table import advice
from coldstep.events import Begin
from coldstep.model import Compile, Trace
from coldstep.recording.buffer import Buffers
from coldstep_collectors.jax.collector import Jax

pytestmark = pytest.mark.jax
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
np = pytest.importorskip("numpy")

Record = Callable[[Callable[[], object]], Trace]
PHASES = {"jax.trace", "jax.lower", "xla.compile"}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Run a function under a trace that has only this collector; what it raises is raised here too."""

    def run(body: Callable[[], object]) -> Trace:
        with coldstep.trace(tmp_path / "run.pftrace", collectors="jax"):
            body()
        return coldstep.load(tmp_path / "run.pftrace")

    return run


def of(trace: Trace, function: str) -> list[Compile]:
    return [row for row in trace.compiles if row.function == function]


def types(row: Compile) -> dict[str, str]:
    return {each.argument: each.type for each in row.inputs}


def phases(row: Compile) -> set[str]:
    aside = {"gc", "coldstep", "jax.backend_init"}  # the backend starts in whichever test comes first
    return set().union(*(segment.phases for segment in row.segments)) - aside


def line_of(function: Any) -> int:
    return int(function.__code__.co_firstlineno)


# --- what is compiled ---------------------------------------------------------------------------------------------


def test_a_train_step_is_one_compile_with_its_signature(record: Record) -> None:
    def train_step(params: Any, batch: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: ((batch["x"] @ p["layers"][0]["w"]) ** 2).mean() * p["s"])(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    params = {"layers": [{"w": np.ones((4, 2), np.float32)}], "s": jnp.bfloat16(1)}
    step = jax.jit(train_step)

    def run() -> None:
        with coldstep.step():
            coldstep.wait(step(params, {"x": jnp.ones((8, 4))}))

    trace = record(run)
    (row,) = of(trace, "train_step")
    assert (row.stack, row.origin, row.outcome, row.reason, row.parent) == ("jax", "user", "compiled", "first", None)
    assert row.location is not None
    assert (Path(row.location.file).name, row.location.line) == ("test_jax.py", line_of(train_step))
    assert row.caller is not None
    assert row.caller.function == "run"
    assert row.caller.line == line_of(run) + 2
    assert types(row) == {"params['layers'][0]['w']": "f32[4,2]", "params['s']": "bf16[]", "batch['x']": "f32[8,4]"}
    (segment,) = row.segments
    assert phases(row) == PHASES
    assert trace.intervals[segment.interval].step == 0
    assert {(cache.layer, cache.state) for cache in row.caches} == {("xla.persistent", "off")}
    assert sum(segment.phases.values()) <= segment.wall_ns == row.wall_ns


def test_another_shape_is_a_recompile_that_differs_in_that_argument_only(record: Record) -> None:
    step = jax.jit(lambda params, batch: params["w"] * batch["x"].sum())

    def run() -> None:
        for size in (8, 8, 5):
            with coldstep.step():
                step({"w": np.float32(1)}, {"x": np.ones((size, 3), np.float32)})

    trace = record(run)
    (recompile,) = trace.recompiles
    assert [(c.argument, c.mechanism, c.before, c.after) for c in recompile.changes] == [
        ("batch['x']", "shape", "f32[8,3]", "f32[5,3]")
    ]
    assert recompile.step == 2
    assert [len(step.compiles) for step in trace.intervals if step.kind == "step"] == [1, 0, 1]


def test_pinning_the_batch_to_its_device_recompiles_without_a_trace(record: Record) -> None:
    step = jax.jit(lambda w, batch: w * batch["x"].sum())

    def run() -> None:
        step(np.float32(1), {"x": jnp.ones(3)})
        step(np.float32(1), {"x": jax.device_put(jnp.ones(3), jax.devices()[0])})

    trace = record(run)
    first, second = of(trace, "<lambda>")
    assert phases(first) == PHASES
    assert phases(second) == PHASES - {"jax.trace"}
    (recompile,) = trace.recompiles
    assert [(c.argument, c.before, c.after) for c in recompile.changes] == [
        ("batch['x']", "f32[3]", "f32[3] committed")
    ]


def test_types_say_weak_and_where_an_array_lies(record: Record) -> None:
    mesh = jax.make_mesh((1,), ("data",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data", None))

    def run() -> None:
        jax.jit(lambda lr, n, flag, x, key: x * lr)(
            0.1, 3, True, jax.device_put(jnp.ones((2, 2)), spread), jax.random.key(0)
        )

    (row,) = of(record(run), "<lambda>")
    assert types(row) == {
        "lr": "f32[] weak",
        "n": "i32[] weak",
        "flag": "bool[]",
        "x": "f32[2,2] @P('data',None)/mesh(data=1) committed",
        "key": "key<fry>[]",
    }


def test_every_leaf_has_its_path_and_none_is_one(record: Record) -> None:
    State = collections.namedtuple("State", ["count", "mu"])

    @functools.partial(jax.jit, static_argnums=1, static_argnames="mode")
    def step(state: Any, n: int, *rest: Any, mode: str, **named: Any) -> Any:
        return jax.tree.leaves((state, rest, named))

    one, two = np.ones(1, np.float32), np.ones(2, np.float32)

    def run() -> None:
        state = {"z": State(one, [None, two]), "a": collections.OrderedDict(q=two, b=(None,)), "empty": ()}
        step(state, 3, one, (None, two), mode="train", lr=0.1, bias=None)

    (row,) = of(record(run), "step")
    assert [(each.argument, each.type) for each in row.inputs] == [
        ("state['a']['q']", "f32[2]"),
        ("state['a']['b'][0]", "None"),
        ("state['z'].count", "f32[1]"),
        ("state['z'].mu[0]", "None"),
        ("state['z'].mu[1]", "f32[2]"),
        ("rest[0]", "f32[1]"),
        ("rest[1][0]", "None"),
        ("rest[1][1]", "f32[2]"),
        ("named['bias']", "None"),
        ("named['lr']", "f32[] weak"),
    ]


def test_a_call_that_does_not_go_with_its_signature_is_described_as_jax_does(record: Record) -> None:
    def step(x: Any, y: Any) -> Any:
        return x + y["z"]

    step.__signature__ = inspect.Signature([])  # type: ignore[attr-defined]
    trace = record(lambda: jax.jit(step)(np.float32(1), {"z": np.float32(2)}))
    assert trace.collectors[0].state != "failed"
    (row,) = of(trace, "step")
    assert types(row) == {"args[0]": "f32[]", "args[1]['z']": "f32[]"}


def test_a_static_objects_own_text_is_never_asked_for(record: Record) -> None:
    class Config:
        def __init__(self, n: int) -> None:
            self.n = n

        def __hash__(self) -> int:
            return 12

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Config) and other.n == self.n

        def __repr__(self) -> str:
            raise RuntimeError("nobody may call this")

    step = functools.partial(jax.jit, static_argnums=1)(lambda x, config: x * config.n)

    def run() -> None:
        step(np.ones(3), Config(2))
        step(np.ones(3), Config(3))

    (recompile,) = record(run).recompiles
    assert (recompile.cause, recompile.changes) == (
        "unknown",
        [],
    )  # two of one hash and class: nothing tells them apart


def test_static_arguments_and_donation_are_no_inputs_but_tell_two_compiles_apart(record: Record) -> None:
    class Config:
        def __repr__(self) -> str:
            raise RuntimeError("nobody may call this")

    def scale(state: Any, n: int, config: Config) -> Any:
        return jax.tree.map(lambda leaf: leaf * n, state)

    step = functools.partial(jax.jit, static_argnames=("n", "config"), donate_argnums=0)(scale)
    config = Config()

    def run() -> None:
        for n in (2, 3):
            step({"a": jnp.ones(3)}, n=n, config=config)

    trace = record(run)
    assert [types(row) for row in of(trace, "scale")] == [{"state['a']": "f32[3]"}] * 2
    (recompile,) = trace.recompiles
    assert [(c.argument, c.before, c.after) for c in recompile.changes] == [("n", "2", "3")]


@pytest.mark.parametrize("method", [False, True])
def test_two_jits_of_one_function_that_donate_differently_share_the_identity(record: Record, method: bool) -> None:
    class Model:
        def update(self, x: Any) -> Any:
            return x + 1

    model = Model()

    def update(x: Any) -> Any:
        return x + 1

    def run() -> None:
        kept = jax.jit(model.update if method else update)
        kept(jnp.ones(7))
        jax.jit(model.update if method else update, donate_argnums=0)(jnp.ones(7))

    trace = record(run)
    assert [row.outcome for row in of(trace, "update")] == ["compiled", "compiled"]
    (recompile,) = trace.recompiles
    assert [(c.argument, c.before, c.after) for c in recompile.changes] == [("x", "not donated", "donated")]


def test_a_new_lambda_each_time_is_the_same_code_again(record: Record) -> None:
    def run() -> None:
        for _ in range(2):
            jax.jit(lambda x: x + 1)(np.ones(11))

    trace = record(run)
    assert [row.reason for row in of(trace, "<lambda>")] == ["first", "recompile"]
    (change,) = trace.recompiles[0].changes
    assert (change.mechanism, change.argument, change.before, change.after) == (
        "new_function",
        None,
        "<lambda> #1",
        "<lambda> #2",
    )


def test_two_functions_defined_on_one_line_are_two_though_each_is_made_anew(record: Record) -> None:
    def run() -> None:
        for size in (3, 3, 4):
            one, other = jax.jit(lambda x: x + 1), jax.jit(lambda x: x * 2)
            one(np.ones(3)), other(np.ones(size))

    trace = record(run)
    assert [row.reason for row in of(trace, "<lambda>")] == ["first", "first", *["recompile"] * 4]
    assert {row.cause for row in trace.recompiles} == {"new_function"}
    assert [row.changes[-1].mechanism for row in trace.recompiles[2:]] == ["new_function", "shape"]


def test_an_object_that_took_anothers_place_is_a_recompile_and_one_beside_it_is_not(record: Record) -> None:
    class Model:
        def step(self, x: Any) -> Any:
            return x * 2

    def run() -> None:
        for _ in range(2):
            jax.jit(Model().step)(np.ones(3))
            gc.collect()
        with coldstep.step("beside"):
            models = [Model(), Model()]
            for model in models:
                jax.jit(model.step)(np.ones(3))

    trace = record(run)
    assert [(row.cause, row.before, row.after) for row in trace.recompiles] == [
        ("new_function", "step #1", "step #2"),
        ("new_function", "step #2", "step #3"),
    ]


def test_a_librarys_wrapper_of_the_users_function_is_judged_by_that_function(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "trainer"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        """
import jax

class Wrapper:
    def __init__(self, f):
        self.f = f

    def __call__(self, *args):
        return self.f(*args)

def compiled(f):
    return jax.jit(Wrapper(f))

def with_static(f):
    jitted = jax.jit(lambda f, x: f(x), static_argnums=0)
    return lambda x: jitted(f, x)

class Base:
    def apply(self, x):
        return self(x)

def helper(x):
    return x * 2
"""
    )
    program.run(
        """
        import sys
        sys.path.insert(0, "site-packages")
        import coldstep, jax, numpy as np

        with coldstep.trace("run.pftrace", collectors="jax"):
            import trainer

            def first(x):
                return x + 1

            def second(x):
                return x + 2

            class Model(trainer.Base):
                def __call__(self, x):
                    return x + 3

            for size in (3, 4):
                x = np.ones(size, np.float32)
                trainer.compiled(first)(x)
                trainer.with_static(second)(x)
                model = Model()
                jax.jit(model.apply)(x)
                jax.jit(trainer.helper)(x)
        """,
        tmp_path,
        stack="jax",
    )
    trace = coldstep.load(tmp_path / "run.pftrace")
    users = [row.location.function for row in trace.compiles if row.origin == "user" and row.location]
    assert users[:4] == ["first", "second", "Model.__call__", "helper"]
    assert {row.origin for row in trace.compiles} == {"user"}


INSTALLED = """
import coldstep, jax, numpy as np

@jax.jit
def tool_step(state, x):
    return state + x.sum()

def main(marked=False):
    state = np.zeros(2, np.float32)
    for n in range(8):
        x = np.ones(3 if n == 5 else 2, np.float32)
        if marked:
            with coldstep.step():
                state = coldstep.wait(tool_step(state, x))
        else:
            state = tool_step(state, x)
"""
CONSOLE_SCRIPT = """\
import re
import sys
from installed_tool.cli import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""


def _install(folder: Path) -> str:
    """A package with a JAX program, as pip installs it; the folder that it is in."""
    package = folder / "site-packages" / "installed_tool"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(INSTALLED)
    return str(package.parent)


def test_what_an_installed_package_compiles_again_counts_for_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(_install(tmp_path))

    with coldstep.trace(tmp_path / "run.pftrace"):  # with all collectors: another test may have imported torch
        importlib.import_module("installed_tool.cli").main(marked=True)
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.origin, row.variant.n, row.reason) for row in of(trace, "tool_step")] == [
        ("user", 1, "first"),
        ("user", 2, "recompile"),
    ]
    assert [(row.cause, row.argument, row.step) for row in trace.recompiles] == [("shape", "x", 5)]
    assert [(row.verdict, row.settled_at_step) for row in trace.settling] == [("settled", 1)]
    labels = [row.label for row in trace.intervals if row.kind == "step"]
    assert (labels[0], labels[5]) == ("first", "recompiled")


def test_a_console_script_reports_the_steps_and_recompiles_of_its_package(tmp_path: Path) -> None:
    packages = _install(tmp_path)
    script = tmp_path / "bin" / "tool"
    script.parent.mkdir()
    script.write_text(CONSOLE_SCRIPT)
    command = ["coldstep", "run", "-o", "run.pftrace", str(script)]
    done = program.warm("jax", command, tmp_path, env={"PYTHONPATH": packages})
    assert "first settled at call 1; 1 recompile at call 5" in done.stderr
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert {row.caller.function for row in of(trace, "tool_step") if row.caller} == {"main"}


def test_equinox_arguments_are_named_as_the_user_wrote_them(record: Record) -> None:
    eqx = pytest.importorskip("equinox")

    def run() -> None:
        model = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        forward = eqx.filter_jit(lambda model, x, n: jax.vmap(model)(x) * n)
        for size, n in ((4, 1), (5, 1), (4, 2)):
            forward(model, np.ones((size, 3), np.float32), n=n)

    trace = record(run)
    assert [(row.cause, row.argument, row.before, row.after) for row in trace.recompiles] == [
        ("shape", "x", "f32[4,3]", "f32[5,3]"),
        ("static_argument", "n", "1", "2"),
    ]
    assert {row.origin for row in of(trace, "<lambda>")} == {"user"}


def test_a_number_that_filter_jit_is_given_is_no_matter_of_static_argnums(record: Record) -> None:
    eqx = pytest.importorskip("equinox")

    @eqx.filter_jit
    def shrink(x: Any, rate: float) -> Any:
        return x * rate

    def run() -> None:
        for rate in (0.5, 0.25, 0.125):
            shrink(np.ones(3, np.float32), rate)

    advised = [row.advice for row in record(run).findings if row.kind == "recompile"]
    assert advised
    assert all("jnp.asarray(rate)" in each and "static_argnums" not in each for each in advised)


def test_a_static_word_of_many_values_names_data_and_one_of_a_few_is_a_choice(record: Record) -> None:
    @functools.partial(jax.jit, static_argnames=("user", "mode"))
    def score(x: Any, user: str, mode: str) -> Any:
        return x * len(mode)

    def run() -> None:
        for user in ("ann", "bob", "cleo", "dave", "eve", "finn", "gus"):
            score(np.ones(3, np.float32), user, "train")
        for mode in ("eval", "sample", "test"):
            score(np.ones(3, np.float32), "ann", mode)

    rows = record(run).recompiles
    hows = {row.argument: {each.how for each in row.remedies} for row in rows}
    assert hows == {"user": {"edit"}, "mode": {"none"}}
    assert all("user had 7 values" in row.advice for row in rows if row.argument == "user")


def test_a_static_field_of_equinox_that_differs_is_named_with_both_values(record: Record) -> None:
    pytest.importorskip("equinox")
    import equinox as eqx

    class Renderer:
        def __init__(self, width: Any) -> None:
            self.width = width

    class Scene(eqx.Module):
        data: Any
        renderer: Any = eqx.field(static=True, default=None)
        name: str = eqx.field(static=True, default="one")

    @eqx.filter_jit
    def render(scene: Any) -> Any:
        return scene.data * scene.renderer.width

    def run() -> None:
        for _ in range(3):
            render(Scene(np.ones(3, np.float32), Renderer(2.0)))

    rows = record(run).recompiles
    values = [[str(text).rpartition(".")[2] for text in (row.before, row.after)] for row in rows]
    assert values == [["Renderer #1", "Renderer #2"], ["Renderer #2", "Renderer #3"]]
    assert {row.argument for row in rows} == {"scene.renderer"}
    assert all("ake it once" in row.advice and len(row.changes) == 1 for row in rows)


def test_a_librarys_wrapper_that_is_made_anew_is_one_function_whatever_still_lives(record: Record) -> None:
    nnx = pytest.importorskip("flax.nnx")
    kept = []

    def step(net: Any, x: Any) -> Any:
        def loss(net: Any) -> Any:
            return (net(x) ** 2).mean()

        kept.append(nnx.jit(nnx.value_and_grad(loss)))
        return kept[-1](net)

    def run() -> None:
        net = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        for _ in range(4):
            step(net, np.ones((5, 3), np.float32))

    again = [row for row in record(run).recompiles if row.cause == "new_function"]
    assert len(again) == 3


def test_modules_of_flax_are_named_as_the_user_wrote_them(record: Record) -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self, hidden: int) -> None:
            rngs = nnx.Rngs(0)
            self.blocks = nnx.List([nnx.Linear(3, hidden, rngs=rngs), nnx.Linear(hidden, 2, rngs=rngs)])
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.dropout(self.blocks[1](self.blocks[0](x)))

    def run() -> None:
        forward = nnx.jit(lambda net, x: net(x))
        net = Net(4)
        forward(net, np.ones((5, 3), np.float32))
        net.eval()
        forward(net, np.ones((5, 3), np.float32))
        forward(net, np.ones((6, 3), np.float32))
        net.blocks = nnx.List([nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Linear(2, 2, rngs=nnx.Rngs(0))])
        forward(net, np.ones((6, 3), np.float32))

    trace = record(run)
    mode, batch, width = trace.recompiles
    assert (mode.cause, mode.argument) == ("static_argument", "net.dropout.deterministic")
    assert (batch.cause, batch.argument, batch.after) == ("shape", "x", "f32[6,3]")
    assert (width.cause, width.argument) == ("static_argument", "net.blocks[0].out_features")
    shapes = {(each.argument, each.after) for each in width.changes if each.mechanism == "shape"}
    assert ("net.blocks[0].kernel", "f32[3,2]") in shapes


def test_what_transformations_make_of_one_function_are_programs_of_their_own(record: Record) -> None:
    def loss(x: Any) -> Any:
        return (x**2).sum()

    def run() -> None:
        jax.jit(loss)(np.ones(3, np.float32))
        jax.jit(jax.grad(loss))(np.ones(3, np.float32))
        jax.jit(jax.value_and_grad(loss))(np.ones(3, np.float32))
        jax.jit(jax.vmap(loss))(np.ones((2, 3), np.float32))
        jax.grad(jax.jit(loss))(np.ones(4, np.float32))  # eagerly: a forward and a backward program

    trace = record(run)
    rows = of(trace, "loss")
    assert len(rows) == 6
    assert {row.origin for row in rows} == {"user"}
    assert {row.location.line for row in rows if row.location} == {line_of(loss)}
    assert [(row.outcome, len(row.segments)) for row in rows] == [("compiled", 1)] * 6
    assert trace.recompiles == []


def test_functions_are_judged_by_what_they_wrap(record: Record) -> None:
    class Model:
        def step(self, x: Any) -> Any:
            return x * 2

        def __call__(self, x: Any) -> Any:
            return x * 3

    def decorated(x: Any) -> Any:
        return x * 4

    @functools.wraps(decorated)
    def wrapper(x: Any) -> Any:
        return decorated(x)

    def run() -> None:
        for function in (Model().step, Model(), functools.partial(wrapper)):
            jax.jit(function)(np.ones(5))

    trace = record(run)
    lines = {row.location.line for row in trace.compiles if row.origin == "user" and row.location}
    assert lines == {line_of(Model.step), line_of(Model.__call__), line_of(decorated)}


def test_a_pallas_kernel_is_the_users_and_one_call_of_it_is_made_anew_in_each_step(record: Record) -> None:
    pallas = pytest.importorskip("jax.experimental.pallas")
    x = jnp.ones((8, 128))

    def doubled(x: Any, out: Any) -> None:
        out[...] = x[...] * 2

    def call() -> Any:
        return pallas.pallas_call(doubled, jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)

    def body() -> None:
        kept = jax.jit(call())
        for each in (kept, kept, call()):
            with coldstep.step():
                coldstep.wait(each(x))

    trace = record(body)
    assert [(row.origin, row.outcome) for row in of(trace, "doubled")] == [("user", "compiled")] * 2
    assert [(row.cause, row.step) for row in trace.recompiles] == [("new_function", 2)]


def test_eager_operations_are_eager_and_a_librarys_function_that_is_jitted_is_the_users(record: Record) -> None:
    optax = pytest.importorskip("optax")
    tx = optax.sgd(0.1, momentum=0.9)

    def run() -> None:
        params = {"w": jnp.full((17, 3), 2.0) * jax.random.normal(jax.random.key(1), (17, 3))}
        jax.jit(tx.init)(params)

    rows = record(run).compiles
    (library,) = [row for row in rows if row.origin == "user"]
    assert library.location is not None
    assert "optax" in library.location.file
    eager = [row for row in rows if row.origin == "eager"]
    assert len(eager) + 1 == len(rows) > 2
    assert {row.reason for row in rows} == {"first"}
    assert all(row.caller is not None and row.caller.function == "run" for row in rows)


def test_a_program_compiled_while_another_is_traced_is_its_child(record: Record) -> None:
    def outer(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            table = jnp.arange(13) * 2
        return x.sum() + table.sum()

    def run() -> None:
        with coldstep.step():
            jax.jit(outer)(np.ones(3, np.float32))

    trace = record(run)
    assert [step.python_dispatches for step in trace.intervals if step.kind == "step"] == [1]
    (row,) = of(trace, "outer")
    children = [child for child in trace.compiles if child is not row]
    assert children
    assert {(child.parent, child.origin) for child in children} == {(row.id, "eager")}
    (segment,) = row.segments
    assert all(segment.start_ns <= child.segments[0].start_ns for child in children)
    assert sum(child.wall_ns for child in children) < row.wall_ns


def test_a_program_compiled_by_hand_inside_a_traced_function_is_not_taken_for_that_function(record: Record) -> None:
    def inner(x: Any) -> Any:
        return x * 3

    def outer(x: Any) -> Any:
        jax.jit(inner).lower(np.ones(3, np.float32)).compile()
        return x + 1

    trace = record(lambda: jax.jit(outer)(np.ones(41, np.float32)))
    (child,) = of(trace, "inner")
    (parent,) = of(trace, "outer")
    assert (child.parent, child.outcome, types(child)) == (parent.id, "compiled", {"x": "f32[3]"})
    assert (phases(child), phases(parent)) == ({"jax.lower", "xla.compile"}, PHASES)


# --- what happens otherwise ---------------------------------------------------------------------------------------


def test_steps_that_compile_nothing_have_no_rows_and_count_python_dispatches(record: Record) -> None:
    step = jax.jit(lambda x: x * 2)
    batch = np.ones(19, np.float32)

    def run() -> None:
        for x in (batch, batch, jnp.asarray(batch), batch):  # the third is new to the fast path, but no new program
            with coldstep.step():
                coldstep.wait(step(x))

    steps = [interval for interval in record(run).intervals if interval.kind == "step"]
    assert [interval.python_dispatches for interval in steps] == [1, 0, 1, 0]
    assert [len(interval.compiles) for interval in steps] == [1, 0, 0, 0]


def test_what_is_only_traced_is_said_to_be(record: Record) -> None:
    def shape_of(x: Any) -> Any:
        return x + 1

    def traced(x: Any) -> Any:
        return x + 2

    def run() -> None:
        jax.eval_shape(shape_of, np.ones(3))
        jax.jit(traced).trace(np.ones(3))

    trace = record(run)
    for function in ("shape_of", "traced"):
        (row,) = of(trace, function)
        assert row.outcome == "traced_only"
        assert phases(row) == {"jax.trace"}


def test_lower_and_compile_far_apart_are_one_compile(record: Record) -> None:
    def model(x: Any) -> Any:
        return x * 2

    def run() -> None:
        lowered = jax.jit(model).lower(jax.ShapeDtypeStruct((23,), jnp.bfloat16))
        jax.jit(lambda x: x)(np.ones(1))
        with coldstep.step():
            lowered.compile()

    trace = record(run)
    (row,) = of(trace, "model")
    assert row.outcome == "compiled"
    assert [set(segment.phases) - {"gc", "coldstep"} for segment in row.segments] == [
        {"jax.trace", "jax.lower"},
        {"xla.compile"},
    ]
    assert types(row) == {"x": "bf16[23]"}


def test_compiling_the_same_lowering_with_other_options_is_a_recompile_by_them(record: Record) -> None:
    def model(x: Any) -> Any:
        return x * 2

    def run() -> None:
        lowered = jax.jit(model).lower(np.ones(43))
        lowered.compile()
        lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})

    (recompile,) = record(run).recompiles
    assert [(c.argument, c.before, c.after) for c in recompile.changes] == [
        ("compiler_options", None, "{'xla_embed_ir_in_executable': True}")
    ]


def test_a_trace_that_jax_remembered_is_over_at_once(record: Record) -> None:
    def model(x: Any) -> Any:
        return x * 2

    def run() -> None:
        jax.jit(model).lower(np.ones(47)).compile()
        with coldstep.step():
            jax.jit(model)(np.ones(47))  # neither traced, nor lowered, nor compiled again
        with coldstep.step():
            pass

    trace = record(run)
    compiled, remembered = of(trace, "model")
    assert (compiled.outcome, remembered.outcome) == ("compiled", "traced_only")
    (segment,) = remembered.segments
    step = trace.intervals[segment.interval]
    assert step.step == 0
    assert segment.start_ns + segment.wall_ns <= step.start_ns + step.wall_ns
    assert trace.recompiles == []


def test_an_exception_in_the_traced_function_is_the_users_and_a_failed_compile(record: Record) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no such layer\nand more")

    def run() -> None:
        with pytest.raises(ValueError, match="no such layer"):
            jax.jit(broken)(np.ones(3))
        try:
            raise KeyError("handled while something else compiles")
        except KeyError:
            jax.jit(lambda x: x + 1)(np.ones(3))

    trace = record(run)
    (failed,) = of(trace, "broken")
    assert failed.outcome == "failed"
    assert phases(failed) == {"jax.trace"}
    (fine,) = of(trace, "<lambda>")
    assert fine.outcome == "compiled"
    (finding,) = [finding for finding in trace.findings if finding.kind == "failed_compile"]
    assert "ValueError: no such layer" in " ".join([finding.text, *finding.evidence])


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_call_that_fails_between_two_phases_failed(record: Record, goes_on: bool) -> None:
    def two_results(x: Any) -> Any:
        return x, x

    def run() -> None:
        with pytest.raises(ValueError, match="pytree"):
            jax.jit(two_results, out_shardings=(None,))(np.ones(3))
        if goes_on:
            jax.jit(lambda x: x + 1)(np.ones(3))

    trace = record(run)
    assert [row.outcome for row in of(trace, "two_results")] == ["failed"]
    assert [(row.outcome, row.parent) for row in of(trace, "<lambda>")] == [("compiled", None)] * goes_on


def test_an_error_of_xla_is_a_failed_compile(record: Record) -> None:
    def run() -> None:
        with pytest.raises(Exception, match="no_such_option"):
            jax.jit(lambda x: x + 1, compiler_options={"no_such_option": True})(np.ones(3))

    (row,) = of(record(run), "<lambda>")
    assert row.outcome == "failed"
    assert phases(row) == PHASES


def test_two_threads_compile_at_once(record: Record) -> None:
    meet = threading.Barrier(2)

    def traced_by_both(x: Any) -> Any:
        meet.wait(60)
        return jnp.sin(x).sum()

    def run() -> None:
        threads = [
            threading.Thread(target=jax.jit(traced_by_both), args=(np.ones(29 + i),), name=f"worker{i}")
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    rows = of(record(run), "traced_by_both")
    assert {(row.outcome, row.parent) for row in rows} == {("compiled", None)}
    assert {row.segments[0].thread for row in rows} == {"worker0", "worker1"}
    assert all(phases(row) == PHASES and len(row.segments) == 1 for row in rows)


def test_marks_do_nothing_where_jax_traces(record: Record) -> None:
    def marked(x: Any) -> Any:
        with coldstep.step("inner"), coldstep.annotate("inner"):
            return coldstep.wait(x * 2)

    def run() -> None:
        jax.jit(marked)(np.ones(3))
        jax.vmap(marked)(np.ones(3))

    assert [interval.name for interval in record(run).intervals if interval.kind == "step"] == []


def test_wait_takes_anything_and_hands_it_back(record: Record) -> None:
    donated = jnp.ones(31)
    result = jax.jit(lambda x: x + 1, donate_argnums=0)(donated)
    strange = {1: result, "a": [donated, None, object(), np.ones(2), "text"], (): jax.random.key(0)}
    things = [strange, (), 3, object(), {"x": result}]
    if "torch" in sys.modules:
        things.append({"torch": sys.modules["torch"].ones(2), "jax": result})

    def run() -> None:
        for thing in things:
            assert coldstep.wait(thing) is thing

    assert record(run).collectors[0].state != "failed"


def test_wait_waits(record: Record) -> None:
    x = jnp.ones((600, 600))
    work = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, a: a @ x / 600, x))
    work(x).block_until_ready()
    ready: list[bool] = []

    def run() -> None:
        with coldstep.step():
            ready.append(coldstep.wait({"result": work(x)})["result"].is_ready())

    (step,) = [interval for interval in record(run).intervals if interval.kind == "step"]
    assert ready == [True]
    assert step.measures == "complete"
    assert step.phases["execute"] > 0


def test_an_error_of_the_computation_is_raised_by_wait(tmp_path: Path) -> None:
    done = program.run(
        """
        import coldstep, jax, jax.numpy as jnp

        def fails(_):
            raise RuntimeError("the data ended")

        x = jnp.ones((600, 600))
        work = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, a: a @ x / 600, x))
        step = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
        with coldstep.trace("run.pftrace", collectors="jax"):
            result = step(work(x))
            print("dispatched")
            coldstep.wait(result)
            print("never reached")
        """,
        tmp_path,
        check=False,
        stack="jax",
    )
    assert (done.returncode, done.stdout) == (1, "dispatched\n")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert trace.run.ended == "exception"
    assert "the data ended" in done.stderr
    assert trace.collectors[0].state == "late"


# --- manners ------------------------------------------------------------------------------------------------------


def hooks() -> list[Any]:
    """Everything in JAX that the collector may touch."""
    from jax._src import monitoring, util, xla_bridge

    return [
        monitoring.get_event_listeners(),
        monitoring.get_event_duration_listeners(),
        monitoring.get_event_time_span_listeners(),
        monitoring.get_scalar_listeners(),
        util.test_event_listener,
        xla_bridge._init_backend,
        xla_bridge.discover_pjrt_plugins,
    ]


def test_jax_is_afterwards_as_it_was_and_the_users_listeners_hear_everything(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def spans(event: str, start: float, end: float, **about: Any) -> None:
        heard.append(event)

    def test_events(name: str, *args: Any) -> None:
        heard.append(name)

    monkeypatch.setattr(sys.modules["jax._src.util"], "test_event_listener", test_events)
    jax.monitoring.register_event_time_span_listener(spans)
    try:
        jax.jit(lambda x: x + 1)(np.ones(3))  # a process's first compile tells of more
        heard.clear()
        before = hooks()
        trace = record(lambda: jax.jit(lambda x: x + 1)(np.ones(3)))
        assert hooks() == before
        during = sorted(heard)
        heard.clear()
        jax.jit(lambda x: x + 1)(np.ones(3))
        assert sorted(heard) == during
    finally:
        jax.monitoring.unregister_event_time_span_listener(spans)
    assert trace.run.notes == []


def test_a_slot_that_somebody_else_took_meanwhile_stays_theirs(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    util = sys.modules["jax._src.util"]
    monkeypatch.setattr(util, "test_event_listener", None)
    heard: list[str] = []

    def run() -> None:
        ours = util.test_event_listener

        def theirs(name: str, *args: Any) -> None:
            heard.append(name)
            ours(name, *args)

        util.test_event_listener = theirs
        jax.jit(lambda x: x + 1)(np.ones(3))

    trace = record(run)
    heard.clear()
    jax.jit(lambda x: x + 1)(np.ones(3))
    assert "trace_to_jaxpr" in heard
    assert any("test events" in note for note in trace.run.notes)


def test_listeners_that_somebody_cleared_are_no_error(record: Record) -> None:
    before = hooks()

    def run() -> None:
        jax.monitoring.clear_event_listeners()
        jax.jit(lambda x: x + 1)(np.ones(3))

    try:
        trace = record(run)
    finally:
        for listener in before[0]:
            jax.monitoring.register_event_listener(listener)
        for listener in before[1]:
            jax.monitoring.register_event_duration_secs_listener(listener)
        for listener in before[2]:
            jax.monitoring.register_event_time_span_listener(listener)
    assert hooks() == before
    assert trace.collectors[0].state != "failed"


def test_nothing_of_the_users_is_kept_alive(record: Record) -> None:
    class Model:
        def step(self, config: Any, batch: Any) -> Any:
            return batch["x"] * 2

    def compile_some() -> None:
        constant = jnp.ones(1000)

        def captures(x: Any) -> Any:
            return x + constant.sum()

        step = jax.jit(captures)
        step(np.ones(3))
        step.lower(np.ones(4)).compile()
        jax.eval_shape(captures, np.ones(5))
        model = Model()
        jax.jit(model.step, static_argnums=0)(model, {"x": np.ones(3)})
        kept.extend(map(weakref.ref, (captures, constant, model)))

    def run() -> None:
        compile_some()
        jax.clear_caches()
        gc.collect()
        alive.extend(ref() is not None for ref in kept)

    kept: list[weakref.ref[Any]] = []
    alive: list[bool] = []
    record(run)
    assert alive == [False, False, False]


def test_what_a_program_needs_is_told_and_the_program_is_not_held_for_it(record: Record) -> None:
    def programs() -> int:
        jax.clear_caches()
        gc.collect()
        return len(jax.devices()[0].client.live_executables())

    def run() -> None:
        held.append(programs())
        with coldstep.step():
            jax.jit(lambda x: jnp.tanh(x @ x) @ x)(np.ones((64, 64), np.float32))
            jax.jit(lambda x: jnp.tanh(x @ x) @ x, donate_argnums=0)(np.ones((64, 64), np.float32))
        held.append(programs())

    held: list[int] = []
    kept, donated = (row.memory for row in record(run).compiles if row.origin == "user")
    assert kept is not None
    assert (kept.argument_bytes, kept.output_bytes, kept.reused_bytes) == (16384, 16384, 0)
    assert kept.temp_bytes is not None
    assert kept.whole_bytes == 2 * 16384 + kept.temp_bytes
    assert donated is not None
    assert (donated.argument_bytes, donated.output_bytes, donated.reused_bytes) == (16384, 16384, 16384)
    assert donated.whole_bytes == 16384 + (donated.temp_bytes or 0)
    assert held[0] == held[1]


def compile_for_four_causes() -> None:
    """Another shape, another static argument, a donated argument, another mode: each in a step of its own."""

    def scale(x: Any, n: int) -> Any:
        return x * n

    plain = jax.jit(scale, static_argnums=1)
    for step, size, n in ((plain, 37, 2), (plain, 38, 2), (plain, 38, 3), (donating(scale), 38, 3)):
        with coldstep.step():
            step(np.ones(size, np.float32), n)
    with coldstep.step(), jax.default_matmul_precision("highest"):
        plain(np.ones(38, np.float32), 3)


def donating(function: Any) -> Any:
    return jax.jit(function, static_argnums=1, donate_argnums=0)


FOUR_CAUSES = ["shape", "static_argument", "donation", "config"]


def take_away(monkeypatch: pytest.MonkeyPatch, fact: str) -> None:
    """Make the names by which a fact is seen such as no JAX has."""
    from coldstep_collectors.jax._private import names as jax_names

    monkeypatch.setattr(jax_names, "RUNS", ("_of_another_version",) if fact == "dispatch" else ())
    for module in ("PJIT", "PXLA"):
        readings = [
            dataclasses.replace(reading, forms=(jax_names.Locals("_of_another_version", ("fun",)),))
            if reading.fact == fact
            else reading
            for reading in getattr(jax_names, module)
        ]
        monkeypatch.setattr(jax_names, module, tuple(readings))
    if fact in jax_names.OPTIONS:
        monkeypatch.setitem(jax_names.OPTIONS, fact, ("of_another_version",))
    if fact == "config":
        monkeypatch.setattr(jax_names, "CONTEXT", ())
        monkeypatch.setattr("jax._src.config.trace_context_names", None)


@pytest.mark.parametrize(
    ("fact", "words", "hidden"),
    [
        ("arguments", "the arguments that a program is compiled for", "all"),
        ("static", "which arguments are static", "static_argument"),
        ("donated", "which arguments are donated", "donation"),
        ("config", "the configuration that a program is compiled under", "config"),
        ("shardings", "the shardings that are given to jit", None),
        ("options", "the backend that is given to jit, and keep_unused", None),
        ("lowering", "the lowered program, and the results of a program", None),
        ("jaxpr", "which trace() a lower() belongs to", None),
        ("module", "which lower() a compile() belongs to", None),
        ("program", "the devices of a program, and its compiler options", None),
        ("executable", "XLA's own text of a program, its memory, and what it returns", None),
        ("dispatch", "which phases belong to one compile", None),
    ],
)
def test_a_jax_without_some_of_the_names_hides_what_they_tell_and_nothing_else(
    record: Record, monkeypatch: pytest.MonkeyPatch, fact: str, words: str, hidden: str | None
) -> None:
    take_away(monkeypatch, fact)
    trace = record(compile_for_four_causes)
    (collector,) = trace.collectors
    assert words in collector.missing
    # where no signature has its arguments, none is compared at all
    causes = ["unknown" if hidden in (cause, "all") else cause for cause in FOUR_CAUSES]
    assert [recompile.cause for recompile in trace.recompiles] == causes
    assert [row.origin for row in of(trace, "scale") if row.outcome == "compiled"] == ["user"] * 5


def test_a_function_that_cannot_be_seen_is_nobodys(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "function")
    take_away(monkeypatch, "names")
    take_away(monkeypatch, "lowering")
    events: list[Any] = []
    emit = Buffers.emit
    monkeypatch.setattr(Buffers, "emit", lambda buffers, event: (events.append(event), emit(buffers, event)))
    trace = record(compile_for_four_causes)
    (collector,) = trace.collectors
    assert "which function a program is compiled for" in collector.missing
    rows = [row for row in of(trace, "scale") if row.outcome == "compiled"]
    assert [trace.intervals[row.segments[0].interval].step for row in rows] == [0, 1, 2, 3, 4]
    assert all(phases(row) >= {"jax.lower", "xla.compile"} for row in rows)
    begun = [event.args for event in events if isinstance(event, Begin) and event.compile is not None]
    assert {args["origin"] for args in begun if args["function"] == "scale"} == {None}
    assert trace.recompiles == []  # what cannot be told apart is not called the same


def test_a_jax_that_does_not_name_its_configuration_is_asked_by_the_names_of_others(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jax._src.config.trace_context_names", None)
    trace = record(compile_for_four_causes)
    assert [recompile.cause for recompile in trace.recompiles] == FOUR_CAUSES


def test_phases_are_seen_where_monitoring_does_not_tell_when_they_begin(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jax._src import dispatch

    measure = dispatch.log_elapsed_time
    monkeypatch.delattr(jax.monitoring, "register_scalar_listener")
    trace = record(compile_for_four_causes)
    assert [recompile.cause for recompile in trace.recompiles] == FOUR_CAUSES
    assert phases(of(trace, "scale")[0]) == PHASES
    assert dispatch.log_elapsed_time is measure


def test_the_tracing_of_a_function_within_another_is_no_program(record: Record) -> None:
    event = "/jax/core/compile/jaxpr_trace_duration"

    def model(x: Any) -> Any:
        # what JAX told until 0.9 of a jitted function that is called here
        jax.monitoring.record_scalar(event, 0.0, fun_name="inner")
        jax.monitoring.record_event_time_span(event, 0.0, 1.0, fun_name="inner")
        return x * 2

    trace = record(lambda: jax.jit(model)(np.ones(51)))
    (row,) = of(trace, "model")
    assert (row.outcome, phases(row)) == ("compiled", PHASES)
    assert of(trace, "inner") == []


def test_nothing_is_said_of_a_cache_that_is_not_seen(
    record: Record, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(jax.monitoring, "register_event_listener")
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        trace = record(lambda: jax.jit(lambda x: x * 5)(np.ones(53)))
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
    assert "whether the persistent cache was hit" in trace.collectors[0].missing[0]
    assert [row.caches for row in of(trace, "<lambda>")] == [[]]


def test_fields_of_a_dataclass_without_slots_are_found() -> None:
    from coldstep_collectors.names import has_fields

    @dataclasses.dataclass
    class MetaTy:
        aval: Any
        committed: bool

    assert has_fields(MetaTy, ("aval", "committed"))
    assert not has_fields(MetaTy, ("aval", "sharding"))


# --- processes ----------------------------------------------------------------------------------------------------


def test_late_means_that_something_had_compiled(tmp_path: Path) -> None:
    program.run(
        """
        import coldstep

        with coldstep.trace("absent.pftrace", collectors="jax"):
            pass
        with coldstep.trace("attached.pftrace", collectors="jax"):
            import jax
            jax.devices()
        with coldstep.trace("merely_imported.pftrace", collectors="jax"):
            jax.jit(lambda x: x + 1)(1.0)
        with coldstep.trace("late.pftrace", collectors="jax"):
            pass
        """,
        tmp_path,
    )
    traces = {path.stem: coldstep.load(path) for path in tmp_path.glob("*.pftrace")}
    assert {name: trace.collectors[0].state for name, trace in traces.items()} == {
        "absent": "absent",
        "attached": "attached",
        "merely_imported": "attached",
        "late": "late",
    }
    assert traces["attached"].collectors[0].version == jax.__version__
    assert traces["attached"].intervals[0].phases["jax.backend_init"] > 0
    assert "jax.backend_init" not in traces["merely_imported"].intervals[0].phases


def test_loading_the_plugin_of_a_device_is_a_part_of_its_start(tmp_path: Path) -> None:
    plugin = tmp_path / "jax_plugins" / "slow" / "__init__.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("import time\n\ndef initialize():\n    time.sleep(0.5)\n")
    source = """
        import coldstep

        with coldstep.trace("run.pftrace", collectors="jax"):
            import jax
            jax.devices()
    """
    program.run(source, tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert coldstep.load(tmp_path / "run.pftrace").intervals[0].phases["jax.backend_init"] >= 500_000_000


def test_the_persistent_cache_misses_then_hits(tmp_path: Path) -> None:
    source = """
        import os
        import sys
        import coldstep

        filled = os.path.isdir("cache")
        with coldstep.trace(sys.argv[1] if len(sys.argv) > 1 else "run.pftrace", collectors="jax"):
            import jax
            jax.config.update("jax_compilation_cache_dir", "cache")
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

            @jax.jit
            def train_step(x):
                return (x @ x.T).sum()

            train_step(jax.numpy.ones((4, 4)))
            if filled:
                jax.jit(lambda x: (x * 2).sum())(jax.numpy.ones((4, 4)))
    """
    seen = []
    for _ in range(2):
        program.run(source, tmp_path, stack="jax")
        (row,) = of(coldstep.load(tmp_path / "run.pftrace"), "train_step")
        (cache,) = row.caches
        seen.append((row.outcome, cache.layer, cache.state, cache.saved_ns is not None))
    assert seen == [
        ("compiled", "xla.persistent", "miss", False),
        ("cache_hit", "xla.persistent", "hit", True),
    ]
    (missed,) = [row for row in coldstep.load(tmp_path / "run.pftrace").findings if row.kind == "cache_miss"]
    assert missed.text.startswith("<lambda> compiled anew although a disk cache was on, and filled")


# --- a program that takes our hooks away ----------------------------------------------------------------------------


@pytest.mark.parametrize("begins_too", [False, True])
def test_a_program_that_clears_jaxs_listeners_is_watched_again_and_the_gap_is_reported(
    record: Record, begins_too: bool
) -> None:
    monitoring = sys.modules["jax._src.monitoring"]
    listeners = [getattr(monitoring, name) for name in LISTENERS]

    def run() -> None:
        step, other = jax.jit(lambda x: x * 2), jax.jit(lambda x: x * 3)
        for n in range(6):
            if n == 3:
                jax.monitoring.clear_event_listeners()
                if begins_too:  # as it will, once JAX clears all kinds
                    monitoring._scalar_listeners = []
            with coldstep.step():
                size = np.ones(7 if n < 4 else 8 + n)
                coldstep.wait((step(size), other(size)))

    try:
        trace = record(run)
    finally:
        for name, known in zip(LISTENERS, listeners, strict=True):
            setattr(monitoring, name, known)
    assert [(row.cause, row.step) for row in trace.recompiles] == [("shape", 4)] * 2 + [("shape", 5)] * 2
    assert {(row.outcome, row.parent) for row in of(trace, "<lambda>")} == {("compiled", None)}
    (note,) = [text for text in trace.run.notes if "jax.monitoring" in text]
    assert "clear_event_listeners" in note
    assert "coldstep listens again" in note


LISTENERS = [f"_{kind}_listeners" for kind in ("event", "event_duration_secs", "event_time_span", "scalar")]


def test_a_compile_whose_end_was_never_seen_is_no_recompile(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jax, "_listen_again", lambda *_: None, raising=False)
    monitoring = sys.modules["jax._src.monitoring"]
    listeners = [getattr(monitoring, name) for name in LISTENERS]

    def run() -> None:
        step = jax.jit(lambda x: x * 2)
        step(np.ones(21))
        jax.monitoring.clear_event_listeners()
        for size in (22, 23):
            step(np.ones(size))

    try:
        trace = record(run)
    finally:
        for name, known in zip(LISTENERS, listeners, strict=True):
            setattr(monitoring, name, known)
    ended, *lost = of(trace, "<lambda>")
    assert (ended.outcome, {row.outcome for row in lost}) == ("compiled", {"in_progress"})
    assert trace.recompiles == []


# --- what the advice leads to --------------------------------------------------------------------------------------


def test_the_advice_for_a_static_number_and_for_a_closure_cures_and_ends_in_no_error(record: Record) -> None:
    def run() -> None:
        power = jax.jit(lambda x, n: x * n, static_argnums=1)
        for n in (2, 3):
            power(np.ones(31), n)
        for rate in (0.1, 0.2):
            jax.jit(lambda x, rate=rate: x * rate)(np.ones(32))

    static, closure = record(run).recompiles
    assert (static.cause, closure.cause) == ("static_argument", "closure")
    assert static.advice.startswith("Take n off static_argnums")
    assert "argument" in closure.advice
    assert "jit the function once, outside the loop" in closure.advice

    def follow() -> None:
        power = jax.jit(lambda x, n: x * n)
        for n in (2, 3):
            power(np.ones(31), n)
        scaled = jax.jit(lambda x, rate: x * rate)
        for rate in (0.1, 0.2):
            scaled(np.ones(32), rate)

    assert record(follow).recompiles == []


def test_the_advice_for_a_keyword_and_a_sharding_is_what_cures(record: Record) -> None:
    def run() -> None:
        step = jax.jit(lambda w, x: w * x)
        step(np.ones(33), np.ones(33))
        step(np.ones(33), x=np.ones(33))

    trace = record(run)
    (keyword,) = trace.recompiles
    assert keyword.advice == "Pass x in every call or in none, and always by position or always by keyword."
    spread = "f32[8,4] @P('d')/mesh(d=2) committed"
    row = dataclasses.replace(keyword, cause="sharding", pattern="fed_back_output", argument="w", after=spread)
    advised = advice(advise(trace, "jax", row))
    assert "out_shardings" not in advised
    assert spread in advised


def test_large_arrays_that_a_function_read_from_outside_are_constants_of_its_program(record: Record) -> None:
    table, small = jnp.ones((512, 1024)), jnp.ones(8)

    def run() -> None:
        jax.jit(lambda x: table.sum() + small.sum() + x)(1.0)
        jax.jit(lambda x, table: table.sum() + x)(1.0, table)

    trace = record(run)
    [found] = [row for row in trace.findings if row.kind == "captured_constants"]
    assert "holds 2.0 MiB of constants: f32[512,1024]" in found.text
    assert found.id in [row.finding for row in trace.answers]


def test_what_each_call_pays_is_answered_before_what_a_cache_does_not_keep(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    table = jnp.ones((512, 1024))

    def long(x: jax.Array) -> jax.Array:
        q, r = jnp.linalg.qr(x)  # which takes more than 100 ms to compile
        return jnp.linalg.eigh(q @ r)[0].sum() + jnp.linalg.inv(x).sum() + jnp.linalg.svd(x)[1].sum() + table.sum()

    before = jax.config.jax_compilation_cache_dir
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000.0)
    try:
        trace = record(lambda: jax.jit(long, compiler_options={"xla_backend_optimization_level": 3})(jnp.ones((8, 8))))
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        compilation_cache.reset_cache()
    kinds = {row.id: row.kind for row in trace.findings}
    assert {"cache_miss", "captured_constants"} <= {*kinds.values()}
    assert "captured_constants" in [kinds[row.finding] for row in trace.answers]


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        (lambda x: x[x > 0], "jnp.where(mask"),
        (lambda x: x if x.sum() > 0 else -x, "jax.lax.cond"),
        (lambda x: jnp.zeros(x.sum().astype(int)), "static_argnames"),
        (lambda x: np.sum(np.asarray(x)), "jax.numpy"),
        (lambda x: list(range(x.argmax())), "static_argnames"),
    ],
)
def test_what_cannot_be_traced_is_answered_with_its_line_and_what_to_write(
    body: Callable[[object], object], instead: str, tmp_path: Path
) -> None:
    with pytest.raises((TypeError, IndexError)), coldstep.trace(tmp_path / "run.pftrace", collectors="jax"):
        jax.jit(body)(np.arange(7.0))
    trace = coldstep.load(tmp_path / "run.pftrace")
    [answer] = trace.answers
    [finding] = [row for row in trace.findings if row.id == answer.finding]
    assert finding.kind == "failed_compile"
    assert instead in finding.advice
    assert answer.location is not None
    assert answer.location.function == "<lambda>"
