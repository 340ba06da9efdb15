"""Compiles of a log that overlap keep their phases."""

from __future__ import annotations

from coldstep.events import Begin, End, Event
from coldstep.logs.lanes import on_lanes
from coldstep.recording.buffer import Thread


def test_a_phase_is_of_the_compile_that_began_last() -> None:
    first, second = (Begin(ns, name, "jax", compile=name) for ns, name in ((0, "f"), (50, "g")))
    phase = Begin(60, "jax.trace", "jax", "jax.trace")
    events: list[Event] = [first, second, phase, End(80, phase), End(100, first), End(150, second)]
    home = Thread(1, "main")
    of = {id(event): thread.tid for event, thread in on_lanes(events, home)}
    assert of[id(first)] == home.tid
    assert of[id(phase)] == of[id(second)] != home.tid
