"""An object that is a static argument, and of which something else is read than its program holds."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

START = """
from functools import partial

import jax
import jax.numpy as jnp

def square(x):
    return x**2

def cube(x):
    return x**3

class Solver:
    def __init__(self, fn):
        self.fn, self.gain, self.calls = fn, 1.0, 0

    @partial(jax.jit, static_argnums=0)
    def step(self, x):
        return self.fn(x) * self.gain

x = jnp.float32(2.0)
solver = Solver(square)
"""
FUNCTION = """
solver.step(x)
solver.fn = cube
solver.step(x)
"""
OF_ONE_LINE = """
for fn in (lambda x: x + 1, lambda x: x + 2):
    solver.fn = fn
    solver.step(x)
"""
NUMBER = """
solver.step(x)
solver.gain = 3.0
solver.step(x)
"""
UNREAD = """
for _ in range(3):
    solver.calls += 1
    solver.step(x)
"""
BEFORE = """
solver.fn, solver.gain = cube, 2.0
solver.step(x)
solver.step(x)
"""
MADE_AGAIN = """
for _ in range(3):
    solver.fn = lambda x: x + 1
    solver.step(x)
"""
LET_GO = """
solver.step(x)
solver.fn = solver.gain = None
"""
NEW_OBJECTS = """
for fn in (square, cube, square):
    Solver(fn).step(x)
"""
BY_CONTENT = """
class Known(Solver):
    def __hash__(self):
        return hash((self.fn, self.gain))

    def __eq__(self, other):
        return (self.fn, self.gain) == (other.fn, other.gain)

solver = Known(square)
solver.step(x)
solver.fn, solver.gain = cube, 2.0
solver.step(x)
"""
TRACED_BY_THE_NEXT = """
class Net:
    training = None

    def __init__(self):
        self.training = True

    @partial(jax.jit, static_argnums=0)
    def train(self, x):
        return x * (0.5 if self.training else 1.0)

    @partial(jax.jit, static_argnums=0)
    def evaluate(self, x):
        return x * (0.5 if self.training else 1.0)

net = Net()
net.train(x)
net.training = False
net.evaluate(x)
"""
OF_A_WRAPPER = """
from functools import wraps

def scaled(fn):
    @wraps(fn)
    def inner(config, x):
        return fn(x) * config.gain
    return inner

@partial(jax.jit, static_argnums=0)
@scaled
def step(x):
    return x * x.size

solver.size = 1
step(solver, x)
solver.size = 2
step(solver, x)
"""
NAMED_ANEW = """
class Other(Solver):
    @partial(jax.jit, static_argnums=0)
    def step(self, x):
        self = Solver(square)
        return x * self.gain

other = Other(square)
other.step(x)
other.gain = 2.0
other.step(x)
"""
FLAG = """
class Net(Solver):
    @partial(jax.jit, static_argnums=0)
    def step(self, x):
        return x if self.mode else -x

net = Net(square)
net.mode = True
net.step(x)
net.mode = False
net.step(x)
"""
SHOWN = "step does not see that self.{} has changed: it was "


@pytest.mark.jax
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FUNCTION, [SHOWN.format("fn") + "'square of line"]),
        (OF_ONE_LINE, [SHOWN.format("fn") + "'<lambda> of line"]),
        (NUMBER, [SHOWN.format("gain") + "'1.0' when it was traced, now '3.0'"]),
        (UNREAD, []),
        (BEFORE, []),
        (MADE_AGAIN, []),
        (LET_GO, []),
        (NEW_OBJECTS, []),
        (BY_CONTENT, []),
        (TRACED_BY_THE_NEXT, []),
        (OF_A_WRAPPER, []),
        (NAMED_ANEW, []),
        (FLAG, [SHOWN.format("mode") + "'True' when it was traced, now 'False'"]),
    ],
    ids=[
        "function",
        "one line",
        "number",
        "unread",
        "before",
        "made again",
        "let go",
        "new objects",
        "by content",
        "traced by the next",
        "of a wrapper",
        "named anew",
        "flag",
    ],
)
def test_a_method_whose_object_is_static(source: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(START + source)
    program.warm("jax", ["coldstep", "run", "-o", "t.pftrace", "program.py"], tmp_path)
    trace = coldstep.load(tmp_path / "t.pftrace")
    rows = [row for row in trace.findings if row.kind == "stale_capture"]
    assert [row.text[: len(text)] for row, text in zip(rows, expected, strict=True)] == expected
    assert [row.finding for row in trace.answers[: len(rows)]] == [row.id for row in rows]
    assert all(("as a static argument" in row.advice) == ("self.gain" not in row.text) for row in rows)
