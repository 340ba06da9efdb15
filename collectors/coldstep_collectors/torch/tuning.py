"""What Inductor's autotuning chose among: PyTorch hands it to whoever asks, once all choices are timed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from coldstep.events import Args
from coldstep_collectors.torch._private.names import TUNER

_MODULE = "torch._inductor.select_algorithm"
_MS = 1e6


def watch(tuned: Callable[..., None]) -> Callable[[], str | None] | None:
    """Call `tuned(timings, name, inputs, ...)` after each autotuning; returns what ends that, None where it cannot."""
    if TUNER.form() is None:
        return None
    cache = sys.modules[_MODULE].get_algorithm_selector_cache()
    cache.add_feedback_saver(tuned)

    def undo() -> str | None:
        kept = cache.feedback_saver_fns
        cache.feedback_saver_fns = [each for each in kept if each is not tuned]
        return None

    return undo


def describe(timings: Mapping[Any, float], name: str, inputs: list[Any]) -> Args | None:
    """What it came to, as in `coldstep.events.TUNED`; None where no choice ran. Timings are in milliseconds."""
    ran = {choice: ms for choice, ms in timings.items() if math.isfinite(ms)}
    if not ran:
        return None
    winner = min(ran, key=lambda choice: ran[choice])
    # what needs no template is what is taken where nothing is tuned: the first of those that call a library
    untuned = next((ms for choice, ms in ran.items() if type(choice).__name__ == "ExternKernelCaller"), None)
    return {
        "operation": f"{name}({', '.join(map(_sizes, inputs))})",
        "choices": len(timings),
        "winner": str(getattr(winner, "name", type(winner).__name__)),
        "best_ns": round(ran[winner] * _MS),
        "untuned_ns": round(untuned * _MS) if untuned is not None else None,
    }


def _sizes(node: Any) -> str:
    return "x".join(map(str, node.get_size()))
