"""What the second step will compile again is told at the end of the first, and then happens; where nothing comes,
nothing is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import program
import pytest

import coldstep

Told = list[list[Any]]

# each function is a program of its own: what it was told of, and what was then compiled again, go to stdout
_EACH = """
import json
import subprocess
import sys
import coldstep

def each(*functions):
    for function in functions:
        told = []
        path = f"{function.__name__}.pftrace"
        with coldstep.trace(path, device="off", live=False, on_forecast=told.append):
            function()
        again = coldstep.load(path).recompiles
        rows = [[(row.step, row.cause, row.argument, row.before, row.after) for row in rows] for rows in (told, again)]
        print(json.dumps([function.__name__, *rows]))
"""

JAX = """
import jax, jax.numpy as jnp, numpy as np
import coldstep

@jax.jit
def step(state, x):
    return {"total": state["total"] + x.sum(), "n": state["n"] + 1}, x.mean()

@jax.jit
def add(total, x):
    return total + x.sum()

@jax.jit
def update(params, moments, x):
    return [params[0] - x.sum()], (moments[0] + 1,), x.mean()

pinned = jax.device_put(np.ones(3, np.float32), jax.devices()[0])
batches = np.ones((3, 4), np.float32)

class Trainer:
    def __init__(self):
        self.params, self.moments = [jnp.ones(3)], (jnp.zeros(()),)

    def update(self, x):
        self.params, self.moments, loss = update(self.params, self.moments, x)
        return loss
"""

_JAX_COMES = """
def weak_type():
    state = {"total": 0.0, "n": 0}
    for x in batches:
        with coldstep.step():
            state, loss = coldstep.wait(step(state, x))

def within_a_method():
    trainer = Trainer()
    for x in coldstep.steps([pinned] * 3):
        coldstep.wait(trainer.update(x))

def a_tuple_made_for_the_call():
    total, n = 0.0, 1.0
    count = 0
    pair = jax.jit(lambda pair, x: (pair[0] + x.sum(), pair[1] * 2))
    while count < 3:
        with coldstep.step():
            (total, n) = pair((total, n), pinned)
        count += 1

def of_each_name():
    train, test = 0.0, 1.0
    tested = jax.jit(lambda total, x: total - x.sum())
    for x in batches:
        with coldstep.step("train"):
            train = add(train, x)
        with coldstep.step("test"):
            test = tested(test, x)

each(weak_type, within_a_method, a_tuple_made_for_the_call, of_each_name)
"""

_JAX_SILENT = """
def settled():
    trainer = Trainer()
    for x in batches:
        with coldstep.step():
            coldstep.wait(trainer.update(x))

def another_batch():
    x = pinned
    for size in (3, 3, 4):
        x = jnp.ones(size)
        with coldstep.step():
            add(jnp.float32(0), x)

def made_a_number_again():
    total = 0.0
    for x in batches:
        with coldstep.step():
            total = add(total, x)
        total = float(total)

def from_the_start_each_time():
    start = 0.0
    for x in batches:
        with coldstep.step():
            state = start
            state = add(state, x)

def the_same_object_twice():
    start = state = {"total": 0.0, "n": 0}
    for x in batches:
        with coldstep.step():
            state, loss = step(start, x)

def compiled_already_within_the_step():
    total = 0.0
    for x in batches:
        with coldstep.step():
            for _ in range(2):
                total = add(total, x)

def compiled_already_before():
    add(add(0.0, batches[0]), batches[0])
    total = 0.0
    for x in batches:
        with coldstep.step():
            total = add(total, x)

def no_loop():
    total = 0.0
    with coldstep.step():
        total = add(total, batches[0])

def that_fails():
    total = 0.0
    try:
        for x in batches:
            with coldstep.step():
                total = add(total, x)
                raise KeyError
    except KeyError:
        pass

for function in (settled, another_batch, made_a_number_again, from_the_start_each_time, the_same_object_twice,
                 compiled_already_within_the_step, compiled_already_before, no_loop, that_fails):
    jax.clear_caches()
    each(function)
"""

TORCH = """
import torch
import coldstep

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.ones(4)
        return self.lin(x) + self.cache

class Unset(torch.nn.Module):
    def forward(self, x):
        if not hasattr(self, "mask"):
            self.mask = torch.ones(4)
        return x * self.mask

class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.lin(x)

compiled = lambda net: torch.compile(net, backend="eager")
x = torch.ones(2, 4)
everywhere = Net()

def steps(*calls):
    torch.compiler.reset()
    for number in range(3):
        with coldstep.step():
            for call in calls:
                call(number)
"""

_TORCH_COMES = """
def none_at_first():
    net = compiled(Net())
    steps(lambda _: net(x))

def not_set_at_first():
    net = compiled(Unset())
    steps(lambda _: net(x))

def of_a_global():
    @torch.compile(backend="eager")
    def train(x):
        return everywhere(x).sum()
    steps(lambda _: train(x))

def of_one_of_two():
    nets = [compiled(Net()), compiled(Plain())]
    steps(*(lambda _, net=net: net(x).sum().backward() for net in nets))

each(none_at_first, not_set_at_first, of_a_global, of_one_of_two)
"""

_TORCH_SILENT = """
def settled():
    net = Plain()
    model, optimizer = compiled(net), torch.optim.Adam(net.parameters())
    def train(_):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    steps(train)

def modes_that_change():
    net = Plain()
    model = compiled(net)
    def train(_):
        net.train()
        model(x)
        net.eval()
    steps(train)

def another_size():
    net = compiled(Plain())
    steps(lambda number: net(torch.ones(2 + (number > 1), 4)))

def made_within_the_step():
    net = compiled(Net())
    steps(lambda _: net(x), lambda _: net(x))

each(settled, modes_that_change, another_size, made_within_the_step)
"""


def told_and_happened(tmp_path: Path, *parts: str) -> dict[str, tuple[Told, Told]]:
    lines = program.run("\n".join([_EACH, *parts]), tmp_path, stack=program.stack_of(parts[0])).stdout.splitlines()
    return {name: (told, again) for name, told, again in map(json.loads, lines)}


@pytest.mark.jax
def test_what_jax_compiles_again_is_told_and_then_happens(tmp_path: Path) -> None:
    found = told_and_happened(tmp_path, JAX, _JAX_COMES)
    for told, again in found.values():
        assert told == again
    assert [told for told, _ in found.values()] == [
        [[1, "weak_type", "state['total']", "f32[] weak", "f32[]"]],
        [[1, "committed", "params[0]", "f32[3]", "f32[3] committed"]],
        [[1, "weak_type", "pair[0]", "f32[] weak", "f32[] committed"]],
        [[1, "weak_type", "total", "f32[] weak", "f32[]"]] * 2,
    ]


@pytest.mark.jax
def test_where_nothing_comes_in_jax_or_nobody_can_tell_nothing_is_told(tmp_path: Path) -> None:
    found = told_and_happened(tmp_path, JAX, _JAX_SILENT)
    assert len(found) == 9
    assert {name: told for name, (told, _) in found.items() if told} == {}


@pytest.mark.torch
def test_what_torch_compiles_again_is_told_and_then_happens(tmp_path: Path) -> None:
    found = told_and_happened(tmp_path, TORCH, _TORCH_COMES)
    for told, again in found.values():
        assert told == again
    assert [told for told, _ in found.values()] == [
        [[1, "type", "self.cache", "None", "f32[4]"]],
        [[1, "module_attribute", "self.mask", "not set", "f32[4]"]],
        [[1, "type", "everywhere.cache", "None", "f32[4]"]],
        [[1, "type", "self.cache", "None", "f32[4]"]],
    ]


@pytest.mark.torch
def test_where_nothing_comes_in_torch_nothing_is_told(tmp_path: Path) -> None:
    found = told_and_happened(tmp_path, TORCH, _TORCH_SILENT)
    assert len(found) == 4
    assert {name: told for name, (told, _) in found.items() if told} == {}


_WEAK = """
total = 0.0
def train(count, **options):
    global total
    with coldstep.trace("t.pftrace", device="off", **options):
        for x in batches[:count]:
            with coldstep.step():
                total = add(total, x)
"""


@pytest.mark.jax
def test_it_stands_on_stderr_and_in_the_trace_where_the_next_step_never_came(tmp_path: Path) -> None:
    done = program.run(f"{JAX}{_WEAK}\ntrain(1)", tmp_path, stack="jax")
    place = next(n for n, line in enumerate((tmp_path / "program.py").read_text().splitlines(), 1) if "= add(" in line)
    said = f"program.py:{place}: add will be compiled again in step 1 (weak_type): total was f32[] weak, is now f32[]; "
    first, advice, *_ = done.stderr.splitlines()
    assert first.startswith(f"coldstep: {said}it took ")
    assert advice.startswith("coldstep:     Give total a strong type from the start")
    [note] = coldstep.load(tmp_path / "t.pftrace").run.notes
    assert said in note


@pytest.mark.jax
def test_nobody_who_does_not_ask_is_told_and_a_callback_may_end_the_program(tmp_path: Path) -> None:
    ending = """
def stop(coming):
    raise LookupError(coming.advice)
train(3, live=False)
jax.clear_caches()
total = 0.0
try:
    train(3, live=False, on_forecast=stop)
except LookupError as error:
    print(error)
"""
    done = program.run(f"{JAX}{_WEAK}{ending}", tmp_path, stack="jax")
    assert "will be compiled" not in done.stderr
    assert done.stdout.startswith("Give total a strong type")
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert (trace.run.ended, [row.step for row in trace.intervals if row.step is not None]) == ("exception", [0])


# --- where no steps are marked ------------------------------------------------------------------------------------

_UNMARKED = {
    "result": """
total = 0.0
for x in batches:
    total = add(total, x)
""",
    "one of two": """
def train():
    state = {"total": 0.0, "n": 0}
    for x in batches:
        state, loss = step(state, x)
train()
""",
    "nothing": """
total = jnp.float32(0)
for x in batches:
    total = add(total, x)
""",
    "made a number again": """
total = 0.0
for x in batches:
    total = add(total, x)
    total = float(total)
""",
    "within an expression": """
total = 0.0
for x in batches:
    total = add(total, x) + 0.0
""",
    "behind a function": """
def apply(total, x):
    total = add(total, x)
    return float(total)
total = 0.0
for x in batches:
    total = apply(total, x)
""",
}
_UNMARKED_TORCH = """
net = Net()
model, optimizer = compiled(net), torch.optim.Adam(net.parameters())
for _ in range(3):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def told_unmarked(source: str, folder: Path) -> tuple[list[str], list[tuple[str, str | None]]]:
    """What `coldstep run` says of the next call meanwhile, and what was compiled again."""
    (folder / "train.py").write_text(source)
    command = ["coldstep", "run", "--device", "off", "-o", "t.pftrace", "train.py"]
    done = program.warm(program.stack_of(source), command, folder)
    trace = coldstep.load(folder / "t.pftrace")
    lines = [line for line in done.stderr.splitlines() if "will be compiled again" in line]
    return lines, [(row.cause, row.argument) for row in trace.recompiles]


@pytest.mark.jax
def test_what_is_not_marked_is_told_as_the_first_call_ends(tmp_path: Path) -> None:
    told, again = told_unmarked(JAX + _UNMARKED["result"], tmp_path)
    [line] = told
    assert "add will be compiled again in its next call (weak_type): total was f32[] weak, is now f32[]; it" in line
    assert again == [("weak_type", "total")]
    told, again = told_unmarked(JAX + _UNMARKED["one of two"], tmp_path)
    [line] = told
    assert "step will be compiled again in its next call (weak_type): state['total'] was f32[] weak, is now" in line
    assert again == [("weak_type", "state['total']")]


@pytest.mark.jax
def test_what_becomes_of_a_result_before_the_next_call_is_not_guessed(tmp_path: Path) -> None:
    names = ("nothing", "made a number again", "within an expression", "behind a function")
    parts = [f"jax.clear_caches()\n{_UNMARKED[name]}" for name in names]
    told, again = told_unmarked("\n".join([JAX, *parts]), tmp_path)
    assert told == []
    assert ("weak_type", "total") in again  # of what stands within an expression


@pytest.mark.torch
def test_what_a_first_step_of_an_optimizer_leaves_is_told_without_marks(tmp_path: Path) -> None:
    told, again = told_unmarked(TORCH + _UNMARKED_TORCH, tmp_path)
    [line] = told
    assert "forward will be compiled again in its next call (type): self.cache was None, is now f32[4]" in line
    assert again == [("type", "self.cache")]
