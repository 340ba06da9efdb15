"""Sees steps that other parts of the program announce: the trainer that runs its loop, another tool that times it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType
from typing import Any

from coldstep._util.slotted import field, slotted_object
from coldstep.candidates import Candidate, Kind
from coldstep.clock import now
from coldstep.errors import our_errors
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.steps._private import trainers as private
from coldstep_collectors.steps.call_sites import CallSites

_MOST_BATCHES = 10_000  # of an evaluation that has not said yet what it is
_LOOPS = 64  # objects whose loops are followed at a time


@slotted_object
class _Loop:
    """A loop under way."""

    begin: int = 0
    """When its step, or batch, began; 0 where none is open."""
    last: int = 0
    """When it was last heard of."""
    stepped: bool = False
    """Whether the optimizer has stepped since its last step began."""
    training: bool = False
    checking: bool = False
    """Whether a few batches are run to see that the evaluation works."""
    batches: list[tuple[int, int]] = field(default_factory=list)
    """Those of an evaluation that has not said yet what it is."""


class ToldSteps:
    """Listens to trainers and tools until stopped; `failed` gets an error in that."""

    def __init__(self, sites: CallSites, failed: Callable[[Exception], None]) -> None:
        self._sites = sites
        self._failed = failed
        self._undo: list[Undo] = []
        self._on = True
        self._loops: dict[int, _Loop] = {}
        self._candidates: dict[tuple[object, ...], Candidate | None] = {}
        self._codes: dict[int, CodeType] = {}

    def attach(self, name: str, module: Any) -> list[str]:
        """Listen to what a module of that name has, from now on; what cannot be heard, in words."""
        missing: list[str] = []
        around, handle = {
            private.HUGGING_FACE: (private.around_events_of_trainer, self._trainer),
            **dict.fromkeys(private.LIGHTNING, (private.around_hooks_of_lightning, self._lightning)),
            private.KERAS: (private.around_batches_of_keras, self._keras),
            private.TORCH_PROFILER: (private.around_profiler_steps, self._profiler),
            private.JAX_PROFILER: (private.around_step_annotations, self._annotation),
        }[name]
        runs = name not in (private.TORCH_PROFILER, private.JAX_PROFILER)
        self._undo += around(module, self._guarded(handle, runs=runs), missing)
        return missing

    def forked(self) -> None:
        """See `Source`."""
        self._loops.clear()
        self._candidates.clear()

    def stop(self) -> list[str]:
        """Listen no longer; what stays, in words."""
        self._on = False
        left = undo_all(self._undo)
        for known in (self._loops, self._candidates, self._codes):
            known.clear()
        return left

    def _guarded(self, handle: Callable[[_Loop, Any, str, int, bool], None], *, runs: bool) -> private.Told:
        """`told`, of what `runs` the program's loop: between two of its calls nothing is under way."""

        def tell(owner: Any, what: str, is_over: bool) -> None:
            if not (self._on and self._sites.awake()):
                return
            if runs and not is_over:
                self._sites.between_calls()
            ns = now()
            try:
                handle(self._loop(owner), owner, what, ns, is_over)
            except our_errors() as error:
                self._on = False
                self._failed(error)

        return tell

    def _loop(self, owner: Any) -> _Loop:
        known = self._loops
        if (loop := known.get(id(owner))) is None:
            if len(known) >= _LOOPS:
                del known[next(iter(known))]
            loop = known[id(owner)] = _Loop()
        return loop

    def _add(self, kind: Kind, function: str, name: str, *calls: tuple[int, int]) -> None:
        users = self._sites.users_frame(sys._getframe(1))
        place = (id(users.f_code), users.f_lasti) if users is not None else None
        key = function, name, place, get_ident()
        if key not in self._candidates:
            if users is not None:
                self._codes[id(users.f_code)] = users.f_code
            self._candidates[key] = self._sites.candidate(kind, function, users, name=name)
        if (candidate := self._candidates[key]) is not None:
            candidate.calls += calls

    # --- trainers ---------------------------------------------------------------------------------------------

    def _trainer(self, loop: _Loop, _: Any, event: str, ns: int, is_over: bool) -> None:
        """Events of Hugging Face's Trainer: an evaluation says only at its end that it was one."""
        function = "transformers.Trainer"
        if not is_over:
            if event == "on_step_begin":
                loop.begin = ns
            return
        if event == "on_step_end" and loop.begin:
            self._add("trainer", function, "step", (loop.begin, ns))
            loop.begin = 0
        elif event == "on_prediction_step" and len(loop.batches) < _MOST_BATCHES:
            loop.batches.append((loop.last, ns))
        elif event in ("on_evaluate", "on_predict") and loop.batches:
            self._add("trainer", function, "validation" if event == "on_evaluate" else "prediction", *loop.batches)
            loop.batches.clear()
        loop.last = ns

    def _lightning(self, loop: _Loop, trainer: Any, hook: str, ns: int, is_over: bool) -> None:
        """Hooks of Lightning's Trainer: of several batches whose gradients are summed, a step is all of them."""
        what, _, when = hook.removeprefix("on_").rpartition("_")
        if what == "sanity_check":
            loop.checking = when == "start"
        elif hook == "on_before_optimizer_step":
            loop.stepped = True
        elif not what.endswith("_batch"):
            return
        elif when == "start" and not is_over:
            loop.begin = loop.begin or ns
        elif when == "end" and is_over and loop.begin:
            if what == "train_batch" and private.accumulates(trainer) and not loop.stepped:
                return
            name = "sanity check" if loop.checking else _LIGHTNING.get(what.removesuffix("_batch"), what)
            self._add("trainer", "lightning.Trainer", name, (loop.begin, ns))
            loop.begin, loop.stepped = 0, False

    def _keras(self, loop: _Loop, _: Any, event: str, ns: int, is_over: bool) -> None:
        """What Keras calls around batches, or around as many as `steps_per_execution` says."""
        _, what, *more = event.split("_")
        begins = more[-1] == "begin"
        if more == ["begin"] or more == ["end"]:
            loop.training = begins
        elif begins and not is_over:
            loop.begin = ns
        elif not begins and is_over and loop.begin:
            name = "validation" if what == "test" and loop.training else _KERAS[what]
            self._add("trainer", "keras.Model", name, (loop.begin, ns))
            loop.begin = 0

    # --- tools ------------------------------------------------------------------------------------------------

    def _profiler(self, loop: _Loop, _: Any, what: str, ns: int, is_over: bool) -> None:
        """torch.profiler: a step lasts from one `step()` to the next."""
        if is_over and what == "step" and loop.begin:
            self._add("other_tool", "torch.profiler.profile.step", "step", (loop.begin, ns))
        loop.begin = ns if is_over else loop.begin

    def _annotation(self, loop: _Loop, _: Any, name: str, ns: int, is_over: bool) -> None:
        """A `StepTraceAnnotation` of JAX's, by the name that the program gives it."""
        if not is_over:
            loop.begin = ns
        elif loop.begin:
            self._add("other_tool", "jax.profiler.StepTraceAnnotation", name, (loop.begin, ns))
            loop.begin = 0


_LIGHTNING = {"train": "step", "validation": "validation", "test": "test", "predict": "prediction"}
_KERAS = {"train": "step", "test": "evaluation", "predict": "prediction"}
