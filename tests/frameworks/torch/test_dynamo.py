"""What a trace tells of torch.compile: each frame's compile, its inputs, its recompiles, and its graph breaks."""

from __future__ import annotations

import contextlib
import gc
import inspect
import logging
import sys
import textwrap
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import program
import pytest

import coldstep
from coldstep.model import Compile, Trace
from coldstep_collectors.torch._private import artifacts, frames
from coldstep_viewers.report.answers import head
from coldstep_viewers.report.sentences import variant

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")]

HERE = "tests/frameworks/torch/test_dynamo.py"
COLLECTORS = ["dynamo", "inductor"]
Compiled = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    import torch._dynamo

    torch._dynamo.reset()
    yield tmp_path / "t.pftrace"
    torch._dynamo.reset()


def eager(function: Any, **options: Any) -> Compiled:
    compiled: Compiled = torch.compile(function, **{"backend": "eager"} | options)
    return compiled


@contextlib.contextmanager
def without_pytest() -> Iterator[None]:
    """pytest listens to every logger that does not propagate, which makes torch render its whole structured trace."""
    log = logging.getLogger("torch.__trace")
    handlers, log.handlers = log.handlers, []
    yield
    log.handlers = handlers


def traced(path: Path, body: Callable[[], object]) -> Trace:
    with without_pytest(), coldstep.trace(path, collectors=COLLECTORS):
        body()
    trace = coldstep.load(path)
    assert {row.name: row.missing for row in trace.collectors} == {name: [] for name in COLLECTORS}
    assert trace.run.notes == []
    return trace


def inputs(compile_: Compile) -> dict[str, str]:
    return {row.argument: row.type for row in compile_.inputs}


def parts(compile_: Compile) -> list[str]:
    return [segment.part for segment in compile_.segments]


def line_of(marker: str) -> int:
    [line] = [n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith(f"# {marker}")]
    return line


def by_mode(x: Any, mode: str) -> Any:
    if mode == "none":
        return x
    return x + 1 if mode == "a" else x + 2


# --- recompiles and their inputs ------------------------------------------------------------------------------


def step_on(batch: dict[str, Any], scale: float = 2.0) -> Any:  # line of step_on
    return (batch["tokens"] * scale).sum() + batch["weights"][0].sum()


def test_a_smaller_batch_is_a_recompile_of_one_identity_whose_one_argument_differs(path: Path) -> None:
    def body() -> None:
        compiled = eager(step_on)
        for n in (8, 8, 5):
            with coldstep.step():
                compiled({"tokens": torch.ones(n, 4), "weights": [torch.ones(3)]})  # calls step_on

    trace = traced(path, body)
    first, second = trace.compiles
    assert inputs(first) == {"batch['tokens']": "f32[8,4]", "batch['weights'][0]": "f32[3]", "scale": "2.0"}
    assert inputs(second) == inputs(first) | {"batch['tokens']": "f32[5,4]"}
    assert (first.reason, second.reason) == ("first", "recompile")
    assert (second.variant.n, second.variant.limit) == (2, torch._dynamo.config.recompile_limit)
    [recompile] = trace.recompiles
    assert (recompile.step, recompile.cause, recompile.argument) == (2, "shape", "batch['tokens']")
    assert (recompile.before, recompile.after, recompile.confidence) == ("f32[8,4]", "f32[5,4]", "proven")
    assert recompile.evidence[0].startswith("0/0: tensor 'batch['tokens']' size mismatch at index 0")


NEEDS_ISOLATION = pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters, reason="PyTorch 2.13 isolates compiles"
)


@NEEDS_ISOLATION
def test_what_is_isolated_replaces_only_what_the_same_torch_compile_made(path: Path) -> None:
    def scale(x: Any) -> Any:
        return x * 2

    def body() -> None:
        shared = eager(scale, dynamic=False)
        one, other = (eager(scale, dynamic=False, isolate_recompiles=True, recompile_limit=2) for _ in range(2))
        for call, sizes in ((one, (2, 3)), (other, (4,)), (one, (5,)), (other, (6,)), (shared, (7, 8))):
            for n in sizes:
                call(torch.ones(n))

    trace = traced(path, body)
    assert [(row.before, row.after) for row in trace.recompiles] == [
        ("f32[2]", "f32[3]"), ("f32[4]", "f32[6]"), ("f32[7]", "f32[8]"),
    ]  # fmt: skip
    made = [(row.reason, row.variant.n, row.outcome) for row in trace.compiles]
    assert [row for row in made if row[2] == "compiled"] == [
        ("first", 1, "compiled"), ("recompile", 2, "compiled"), ("first", 1, "compiled"),
        ("recompile", 2, "compiled"), ("first", 1, "compiled"), ("recompile", 2, "compiled"),
    ]  # fmt: skip
    [limit] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert "2 variants (x was f32[2] → f32[3])" in limit.text


@NEEDS_ISOLATION
def test_a_name_that_was_given_to_a_compile_is_in_its_title(path: Path) -> None:
    def body() -> None:
        torch.compile(lambda x: x @ x, name="encoder")(torch.ones(2, 2))  # no C++ to be compiled

    [row] = traced(path, body).compiles
    assert row.function.endswith("<lambda>, named encoder")


def test_another_dtype_is_a_recompile_by_dtype(path: Path) -> None:
    def body() -> None:
        compiled = eager(lambda x, y: x + y)
        compiled(torch.ones(4), torch.ones(4))
        compiled(torch.ones(4), torch.ones(4, dtype=torch.bfloat16))

    [recompile] = traced(path, body).recompiles
    assert (recompile.cause, recompile.argument) == ("dtype", "y")
    assert (recompile.before, recompile.after) == ("f32[4]", "bf16[4]")


def test_where_a_compile_is_defined_and_called_from(path: Path) -> None:
    trace = traced(path, lambda: eager(step_on)({"tokens": torch.ones(2), "weights": [torch.ones(1)]}))
    [compile_] = trace.compiles
    assert (compile_.function, compile_.origin, compile_.outcome) == ("step_on", "user", "compiled")
    assert compile_.location is not None
    assert (compile_.location.file, compile_.location.line) == (
        HERE,
        line_of("line of step_on"),
    )
    assert compile_.caller is not None
    assert compile_.caller.file == HERE
    assert compile_.key == "dynamo:tests/frameworks/torch/test_dynamo.py:step_on"


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(net, tokens: Any, *, flag: bool | None = None) -> Any:  # not everybody says self
        return torch.nn.functional.dropout(net.linear(tokens), training=net.training)


def test_functions_have_the_names_that_their_user_knows(path: Path) -> None:
    x = torch.ones(2, 3)

    def local(x: Any) -> Any:
        return x - 1

    def body() -> None:
        with torch.no_grad():
            for function in (Net(), lambda x: x + 1, local, torch.nn.Sequential(torch.nn.Linear(3, 3))):
                eager(function)(x)
            eager(partial(step_on))({"tokens": x, "weights": [x]})

    trace = traced(path, body)
    assert [(row.function, row.origin) for row in trace.compiles] == [
        ("Net.forward", "user"),
        ("<lambda>", "user"),
        ("local", "user"),
        ("Sequential.forward", "user"),
        ("step_on", "user"),
    ]
    assert [inputs(row) for row in trace.compiles][3] == {"input": "f32[2,3]"}
    assert list(inputs(trace.compiles[4])) == ["batch['tokens']", "batch['weights'][0]"]


def test_two_modules_of_one_class_are_two_things_and_train_and_eval_are_variants_of_one(path: Path) -> None:
    first, second = Net(), Net().double()

    def body() -> None:
        eager(first)(torch.ones(2, 3))
        eager(second)(torch.ones(2, 3).double())
        eager(first.eval())(torch.ones(2, 3))

    trace = traced(path, body)
    assert [row.reason for row in trace.compiles] == ["first", "first", "recompile"]
    [recompile] = trace.recompiles
    assert recompile.previous == trace.compiles[0].id
    assert [(c.mechanism, c.before, c.after) for c in recompile.changes] == [("training_mode", "on", "off")]
    assert any("training == True" in words for words in recompile.evidence)


def test_modes_are_part_of_the_signature(path: Path) -> None:
    def body() -> None:
        compiled = eager(lambda x: x * 2)
        compiled(torch.ones(2))
        with torch.no_grad():
            compiled(torch.ones(2))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            compiled(torch.ones(2))

    trace = traced(path, body)
    contexts = [trace.details[row.id].signature.context for row in trace.compiles]
    assert [(context["grad_mode"], context.get("autocast(cpu)")) for context in contexts] == [
        ("on", None),
        ("off", None),
        ("on", "bf16"),
    ]
    assert {context["config default_dtype"] for context in contexts} == {"torch.float32"}


class Touchy:
    """An argument that must be left alone."""

    def __repr__(self) -> str:
        raise AssertionError("repr() of the user's object")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("comparison of the user's object")

    __hash__ = object.__hash__


def test_types_are_abstract_values_and_no_code_of_the_users_runs_for_them(path: Path) -> None:
    y = 1.5

    def many(a: Any, *rest: Any, option: Any = None, **more: Any) -> Any:
        return a + more["t"].sum() + y

    def body() -> None:
        with coldstep.trace(path, collectors=COLLECTORS):
            a, transposed = torch.ones(2, requires_grad=True), torch.ones(3, 2).t()
            lazy = torch.nn.parameter.UninitializedParameter()  # which raises when asked for its shape
            eager(many)(a, 3, "s" * 1000, [Touchy(), lazy], (), t=transposed, e=torch.ones(0, 1))

    body()
    [compile_] = coldstep.load(path).compiles
    found = inputs(compile_)
    assert len(found.pop("rest[1]")) == 200
    assert found == {
        "a": "f32[2] requires_grad",
        "option": "None",
        "rest[0]": "3",
        "rest[2][0]": "Touchy",
        "rest[2][1]": "UninitializedParameter",
        "t": "f32[2,3] stride(1,2)",
        "e": "f32[0,1]",
    }
    context = coldstep.load(path).details[compile_.id].signature.context
    assert context["closure y"] == "1.5"
    assert context["tree rest"] == "tuple of 4"


def test_nothing_of_the_users_is_kept_alive(path: Path) -> None:
    def body() -> list[weakref.ref[Any]]:
        module, x = Net(), torch.ones(2, 3)
        eager(module)(x)
        return [weakref.ref(module), weakref.ref(x)]

    with coldstep.trace(path, collectors=COLLECTORS):
        kept = body()
        torch._dynamo.reset()
        gc.collect()
        assert [ref() for ref in kept] == [None, None]
    assert len(coldstep.load(path).compiles) == 1


class Wary:
    """An object whose attributes a guard looks at, and which must not notice that we look, too."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"__getattr__({name})")

    @property
    def twice(self) -> Any:
        if not torch.compiler.is_compiling() and any("coldstep" in str(f.f_globals["__name__"]) for f in callers()):
            raise AssertionError("a property of the user's object")
        return self.number * 2

    __repr__ = __eq__ = __hash__ = None  # type: ignore[assignment]


def callers() -> Iterator[Any]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def test_values_where_guards_look_are_told_and_no_code_of_the_users_runs_for_them(path: Path) -> None:
    def body() -> None:
        compiled = eager(lambda x, thing: x * thing.number + thing.twice)
        for number in (1.5, 2.5):
            compiled(torch.ones(2), Wary(number))

    [recompile] = traced(path, body).recompiles
    assert (recompile.cause, recompile.argument, recompile.confidence) == ("module_attribute", "thing.number", "proven")
    assert (recompile.before, recompile.after) == ("1.5", "2.5")


def test_a_captured_variable_is_no_argument(path: Path) -> None:
    def made(scale: float, weight: Any) -> Compiled:
        def scaled(x: Any) -> Any:
            return x * scale + weight

        return eager(scaled)

    def body() -> None:
        made(2.0, torch.ones(2))(torch.ones(2))
        made(3.0, torch.ones(2))(torch.ones(2))

    trace = traced(path, body)
    assert [inputs(row) for row in trace.compiles] == 2 * [{"x": "f32[2]"}]
    assert trace.details[trace.compiles[0].id].signature.context["closure weight"] == "f32[2]"
    [recompile] = trace.recompiles
    assert (recompile.cause, recompile.argument) == ("closure", "scale")
    assert (recompile.before, recompile.after) == ("2.0", "3.0")


def test_a_compiled_optimizer_is_the_users_though_its_code_is_not(path: Path) -> None:
    def body() -> None:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        compiled = eager(optimizer.step)
        for _ in range(3):
            weight.grad = torch.ones(2)
            compiled()  # the optimizer breaks the graph

    trace = traced(path, body)
    assert {row.origin for row in trace.compiles} == {"user"}
    [recompile] = trace.recompiles
    assert (recompile.cause, recompile.argument) == ("optimizer_state", "optimizer.state")
    assert (recompile.before, recompile.after) == ("{}", "{'momentum_buffer'}")
    [graph_break] = trace.graph_breaks
    assert graph_break.location is not None
    assert graph_break.location.line == line_of("the optimizer breaks the graph")
    [finding] = [row for row in trace.findings if row.kind == "graph_break"]
    assert "of tracing up to it were thrown away" in finding.evidence[-1]
    assert "torch.optim breaks the graph itself" in finding.advice


def test_after_a_reset_all_is_compiled_again_because_of_it(path: Path) -> None:
    def body() -> None:
        for _ in range(2):
            eager(step_on)({"tokens": torch.ones(2), "weights": [torch.ones(1)]})
            eager(lambda x: x + 1)(torch.ones(2))
            torch._dynamo.reset()

    trace = traced(path, body)
    assert [(row.function, row.reason) for row in trace.compiles] == [
        (function, reason) for reason in ("first", "recompile") for function in ("step_on", "<lambda>")
    ]
    assert [row.cause for row in trace.recompiles] == 2 * ["cache_cleared"]
    assert [trace.details[row.id].framework_id for row in trace.compiles] == ["0/0", "1/0", "0/0", "1/0"]


def test_after_a_reset_variants_are_counted_anew(path: Path) -> None:
    def body() -> None:
        for modes in ("abc", "ab"):
            compiled = eager(by_mode)
            for mode in modes:
                compiled(torch.ones(2), mode)
            if modes == "abc":
                torch._dynamo.reset()
        compiled(torch.ones(2), "none")  # nothing to compile

    trace = traced(path, body)
    limit = torch._dynamo.config.recompile_limit
    assert [variant(trace, row) for row in trace.compiles[:5]] == [f"{n} of {limit} allowed" for n in (1, 2, 3, 1, 2)]
    [finding] = [row for row in trace.findings if row.kind == "skipped_forever"]
    assert "its 2 compiled variants included" in finding.text


# --- outcomes -------------------------------------------------------------------------------------------------


def test_what_used_up_the_variants_comes_first_and_not_what_was_dearest(path: Path) -> None:
    def slow_for_two_dimensions(gm: Any, inputs: Any) -> Any:
        time.sleep(0.5 if any(getattr(each, "ndim", 0) == 2 for each in inputs) else 0)
        return gm.forward

    def body() -> None:
        compiled = eager(lambda x, mode: x + 1 if mode == "a" else x + 2, backend=slow_for_two_dimensions)
        with torch._dynamo.config.patch(recompile_limit=4):
            for x, mode in ((torch.ones(2), "a"), (torch.ones(2, 2), "a"), *((torch.ones(2), each) for each in "bcd")):
                compiled(x, mode)

    [finding] = [row for row in traced(path, body).findings if row.kind == "cache_limit"]
    assert " reached its limit of 4 variants (mode was 'a' → … → 'c'; also x): no more are compiled" in finding.text


def test_too_many_variants_reach_the_limit(path: Path) -> None:
    def body() -> None:
        compiled = eager(lambda x, mode: x + 1 if mode == "a" else x + 2)
        with torch._dynamo.config.patch(recompile_limit=2):
            for mode in "abcde":
                compiled(torch.ones(2), mode)

    trace = traced(path, body)
    assert [(row.outcome, inputs(row)["mode"]) for row in trace.compiles] == [
        ("compiled", "'a'"),
        ("compiled", "'b'"),
        ("limit", "'c'"),
    ]
    assert trace.compiles[2].variant.limit == 2
    assert trace.details[trace.compiles[2].id].error.startswith("Dynamo recompile limit exceeded")
    assert [text[:3] for text in trace.details[trace.compiles[2].id].guard_failures] == ["0/1", "0/0"]
    [finding] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert " reached its limit of 2 variants (mode was 'a' → 'b'): no more are compiled" in finding.text
    assert finding.text.endswith("and from here on calls that fit none of them run eagerly")


def test_a_limit_reached_by_two_arguments_has_the_advice_for_each(path: Path) -> None:
    def body() -> None:
        compiled = torch.compile(lambda x, scale: x.sum() * scale, backend="eager", dynamic=False)
        with torch._dynamo.config.patch(recompile_limit=4):
            for n in range(6):
                compiled(torch.ones(2 + n % 2), 1.5 + n // 2)

    trace = traced(path, body)
    [finding] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert "For x: " in finding.advice
    assert "For scale: " in finding.advice
    change = head(trace).entries[0].change
    assert change[-1] == "Each of these causes compiles it again by itself: make the change for each."


def test_classes_that_inherit_one_forward_are_each_given_one(path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scaled(x) + 1

    def body() -> None:
        for factor in (2, 3, 4):
            made = type(f"Scaled{factor}", (Scaled,), {"scaled": lambda _, x, factor=factor: x * factor})
            eager(made())(torch.ones(2))

    trace = traced(path, body)
    [finding] = [row for row in trace.findings if row.kind == "repeat_offender"]
    assert "self was Scaled2 → Scaled3 → Scaled4" in finding.text
    assert "give each class a forward() of its own" in finding.advice


def test_at_the_limit_a_function_that_must_be_one_graph_fails(path: Path) -> None:
    def body() -> None:
        compiled = eager(by_mode, fullgraph=True)
        with torch._dynamo.config.patch(recompile_limit=3):
            for mode in "abcde":
                with contextlib.suppress(torch._dynamo.exc.FailOnRecompileLimitHit), coldstep.step():
                    compiled(torch.ones(2), mode)
        for _ in range(3):
            with coldstep.step():
                compiled(torch.ones(2), "a")

    trace = traced(path, body)
    said = {row.kind: row.text for row in trace.findings}
    assert said["cache_limit"].endswith("and from here on calls that fit none of them fail, since fullgraph=True")
    assert "silent_eager" not in said


def test_what_may_not_break_fails_and_is_no_graph_break(path: Path) -> None:
    def body() -> None:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            eager(prints, fullgraph=True)(torch.ones(2))

    trace = traced(path, body)
    [compile_] = trace.compiles
    assert compile_.outcome == "failed"
    assert "print" in trace.details[compile_.id].error
    assert trace.graph_breaks == []


def test_errors_of_a_backend_and_of_the_users_own_go_on_unchanged(path: Path) -> None:
    def backend(graph: Any, example_inputs: Any) -> Any:
        raise ZeroDivisionError("the backend's own")

    def wrong(x: Any) -> Any:
        raise KeyError("the user's own")

    def body() -> None:
        with pytest.raises(Exception, match="the backend's own"):
            eager(step_on, backend=backend)({"tokens": torch.ones(2), "weights": [torch.ones(1)]})
        with pytest.raises(KeyError, match="the user's own"):
            eager(wrong)(torch.ones(2))
        try:
            raise ValueError("handled while something compiles")
        except ValueError:
            eager(lambda x: x + 1)(torch.ones(2))

    trace = traced(path, body)
    assert [row.outcome for row in trace.compiles] == ["failed", "skipped", "compiled"]
    assert "the backend's own" in trace.details[trace.compiles[0].id].error


def test_a_graph_without_operations_is_skipped(path: Path) -> None:
    assert [row.outcome for row in traced(path, lambda: eager(lambda x: x)(torch.ones(2))).compiles] == ["skipped"]


# --- backward, nested compiles, threads -----------------------------------------------------------------------


def test_a_lazy_backward_is_a_segment_of_its_forwards_compile_in_the_step_that_paid(path: Path) -> None:
    def body() -> None:
        compiled = eager(Net(), backend="aot_eager")
        with coldstep.step("forward"):
            loss = compiled(torch.ones(2, 3)).sum()
        torch._dynamo.reset()  # what is compiled next has the same id
        with coldstep.step("other"):
            eager(lambda x: x + 1)(torch.ones(2))
        with coldstep.step("backward"):
            loss.backward()

    trace = traced(path, body)
    net, other = trace.compiles
    names = {interval.index: interval.name for interval in trace.intervals}
    assert [(segment.part, names[segment.interval]) for segment in net.segments] == [
        ("forward", "forward"),
        ("backward", "backward"),
    ]
    assert parts(other) == ["forward"]
    assert "aot.joint" in net.segments[0].phases
    assert "aot.backward" in net.segments[1].phases


def test_a_compile_inside_a_backend_has_a_parent(path: Path) -> None:
    def backend(graph: Any, example_inputs: Any) -> Any:
        eager(inner)(torch.ones(2))
        return graph

    def inner(x: Any) -> Any:
        return x * 3

    trace = traced(path, lambda: eager(lambda x: x + 1, backend=backend)(torch.ones(2)))
    outer, nested = trace.compiles
    assert (nested.function, nested.parent, outer.parent) == ("inner", outer.id, None)


def test_two_threads_compile_at_once(path: Path) -> None:
    def work(function: Callable[[Any], Any], barrier: threading.Barrier) -> None:
        barrier.wait()
        eager(function, backend="aot_eager")(torch.ones(3, requires_grad=True)).sum().backward()

    def body() -> None:
        barrier = threading.Barrier(2)
        threads = [
            threading.Thread(target=work, args=(lambda x: x.sin(), barrier), name="worker 0"),
            threading.Thread(target=work, args=(lambda x: x.cos(), barrier), name="worker 1"),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = traced(path, body)
    assert sorted(row.segments[0].thread for row in trace.compiles) == ["worker 0", "worker 1"]
    assert [parts(row) for row in trace.compiles] == 2 * [["forward", "backward"]]
    assert [row.outcome for row in trace.compiles] == 2 * ["compiled"]


# --- graph breaks ---------------------------------------------------------------------------------------------


def prints(x: Any) -> Any:
    y = x + 1
    print("a side effect")  # side_effect
    return y * 2


def reads(x: Any) -> Any:
    y = x.sum().item()  # data_dependent item
    return x * y


def branches(x: Any) -> Any:
    if (x * 2).sum() > 0:  # data_dependent branch
        x = x + 1
    return x * 2


def breaks(x: Any) -> Any:
    y = x + 1
    torch._dynamo.graph_break()  # explicit
    return y * 2


def calls_c(x: Any) -> Any:
    y = x + 1
    zlib.crc32(b"abc")  # unsupported_call
    return y * 2


def loops(x: Any) -> Any:
    for _ in range(3):
        x = x + 1
        torch._dynamo.graph_break()  # skipped_frame
    return x


@pytest.mark.parametrize(
    ("function", "marker"),
    [
        (prints, "side_effect"),
        (reads, "data_dependent item"),
        (branches, "data_dependent branch"),
        (breaks, "explicit"),
        (calls_c, "unsupported_call"),
        (loops, "skipped_frame"),
    ],
)
def test_a_graph_break_has_a_kind_a_reason_and_the_users_line(path: Path, function: Any, marker: str) -> None:
    trace = traced(path, lambda: eager(function)(torch.ones(3)))
    [row] = trace.graph_breaks
    assert row.kind == marker.split()[0]
    assert row.location is not None
    assert (row.location.file, row.location.line) == (HERE, line_of(marker))
    assert row.function == function.__name__
    assert row.stack[-1] == row.location
    assert len(row.stack) > 1
    assert all("site-packages" not in place.file for place in row.stack)
    assert row.reason
    assert row.hints
    for text in (row.reason, *row.hints):
        assert "Traceback" not in text
        assert "site-packages" not in text
    broken, *resumed = trace.compiles
    assert row.compile == broken.id
    if row.kind == "skipped_frame":
        assert (broken.outcome, resumed, row.compiles) == ("skipped", [], [])
    else:
        [follower] = resumed
        assert row.compiles == [follower.id]
        assert follower.caused_by == row.id
        assert follower.function == f"{function.__name__}, resumed at line {line_of(marker)}"
        assert follower.caller == broken.caller
        if broken.outcome == "compiled" and marker != "data_dependent branch":  # which ends its graph with no restart
            assert "attempt" in parts(broken)


def innermost(x: Any) -> Any:
    y = x * 3
    torch._dynamo.graph_break()  # inlined break
    return y + 1


def middle(x: Any) -> Any:
    return innermost(x + 1) * 2


def test_a_break_in_an_inlined_function_is_one_break_with_all_that_it_cost(path: Path) -> None:
    trace = traced(path, lambda: eager(lambda x: middle(x) + 1)(torch.ones(3)))
    [row] = trace.graph_breaks
    assert row.location is not None
    assert row.location.line == line_of("inlined break")
    assert [place.function for place in row.stack[-3:]] == ["<lambda>", "middle", "innermost"]
    assert row.compile == trace.compiles[0].id
    assert row.count == 1
    assert [(c.function.split(",")[0], c.caused_by is not None) for c in trace.compiles] == [
        ("<lambda>", False),
        ("middle", False),
        ("innermost", False),
        ("innermost", True),
        ("middle", True),
        ("<lambda>", True),
    ]
    assert row.cost_ns == sum(c.wall_ns for c in trace.compiles[3:])


def test_each_frame_that_inlines_a_break_has_its_own(path: Path) -> None:
    def body() -> None:
        def first(x: Any) -> Any:
            return innermost(x) + 1

        def second(x: Any) -> Any:
            return innermost(x) + 2

        def third(x: Any) -> Any:
            return innermost(x) + 3

        for function in (first, second, third):
            eager(function)(torch.ones(3))  # innermost itself is compiled once
        eager(innermost)(torch.ones(3, dtype=torch.int32))  # now it is nobody's echo

    trace = traced(path, body)
    names = {row.id: row.function for row in trace.compiles}
    assert [(names[row.compile], row.count) for row in trace.graph_breaks if row.compile] == [
        ("first", 1),
        ("second", 1),
        ("third", 1),
        ("innermost", 1),
    ]


def test_a_break_in_every_variant_is_one_row_counted(path: Path) -> None:
    def body() -> None:
        compiled = eager(breaks)
        compiled(torch.ones(3))
        compiled(torch.ones(3, dtype=torch.int32))

    [row] = traced(path, body).graph_breaks
    assert row.count == 2
    assert len(row.compiles) == 2


# --- manners --------------------------------------------------------------------------------------------------


def test_a_step_that_compiles_nothing_runs_no_python_of_ours(path: Path) -> None:
    compiled = eager(Net(), backend="aot_eager")
    ours: list[str] = []

    def watch(frame: Any, event: str, argument: object) -> None:
        if event == "call" and "coldstep_collectors" in frame.f_code.co_filename:
            ours.append(frame.f_code.co_name)

    def train() -> None:
        compiled(torch.ones(2, 3)).sum().backward()

    with coldstep.trace(path, collectors=COLLECTORS):
        sys.setprofile(watch)
        try:
            train()
            assert ours
            ours.clear()
            train()
        finally:
            sys.setprofile(None)
    assert ours == []


def test_after_the_trace_all_hooks_are_gone(path: Path) -> None:
    import torch._dynamo.utils as utils

    def hooks() -> tuple[object, ...]:
        log = utils.get_chromium_event_logger()
        handlers = logging.getLogger("torch.__trace").handlers
        return log, type(log), {name for name in vars(log) if "log_" in name}, handlers, type(handlers), list(handlers)

    before = hooks()
    with coldstep.trace(path, collectors=COLLECTORS):
        assert hooks()[2:5] != before[2:5]
        eager(prints)(torch.ones(2))
    assert hooks() == before


def test_two_traces_one_after_the_other_and_the_second_comes_late(path: Path) -> None:
    compiled = eager(lambda x: x + 1)
    for n in (2, 3):
        with coldstep.trace(path, collectors=COLLECTORS):
            compiled(torch.ones(n))
    trace = coldstep.load(path)
    assert [inputs(row) for row in trace.compiles] == [{"x": "f32[3]"}]
    assert {row.state for row in trace.collectors} == {"late"}


def test_someone_elses_handlers_see_everything_and_stay(path: Path) -> None:
    class Mine(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            seen.update(record.metadata)  # type: ignore[attr-defined]
            return True

    log, seen = logging.getLogger("torch.__trace"), set[str]()
    early, late = Mine(), Mine()
    log.addHandler(early)
    try:
        with coldstep.trace(path, collectors=COLLECTORS):
            eager(prints)(torch.ones(2))
            log.addHandler(late)
        assert {"dynamo_output_graph", "chromium_event", "artifact"} <= seen
        assert [handler for handler in log.handlers if isinstance(handler, Mine)] == [early, late]
    finally:
        log.removeHandler(early)
        log.removeHandler(late)
    assert len(coldstep.load(path).graph_breaks) == 1


def test_torch_renders_nothing_for_us_but_the_two_texts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[object] = []
    handle = artifacts.Artifacts.handle

    def spy(self: artifacts.Artifacts, record: logging.LogRecord) -> None:
        rendered.append(record.metadata["artifact"]["name"])  # type: ignore[attr-defined]
        handle(self, record)

    monkeypatch.setattr(artifacts.Artifacts, "handle", spy)

    def body() -> None:
        compiled = eager(prints, backend="aot_eager")
        compiled(torch.ones(2))
        compiled(torch.ones(3))

    traced(path, body)
    assert set(rendered) == {"dynamo_graph_break_reason", "recompile_reasons"}


def test_spans_that_are_not_paired_harm_nobody(path: Path) -> None:
    import torch._dynamo.utils as utils

    def body() -> None:
        log = utils.get_chromium_event_logger()
        with coldstep.step("broken"):
            log._log_timed_event("GraphLowering.run", 0, "E", {})
            log._log_timed_event("GraphLowering.run", 0, "B", {})
            log._log_timed_event("something new", 0, "B", {})
            log._log_timed_event("Scheduler.codegen", 0, "B", {})
            log._log_timed_event("GraphLowering.run", 0, "E", {})
        with coldstep.step("next"):
            pass

    trace = traced(path, body)
    broken, following = (interval for interval in trace.intervals if interval.kind == "step")
    assert set(broken.phases) == {"inductor.lowering", "inductor.codegen"}
    assert following.phases == {}


def test_a_collector_that_fails_leaves_the_compile_and_the_ledger_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("our own mistake")

    monkeypatch.setattr(frames, "compiling_frame", broken)
    with coldstep.trace(path, collectors=COLLECTORS):
        with coldstep.step("compiles"):
            assert eager(lambda x: x + 1)(torch.ones(1)).item() == 2
        with coldstep.step("next"):
            pass
    trace = coldstep.load(path)
    assert {row.name: row.state for row in trace.collectors}["dynamo"] == "failed"
    following = trace.intervals[-2]
    assert following.name == "next"
    assert following.phases == {}


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("get_chromium_event_logger", "compile phases"),
        ("trace_log", "graph breaks and guard failures"),
    ],
)
def test_a_hook_that_a_version_of_torch_lacks_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, gone: str, missing: str
) -> None:
    import torch._dynamo.utils as utils
    from torch._logging import _internal

    if gone == "trace_log":
        monkeypatch.setattr(_internal, "trace_log", logging.getLogger("another"))
    else:
        logger = utils.get_chromium_event_logger()
        found = iter([object()])  # only coldstep asks while it attaches; then torch gets what it needs
        monkeypatch.setattr(utils, gone, lambda: next(found, logger))
    with coldstep.trace(path, collectors=COLLECTORS):
        eager(prints, backend="aot_eager")(torch.ones(2))
    trace = coldstep.load(path)
    [row] = [row for row in trace.collectors if row.name == "dynamo"]
    assert row.state in ("partial", "late")
    assert [text[: len(missing)] for text in row.missing] == [missing]
    if gone == "trace_log":
        assert trace.graph_breaks == []
    else:
        assert len(trace.graph_breaks) == 1
    # the compiles are known in any case: without its spans, torch's own trace of them is read
    assert [row.function.split(",")[0] for row in trace.compiles] == ["prints", "prints"]


def test_a_trace_that_is_there_before_torch_imports_nothing_and_hides_nothing_from_torch_trace(tmp_path: Path) -> None:
    source = """
    import contextlib, sys
    import coldstep

    with coldstep.trace("t.pftrace") if %d else contextlib.nullcontext():
        assert not {"torch", "torch._dynamo"} & set(sys.modules)
        import torch
        assert "torch._dynamo.utils" not in sys.modules
        with coldstep.step():
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    """
    events = []
    for traced in (0, 1):
        folder = tmp_path / str(traced)
        program.run(source % traced, tmp_path, env={"TORCH_TRACE": str(folder)})
        [log] = folder.iterdir()
        events.append([line.split()[4:6] for line in log.read_text().splitlines() if line.startswith("V")])
    assert events[0] == events[1]
    assert len(events[0]) > 10
    trace = coldstep.load(tmp_path / "t.pftrace")
    states = {row.name: (row.state, row.missing) for row in trace.collectors}
    assert states["dynamo"] == states["inductor"] == ("attached", [])
    [compile_] = trace.compiles
    assert compile_.outcome == "compiled"
    [interval] = [interval for interval in trace.intervals if interval.kind == "step"]
    assert {"dynamo.trace", "dynamo.guards"} <= set(interval.phases)


def test_no_frame_of_ours_is_the_users(tmp_path: Path) -> None:
    source = """
    import torch

    @torch.compile(backend="eager")
    def step(x):
        print("a graph break")
        return x + 1

    step(torch.ones(2))  # the user's call
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(source))
    program.warm("torch", ["coldstep", "run", "-o", "t.pftrace", "--step", "__main__:step", str(script)], tmp_path)
    trace = coldstep.load(tmp_path / "t.pftrace")
    [graph_break] = trace.graph_breaks
    files = {place.file for place in graph_break.stack} | {row.caller.file for row in trace.compiles if row.caller}
    assert {Path(file).name for file in files} == {"program.py"}


def test_settings_are_looked_for_when_they_are_there(tmp_path: Path) -> None:
    source = """
import sys
import torch._dynamo
for name in ("torch._inductor.config", "torch._functorch.config"):  # PyTorch 2.14 imports them later than 2.13
    del sys.modules[name]
import coldstep
with coldstep.trace("early.pftrace", device="off"):
    pass
"""
    program.run(source, tmp_path, stack="torch")
    [dynamo] = [row for row in coldstep.load(tmp_path / "early.pftrace").collectors if row.name == "dynamo"]
    assert (dynamo.state, dynamo.missing) == ("attached", [])


@pytest.mark.parametrize("how", ["logging.config", "its handlers"])
def test_a_program_that_switches_off_pytorchs_structured_trace_has_its_graph_breaks_all_the_same(
    path: Path, how: str
) -> None:
    logger = logging.getLogger("torch.__trace")

    def broken(x: Any) -> Any:
        print(end="")
        return x + 1

    with without_pytest(), coldstep.trace(path, collectors=COLLECTORS):
        if how == "logging.config":
            logger.disabled = True  # as dictConfig() does with each logger that it does not name
        else:
            logger.handlers.clear()
        eager(broken)(torch.ones(3))
    was_put_back = logger.disabled == (how == "logging.config")
    logger.disabled = False
    assert was_put_back
    trace = coldstep.load(path)
    assert [row.kind for row in trace.graph_breaks] == ["side_effect"]
    assert len([text for text in trace.run.notes if "structured trace" in text]) == 1


def test_an_error_of_the_backend_is_not_read_as_a_graph_break_by_the_code_that_it_quotes(path: Path) -> None:
    quoted = 'no lowering\n\nWhile executing %item\nOriginal traceback:\n  File "lib.py", line 3, in f\n    x.item()\n'

    def broken(graph: object, inputs: object) -> Compiled:
        raise RuntimeError(quoted)

    def body() -> None:
        step = torch.compile(torch.sin, backend=broken)
        with contextlib.suppress(Exception):
            step(torch.ones(3))

    [failed] = [row for row in traced(path, body).findings if row.kind == "failed_compile"]
    assert failed.text.endswith("backend='broken' raised: RuntimeError: no lowering")
    assert "While executing" not in failed.text
    assert failed.location is not None
    assert failed.location.file.endswith("test_dynamo.py")
    assert not failed.remedies


def test_an_attribute_of_a_librarys_module_that_the_program_compiles_is_the_programs_to_set(path: Path) -> None:
    def body() -> None:
        module = torch.nn.Dropout(0.1)
        dropout = torch.compile(module, backend="eager")
        for number in (1, 2, 3):
            module.p = 0.1 * number
            dropout(torch.ones(3))

    rows = traced(path, body).recompiles
    assert {row.argument for row in rows} == {"self.p"}
    assert not any("outside of the compiled function" in row.advice for row in rows)


class Batch(NamedTuple):
    x: Any
    mask: Any


def test_what_became_dynamic_in_a_named_tuple_is_known_by_its_name(path: Path) -> None:
    step = eager(lambda batch: batch.x.sum() + batch.mask.sum())

    def body() -> None:
        for size in (8, 9, 10):
            step(Batch(torch.ones(size, 3), torch.ones(2, size)))

    trace = traced(path, body)
    assert trace.details[trace.compiles[-1].id].dynamic == {"batch.x": "0", "batch.mask": "1"}
    assert "dynamic from now on" in "".join(trace.recompiles[0].evidence)
