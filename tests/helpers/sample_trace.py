"""A trace as the demo makes it, built by hand: JAX and torch steps, figures from real runs, one recompile each."""

from __future__ import annotations

from coldstep.model import (
    Change,
    CollectorRow,
    Compile,
    Cost,
    FirstStep,
    GraphBreak,
    Input,
    Interval,
    Location,
    MemoryPeak,
    PhaseShare,
    Process,
    Recompile,
    Run,
    Segment,
    Settling,
    Trace,
    Variant,
)

MS = 1_000_000
ORIGIN = 123_456 * MS
TRAIN = Location("examples/demo.py", 41, "train_step")
LOOP = Location("examples/demo.py", 88, "main")

_JAX_FIRST = {"xla.compile": 2661 * MS, "jax.trace": 324 * MS, "jax.lower": 121 * MS, "execute": 112 * MS}
_TORCH_FIRST = {
    "inductor.cpp": 16_778 * MS,
    "inductor.codegen": 5_958 * MS,
    "inductor.lowering": 1_607 * MS,
    "aot.joint": 1_477 * MS,
    "inductor.passes": 1_386 * MS,
    "import.torch": 903 * MS,
    "inductor.cache": 821 * MS,
    "dynamo.trace": 676 * MS,
    "execute": 18 * MS,
}


def sample() -> Trace:
    """Before, 8 JAX steps, 8 torch steps, after; intervals without a gap, phases that add up to them."""
    intervals: list[Interval] = []

    def add(
        kind: str, wall_ns: int, phases: dict[str, int], name: str | None = None, n: int | None = None, label: str = ""
    ) -> None:
        start = intervals[-1].start_ns + intervals[-1].wall_ns if intervals else 0
        step = kind == "step"
        intervals.append(
            Interval(
                index=len(intervals),
                process=0,
                kind=kind,
                step=n,
                name=name,
                source="marked",
                label=label if step else None,
                measures="complete" if step else None,
                start_ns=start,
                wall_ns=wall_ns,
                phases=dict(phases),
                unattributed_ns=wall_ns - sum(phases.values()),
            )
        )

    before = {
        "import.torch": 2_900 * MS,
        "import.jax": 1_100 * MS,
        "import.optax": 300 * MS,
        "import.numpy": 100 * MS,
        "jax.backend_init": 210 * MS,
        "jax.trace": 300 * MS,
        "jax.lower": 400 * MS,
        "xla.compile": 1_900 * MS,
    }
    add("before", 7_300 * MS, before)
    add("step", 3_248 * MS, _JAX_FIRST, "jax", 0, "first")
    for n in range(1, 8):
        add("between", 100_000, {})
        if n == 7:
            add("step", 3_035 * MS, {"xla.compile": 2_600 * MS, "jax.trace": 300 * MS}, "jax", n, "recompiled")
        else:
            add("step", (10 + n) * MS, {"execute": (9 + n) * MS}, "jax", n, "steady")
    add("between", 2_000 * MS, {"import.torch": 1_700 * MS})
    add("step", 30_093 * MS, _TORCH_FIRST, "torch", 0, "first")
    for n in range(1, 8):
        add("between", 100_000, {})
        if n == 7:
            add("step", 27_541 * MS, {"inductor.cpp": 20_000 * MS}, "torch", n, "recompiled")
        else:
            add("step", (6 + n) * MS, {}, "torch", n, "steady")
    add("after", 5 * MS, {"coldstep": 4 * MS})

    wall = intervals[-1].start_ns + intervals[-1].wall_ns
    compiles = [
        _compile("c0", "jax", "train_step", "user", 1, _JAX_FIRST, intervals, 1),
        _compile("c1", "jax", "train_step", "user", 15, {"xla.compile": 2_600 * MS}, intervals, 2),
        _compile("c2", "dynamo", "GPT.forward", "user", 17, _TORCH_FIRST, intervals, 1),
        _compile("c3", "dynamo", "GPT.forward", "user", 31, {"inductor.cpp": 20_000 * MS}, intervals, 2),
    ]
    for number in range(21):
        phases = {"jax.trace": 10 * MS, "jax.lower": 15 * MS, "xla.compile": 80 * MS}
        compiles.append(_compile(f"c{number + 4}", "jax", "broadcast_in_dim", "eager", 0, phases, intervals, 1))
    return Trace(
        run=Run(["python", "examples/demo.py"], "/repo", "2026-11-20T12:13:14.567+00:00", wall, "ok"),
        processes=[
            Process(
                0,
                4242,
                "box",
                None,
                0,
                wall,
                420 * MS,
                "ok",
                {"python": "3.11.7", "jax": "0.10.2", "torch": "2.13.0+cpu"},
            )
        ],
        collectors=[
            CollectorRow(0, "imports", "attached", 0, None, []),
            CollectorRow(0, "jax", "attached", 10, "0.10.2", []),
            CollectorRow(0, "dynamo", "attached", 20, "2.13.0+cpu", []),
            CollectorRow(0, "inductor", "attached", 30, "2.13.0+cpu", []),
        ],
        intervals=intervals,
        compiles=compiles,
        graph_breaks=[
            GraphBreak(
                id="b0",
                process=0,
                kind="data_dependent",
                reason="Data-dependent branching: Detected data-dependent branching (`if loss > 3:`)",
                function="train_step",
                location=Location("examples/demo.py", 57, "train_step"),
                stack=[],
                compile="c2",
                interval=17,
                step=0,
                count=2,
                compiles=["c3"],
                cost_ns=1_200 * MS,
                hints=["Use `torch.cond` to express dynamic control flow."],
                advice="Keep the value on the device.",
            )
        ],
        memory=MemoryPeak(),
        origin_ns=ORIGIN,
        code={
            ("examples/demo.py", 41): "    def train_step(params, batch):",
            ("examples/demo.py", 88): "        loss = train_step(params, batch)",
            ("examples/demo.py", 57): "    if loss > 3:",
        },
        cost=[
            _cost("jax", intervals, 1, 3, 13_500_000, 3_200_000),
            _cost("torch", intervals, 17, 19, 9_500_000, 2_500_000),
        ],
        recompiles=[
            _recompile("r0", "c1", "c0", 15, "batch['tokens']", "i32[8,32]", "i32[5,32]", 3_035 * MS),
            _recompile("r1", "c3", "c2", 31, "tokens", "i64[8,32]", "i64[5,32]", 27_541 * MS),
        ],
        settling=[Settling(0, name, "step", "settled", 1, 1, []) for name in ("jax", "torch")],
    )


def _compile(
    id_: str, stack: str, function: str, origin: str, interval: int, phases: dict[str, int],
    intervals: list[Interval], n: int,
) -> Compile:  # fmt: skip
    wall = sum(phases.values())
    return Compile(
        id=id_,
        process=0,
        stack=stack,
        function=function,
        origin=origin,
        key=f"{stack}:examples/demo.py:{function}",
        location=TRAIN if origin == "user" else None,
        caller=LOOP,
        parent=None,
        caused_by=None,
        reason="recompile" if n > 1 else "first",
        variant=Variant(n, 8 if stack == "dynamo" else None),
        outcome="compiled",
        wall_ns=wall,
        segments=[Segment("forward", interval, "MainThread", intervals[interval].start_ns, wall, phases)],
        inputs=[Input("batch['tokens']", "i32[8,32]")],
        caches=[],
    )


def _cost(name: str, intervals: list[Interval], first: int, settled: int, steady: int, spread: int) -> Cost:
    row = intervals[first]
    phases = [PhaseShare(phase, ns, ns / row.wall_ns) for phase, ns in row.phases.items()]
    return Cost(
        process=0,
        name=name,
        time_to_first_step_ns=420 * MS + row.start_ns + row.wall_ns,
        time_to_settled_ns=420 * MS + intervals[settled].start_ns,
        steady_step_ns=steady,
        steady_spread_ns=spread,
        first_step=FirstStep(first, row.wall_ns, 1 - row.unattributed_ns / row.wall_ns, phases),
    )


def _recompile(
    id_: str, compile_: str, previous: str, interval: int, argument: str, before: str, after: str, cost: int
) -> Recompile:
    return Recompile(
        id=id_,
        process=0,
        compile=compile_,
        previous=previous,
        interval=interval,
        step=7,
        cause="shape",
        pattern=None,
        argument=argument,
        before=before,
        after=after,
        changes=[Change(argument, "shape", before, after)],
        evidence=[f"{argument}: {before} → {after}"],
        confidence="proven",
        advice=f"Keep the shape of {argument} fixed.",
        cost_ns=cost,
    )
