"""What Inductor's autotuning chose among: PyTorch hands it to whoever asks, once all choices are timed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from coldstep.errors import contained
from coldstep.events import Args
from coldstep_collectors.patch import Patch, Undo
from coldstep_collectors.torch._private.names import TUNER

_MODULE = "torch._inductor.select_algorithm"
_MS = 1e6


def watch(tuned: Callable[..., None]) -> Undo | None:
    """Call `tuned(timings, name, inputs, ...)` after each autotuning; returns what ends that, None where it cannot.

    PyTorch's cache of choices is asked to do so as it chooses for the first time: to make one takes half a second
    (it reads all of Triton's files) and asks for the device, in each process that imports Inductor's kernels.
    """
    if TUNER.form() is None:
        return None
    owner = sys.modules[_MODULE].AlgorithmSelectorCache
    choose, caches = owner.__call__, list[Any]()

    @wraps(choose)
    def chooses(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(cache is self for cache in caches):
            with contained():
                caches.append(self)
                self.add_feedback_saver(tuned)
        return choose(self, *args, **kwargs)

    patch = Patch(owner, "__call__", chooses)

    def undo() -> str | None:
        for cache in caches:
            cache.feedback_saver_fns = [each for each in cache.feedback_saver_fns if each is not tuned]
        return patch.undo()

    return undo


def describe(timings: Mapping[Any, float], name: str, inputs: list[Any]) -> Args | None:
    """What it came to, as in `coldstep.events.TUNED`; None where no choice ran. Timings are in milliseconds."""
    if not (ran := {choice: ms for choice, ms in timings.items() if math.isfinite(ms)}):
        return None
    winner = min(ran, key=lambda choice: ran[choice])
    # what needs no template is what is taken where nothing is tuned: the first of those that call a library
    untuned = next((ms for choice, ms in ran.items() if type(choice).__name__ == "ExternKernelCaller"), None)
    return {
        "operation": f"{name}({', '.join('x'.join(map(str, node.get_size())) for node in inputs)})",
        "choices": len(timings),
        "winner": str(getattr(winner, "name", type(winner).__name__)),
        "best_ns": round(ran[winner] * _MS),
        "untuned_ns": round(untuned * _MS) if untuned is not None else None,
    }
