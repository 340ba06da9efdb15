"""What is read off Python's instructions is the same on every Python, whose instructions differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from pythons import VERSIONS, on

READS = """\
import json
from coldstep.places import Places
from coldstep_collectors.captures import Captures
from coldstep_collectors.values import Numbers

class Model:
    scale = 2.0

    def __init__(self):
        self.scale, self.bias, self.written = 2.0, 1.0, 0.0

    def last_of_two(self, x):
        return x * self.scale

    def after_a_store(self, x):
        y = x
        return y * self.scale

    def in_a_comprehension(self, x):
        return [x * self.scale for _ in range(3)]

    def in_a_lambda(self, x):
        return (lambda y: y * self.scale)(x)

    def written_as_well(self, x):
        self.written = x
        return x * self.written

    def of_the_other(self, x, other):
        return [x * other.scale, self.bias]

model = Model()
found = {
    name: Captures([getattr(model, name), getattr(Model, name)], model, Places(), Numbers()).context()
    for name in vars(Model) if name[0] != "_" and name != "scale"
}
print(json.dumps(found))
"""
LOOP = """\
import json, sys
from coldstep_collectors.jax import caller_variables as whereabouts
from coldstep_collectors import bytecode
from coldstep_collectors.torch import collector as dynamo
from coldstep_collectors import values

found = {}

def call(state, batch):
    frame = sys._getframe(1)
    [held] = whereabouts.held({"state": state, "batch": batch}, [frame])
    stored = whereabouts.stored(frame, ("new state", 0.5))
    found["paths"] = held.paths
    found["stored"] = stored.names
    found["next"] = held.now(frame, stored)
    found["in a loop"] = [
        bytecode.loops(frame.f_code, frame.f_lasti), dynamo._is_in_loop(frame.f_code, frame.f_lineno)
    ]
    return "new state", 0.5

def train(state, batches):
    for batch in batches:
        state, loss = call(state, batch)
        log = [loss * each for each in (1, 2)]

train("state", ["batch"])
found["globals"] = sorted(values.globals_read(train.__code__))
print(json.dumps(found))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_method_reads_of_its_object_is_the_same_on_every_python(version: str, tmp_path: Path) -> None:
    scale = {"attribute self.scale": "2.0"}
    assert on(version, READS, tmp_path) == {
        "last_of_two": scale,
        "after_a_store": scale,
        "in_a_comprehension": scale,
        "in_a_lambda": scale,
        "written_as_well": {},
        "of_the_other": {"attribute self.bias": "1.0"},
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_loop_goes_on_with_is_the_same_on_every_python(version: str, tmp_path: Path) -> None:
    assert on(version, LOOP, tmp_path) == {
        "paths": {"state": [["state"]], "batch": [["batch"]]},
        "stored": {"state": "new state", "loss": 0.5},
        "in a loop": [True, True],
        "globals": ["call"],
        "next": {"state": ["new state"]},  # the loop sets the other before it calls again
    }


AFTER = """\
import json
import sys
from contextlib import nullcontext
from coldstep_collectors import bytecode

frames = []

def seen():
    frames.append(sys._getframe(1))
    at.append(frames[-1].f_lasti)

def main():
    for n in range(2):
        with nullcontext():
            seen()
        seen()
    seen()  # after the loop, whose handler Python 3.12 puts behind this
    while True:
        try:
            seen()
        finally:
            pass
        if n:
            break
        n += 1

at = []
main()
print(json.dumps([bytecode.loops(frame.f_code, offset) for frame, offset in zip(frames, at)]))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_what_follows_a_loop_with_a_handler_is_in_no_loop_on_every_python(version: str, tmp_path: Path) -> None:
    assert on(version, AFTER, tmp_path) == [True, True, True, True, False, True]
