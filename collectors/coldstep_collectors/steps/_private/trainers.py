"""The calls of libraries that run a training loop, or time its steps; none of them is imported here.

A module is handed in when the program has imported it. `missing` lists the absent parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FrameType
from typing import Any

from coldstep.blind_spots import Unseen
from coldstep.places import frames
from coldstep_collectors.patch import Patch, Undo

HUGGING_FACE = "transformers.trainer_callback"
LIGHTNING = ("lightning.pytorch.trainer.call", "pytorch_lightning.trainer.call")
KERAS = "keras.src.callbacks.callback_list"
TORCH_PROFILER = "torch.profiler.profiler"
JAX_PROFILER = "jax._src.profiler"
TELLING = (HUGGING_FACE, *LIGHTNING, KERAS, TORCH_PROFILER, JAX_PROFILER)
"""The modules that call something for each step."""

Told = Callable[[Any, str, bool], None]
"""Is called with the object whose loop it is, the library's word for what happens, and whether it is over."""

_KERAS_LOOPS = ("fit", "evaluate", "predict")
_KERAS_COUNTS = {"fit": "train_step", "evaluate": "test_step"}
"""Loops that count the rows of an epoch, and the method of a model that does it for each batch."""
_KERAS_STEPS = "keras.src.backend.tensorflow.trainer"
"""Where those methods are Keras' own, and not a model's."""
_KERAS_EVENTS = tuple(
    f"on_{what}_{when}" for what in ("train_batch", "test_batch", "predict_batch", "train") for when in ("begin", "end")
)


def around_events_of_trainer(module: Any, announce: Told, missing: list[str]) -> list[Undo]:
    """Have `announce(handler, event, is_over)` called around each event of a Trainer of Hugging Face's."""
    kind = getattr(module, "CallbackHandler", None)
    return [_around(kind, "call_event", announce, missing, "transformers.Trainer")]


def around_hooks_of_lightning(module: Any, announce: Told, missing: list[str]) -> list[Undo]:
    """Have `announce(trainer, hook, is_over)` called around each hook of a Trainer of Lightning's."""
    return [_around(module, "_call_callback_hooks", announce, missing, "lightning.Trainer")]


def around_batches_of_keras(module: Any, announce: Told, missing: list[str]) -> list[Undo]:
    """Have `announce(callbacks, event, is_over)` called around what Keras calls before and after each batch."""
    kind = getattr(module, "CallbackList", None)
    return [_around(kind, event, announce, missing, "keras.Model", event) for event in _KERAS_EVENTS]


def around_profiler_steps(module: Any, announce: Told, missing: list[str]) -> list[Undo]:
    """Call `announce(profile, "start" or "step", is_over)` around calls that start torch.profiler or end a step."""
    kind = getattr(module, "profile", None)
    return [_around(kind, name, announce, missing, "torch.profiler", name) for name in ("start", "step")]


def around_step_annotations(module: Any, announce: Told, missing: list[str]) -> list[Undo]:
    """Have `announce(annotation, its name, is_over)` called as a `jax.profiler.StepTraceAnnotation` begins and ends."""
    kind = getattr(module, "StepTraceAnnotation", None)
    if kind is None or not hasattr(kind, "__enter__"):
        missing.append(_unseen("jax.profiler.StepTraceAnnotation"))
        return []
    make, enter, leave = kind.__init__, kind.__enter__, kind.__exit__

    @wraps(make)
    def made(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        make(self, name, *args, **kwargs)
        self._coldstep_name = str(name)

    @wraps(enter)
    def entered(self: Any) -> Any:
        announce(self, getattr(self, "_coldstep_name", "step"), False)
        return enter(self)

    @wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        result = leave(self, *error)
        announce(self, getattr(self, "_coldstep_name", "step"), True)
        return result

    hooks = {"__init__": made, "__enter__": entered, "__exit__": left}
    return [Patch(kind, name, hook).undo for name, hook in hooks.items()]


def accumulates(trainer: Any) -> bool:
    """Whether a Trainer of Lightning's sums the gradients of several batches for each step."""
    return bool(getattr(trainer, "accumulate_grad_batches", 1) != 1)


def rows_of_keras_batch(frame: FrameType, others: int | None) -> int | None:
    """How many rows the batch had that a Keras loop, running above `frame`, has just called the model for; None
    where there is no such loop, or where Keras does not know it either. `others` is how many every batch before it had;
    None where that is not known, or not one number."""
    for each in frames(frame):
        if each.f_code.co_name in _KERAS_LOOPS and (epoch := each.f_locals.get("epoch_iterator")) is not None:
            return _rows(epoch, each.f_locals, others, _KERAS_COUNTS.get(each.f_code.co_name, ""))
    return None


def _rows(epoch: Any, loop: Mapping[str, Any], others: int | None, counts: str) -> int | None:
    model, step = loop.get("self"), loop.get("begin_step")
    replicas = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
    if step is None or step != loop.get("end_step") or replicas != 1:
        return None
    adapter: Any = getattr(epoch, "data_adapter", None)
    usual = getattr(adapter, "batch_size", None)
    # by steps_per_epoch an epoch may begin amid the data
    if usual is None or getattr(epoch, "steps_per_epoch", None) is not None:
        return _counted(model, step, others, counts)
    return int((adapter.partial_batch_size if step + 1 == adapter.num_batches else None) or usual)


def _counted(model: Any, step: int, others: int | None, counts: str) -> int | None:
    """As many as Keras' own step has added, in its graph, to the number of rows that an epoch's loss is the mean of."""
    is_keras = getattr(getattr(type(model), counts, None), "__module__", "") == _KERAS_STEPS
    count = getattr(getattr(model, "_loss_tracker", None), "count", None)
    if not is_keras or count is None or (step and others is None):
        return None
    rows = int(count.numpy()) - step * (others or 0)
    return rows if rows > 0 else None


def _around(owner: Any, name: str, announce: Told, missing: list[str], library: str, event: str | None = None) -> Undo:
    """Call `announce` around a library's function, with its first two arguments, or with the first and `event`."""
    if (call := getattr(owner, name, None)) is None:
        missing.append(_unseen(library))
        return lambda: None

    @wraps(call)
    def called(first: Any, *args: Any, **kwargs: Any) -> Any:
        what = event or str(args[0] if args else kwargs.get("event", ""))
        announce(first, what, False)
        result = call(first, *args, **kwargs)
        announce(first, what, True)
        return result

    return Patch(owner, name, called).undo


def _unseen(library: str) -> str:
    return Unseen(f"the steps of {library} (this version of it calls others)")
