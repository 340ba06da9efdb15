"""Objects of the user's that answer a question by an error of their own leave every collector attached."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

ODD = """
class Keyed(dict):  # its attributes are its keys, as configurations have it: another name is a KeyError
    __getattr__ = dict.__getitem__
    __hash__ = object.__hash__
class Strict:
    def __init__(self, power): self.__dict__["power"] = power
    def __getattr__(self, name): raise RuntimeError(name)
class Bare:
    __slots__ = ("power",)
    def __init__(self, power): self.power = power
    def __getattr__(self, name): raise KeyError(name)
    def __eq__(self, other): raise ValueError("not to be compared")
    def __repr__(self): raise ValueError("not to be shown")
    def __hash__(self): return 7
class Computed:
    asked = 0
    def __init__(self, power): pass
    power = 2
    @property
    def __dict__(self): Computed.asked += 1; raise KeyError("__dict__")
KINDS = Keyed, Strict, Bare, Computed

import coldstep
from functools import partial

def run(calls):
    with coldstep.trace("t.pftrace"):
        for kind in KINDS:
            for name, call in calls(kind(power=2), kind):
                for _ in range(2):
                    with coldstep.step(name):
                        call()
    print("ran")
"""

JAX = """
import jax
import jax.numpy as jnp

w, x = jnp.ones((4, 4)), jnp.ones((3, 4))
def loss(c, w, x): return jnp.sum((x @ w) ** c.power)
class Model:
    def __init__(self, c): self.c = c
    def loss(self, w, x): return loss(self.c, w, x)
def from_global(w, x): return loss(held, w, x)

def calls(c, kind):
    global held
    held = c
    yield "eager", lambda: jax.grad(loss, argnums=1)(c, w, x)
    yield "global", lambda f=jax.jit(lambda w, x: from_global(w, x)): f(w, x)
    yield "closure", lambda f=jax.jit(lambda w, x: loss(c, w, x)): f(w, x)
    yield "partial", lambda f=jax.jit(partial(loss, c)): f(w, x)
    yield "method", lambda f=jax.jit(Model(c).loss): f(w, x)
    yield "new", lambda: jax.jit(lambda w, x: loss(c, w, x))(w, x)
    yield "scan", lambda: jax.lax.scan(lambda a, r: (a + r.sum() * c.power, r), 0.0, x)
    yield "static", lambda f=jax.jit(loss, static_argnums=0): f(c, w, x)
"""

TORCH = """
import torch

KINDS = KINDS[:3]  # Dynamo asks for the last one's itself
w, x = torch.ones((4, 4), requires_grad=True), torch.ones((3, 4))
compiled = partial(torch.compile, backend="eager")
def loss(c, w, x): return ((x @ w) ** c.power).sum()
def from_global(w, x): return loss(held, w, x)
class Model(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.inner = c, torch.nn.Linear(4, 4)
    def forward(self, x): return (self.inner(x) ** self.c.power).sum()

def calls(c, kind):
    global held
    held = c
    yield "argument", lambda f=compiled(loss): f(c, w, x)
    yield "another", lambda f=compiled(loss): f(kind(power=2), w, x)
    yield "in a list", lambda f=compiled(lambda held, w, x: loss(held[0], w, x)): f([c], w, x)
    yield "global", lambda f=compiled(from_global): f(w, x)
    yield "closure", lambda f=compiled(lambda w, x: loss(c, w, x)): f(w, x)
    yield "partial", lambda f=compiled(partial(loss, c)): f(w, x)
    yield "module", lambda f=compiled(Model(c)): f(x).backward()
    yield "eager", lambda: loss(c, w, x).backward()
"""

TENSORFLOW = """
import tensorflow as tf

w, x = tf.Variable(tf.ones((4, 4))), tf.ones((3, 4))
def loss(c, x): return tf.reduce_sum((x @ w) ** c.power)
def from_global(x): return loss(held, x)
def trained(c):
    with tf.GradientTape() as tape:
        value = loss(c, x)
    w.assign_sub(0.1 * tape.gradient(value, w))
class Model:
    def __init__(self, c): self.c = c
    @tf.function
    def loss(self, x): return loss(self.c, x)

def calls(c, kind):
    global held
    held = c
    yield "global", lambda f=tf.function(from_global): f(x)
    yield "closure", lambda f=tf.function(lambda x: loss(c, x)): f(x)
    yield "partial", lambda f=tf.function(partial(loss, c)): f(x)
    yield "method", lambda f=Model(c): f.loss(x)
    yield "new", lambda: tf.function(lambda x: loss(c, x))(x)
    yield "eager", lambda: trained(c)
"""


@pytest.mark.parametrize(
    ("stack", "source"),
    [
        pytest.param("jax", JAX, marks=pytest.mark.jax),
        pytest.param("torch", TORCH, marks=pytest.mark.torch),
        pytest.param("tensorflow", TENSORFLOW, marks=pytest.mark.tensorflow),
    ],
)
def test_an_object_that_refuses_to_be_asked_detaches_no_collector(tmp_path: Path, stack: str, source: str) -> None:
    done = program.run(f"{ODD}{source}run(calls)\n", tmp_path, stack=stack)
    assert done.stdout == "ran\n"
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert [row.name for row in trace.collectors if row.state == "failed"] == []
    assert [note for note in trace.run.notes if "failed" in note or "Error" in note] == []
    assert trace.compiles
