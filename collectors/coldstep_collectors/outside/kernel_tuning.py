"""What Triton's own autotuner tries for the program's kernels: the choices, what they took, and which one won."""

from __future__ import annotations

import math
import sys
import threading
from functools import partial, wraps
from types import FrameType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.events import TUNED, Args
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.outside._private.names import TRIES
from coldstep_collectors.outside.around import Around

_MS = 1e6
_LONGEST = 300  # characters of what names an operation


@slotted
class _Tuning:
    """A tuner that chooses, and what it has tried. It is known by its id alone: nothing of the program's is kept."""

    of: int
    left: int
    timings: dict[str, float]
    times: bool = False


_tunings: dict[int, _Tuning] = {}  # by thread


def is_choosing() -> bool:
    """Whether this thread is timing choices: a kernel compiled now belongs to one of them."""
    tuning = _tunings.get(threading.get_ident())
    return tuning is not None and tuning.times


def watch_tuning(module: Any, around: Around) -> None:
    """Hook what a tuner calls once for each set of choices, and once for each choice; a tuned kernel calls neither."""
    tuner = module.Autotuner
    if TRIES.form() is None:
        around.sink.note("What Triton's autotuner tries has no phase of its own in this version of Triton.")
        return
    prune, bench, cached = tuner.prune_configs, tuner._bench, getattr(tuner, "check_disk_cache", None)
    note, chosen = around.sink.guarded("outside", _note), around.sink.guarded("outside", partial(_chosen, around))
    around.when_done(_tunings.clear)

    @wraps(prune)
    def pruned(self: Any, *args: Any, **kwargs: Any) -> Any:
        choices = prune(self, *args, **kwargs)
        if hasattr(choices, "__len__"):
            _tunings[threading.get_ident()] = _Tuning(id(self), len(choices), {})
        return choices

    @wraps(bench)
    def tried(self: Any, *args: Any, **kwargs: Any) -> Any:
        tuning = _tunings.get(threading.get_ident())
        if tuning is None or tuning.of != id(self):
            return bench(self, *args, **kwargs)
        with around.within(AUTOTUNE, sys._getframe(1)):
            tuning.times = True
            try:
                timing = bench(self, *args, **kwargs)
            finally:
                tuning.times = False
        note(tuning.timings, kwargs.get("config"), timing)
        tuning.left -= 1
        if tuning.left <= 0:
            _tunings.pop(threading.get_ident(), None)
            chosen(self, tuning.timings, sys._getframe(1))
        return timing

    around.put(tuner, "prune_configs", pruned)
    around.put(tuner, "_bench", tried)
    if cached is not None:

        @wraps(cached)
        def looked_up(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_kept := cached(self, *args, **kwargs):
                _tunings.pop(threading.get_ident(), None)
                chosen(self, None, sys._getframe(1))
            return is_kept

        around.put(tuner, "check_disk_cache", looked_up)


def _note(timings: dict[str, float], config: Any, timing: Any) -> None:
    """A timing is a number, or the median and what lies around it."""
    timings[str(config)] = float(timing[0] if isinstance(timing, (list, tuple)) else timing)


def _chosen(around: Around, tuner: Any, timings: dict[str, float] | None, frame: FrameType) -> None:
    """Record what won; without timings, of those that an earlier process took."""
    if timings is None:
        timings = {}
        for config, timing in tuner.configs_timings.items():
            _note(timings, config, timing)
    if (outcome := _outcome(tuner, timings)) is not None:
        with around.within(AUTOTUNE, frame, {TUNED: outcome}):
            pass


def _outcome(tuner: Any, timings: dict[str, float]) -> Args | None:
    """As in `coldstep.events.TUNED`; None where no choice ran. Without tuning a program would name one itself: which,
    nobody knows."""
    if not (ran := {choice: ms for choice, ms in timings.items() if math.isfinite(ms)}):
        return None
    winner = min(ran, key=lambda choice: ran[choice])
    named = (part for part in winner.split(", ") if not part.endswith(": None"))  # what a choice leaves open
    given = {**(tuner.nargs or {})}
    sizes = [f"{key}={given[key]}" for key in tuner.keys if isinstance(given.get(key), (int, str))]
    return {
        "operation": f"{tuner.base_fn.__name__}({', '.join(sizes)})"[:_LONGEST],
        "choices": len(timings),
        "winner": ", ".join(named),
        "best_ns": round(ran[winner] * _MS),
        "untuned_ns": None,
    }
