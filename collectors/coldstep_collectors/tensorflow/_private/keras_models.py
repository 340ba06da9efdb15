"""What Keras calls as a model is compiled, and as it is called itself, outside of Keras' loops."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType
from typing import Any

from coldstep.blind_spots import Unseen
from coldstep.errors import our_errors
from coldstep.places import arguments, frames
from coldstep_collectors.patch import Patch

MODULE = "keras.src.models.model"
DIRECT = Unseen("calls of Keras models themselves, outside of fit, evaluate and predict")
_TRAINER = "keras.src.backend.tensorflow.trainer"
_NAMES = ("name", "registered_name", "build_config")
_TRAINS = ("fit", "train_on_batch")


def around_models(
    module: Any,
    compiled: Sequence[Callable[[Any, FrameType], None]],
    called: Callable[[Any, FrameType], None],
    missing: list[str],
) -> list[Patch]:
    """Have all of `compiled` called after each `model.compile(…)`, and `called` before each call of a model itself,
    with the model and the caller's frame. None may raise. Of Keras over TensorFlow alone."""
    kind = getattr(module, "Model", None)
    if kind is None or not any(each.__module__ == _TRAINER for each in kind.__mro__):
        return []
    if not all(any(name in vars(each) for each in kind.__mro__) for name in ("compile", "__call__", "call")):
        missing.append(DIRECT)
        return []
    compile_, call = kind.compile, kind.__call__

    @wraps(compile_)
    def compiling(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = compile_(self, *args, **kwargs)
        for each in compiled:
            each(self, sys._getframe(1))
        return result

    @wraps(call)
    def calling(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (args and _is_symbolic(args[0])):
            called(self, sys._getframe(1))
        return call(self, *args, **kwargs)

    # AutoGraph rewrites every function that a traced one calls, but for those that have this
    vars(calling)["autograph_info__"] = {}
    return [Patch(kind, "compile", compiling), Patch(kind, "__call__", calling)]


def _is_symbolic(given: Any) -> bool:
    """Whether a model is called to build another, and computes nothing."""
    while isinstance(given, list | tuple) and given:
        given = given[0]
    return type(given).__name__ == "KerasTensor"


def layers_of(model: Any) -> list[Any]:
    """A model's layers; nothing of anything else."""
    layers = getattr(model, "layers", None)
    return layers if isinstance(layers, list) else []


def set_up_of(model: Any) -> Any:
    """What a model keeps of the losses that its compile() was given; None of anything else."""
    return getattr(model, "_compile_loss", None)


def layers_and_weights(model: Any) -> tuple[list[str], list[Any]] | None:
    """The names of a functional or sequential model's layers, in their order, and its weights; None of anything else,
    whose `call` may be any."""
    if not (_is_of_layers(model) and any(each.__module__ == _TRAINER for each in type(model).__mro__)):
        return None
    try:
        return [each.name for each in model.layers], [*model.weights]
    except our_errors():  # a model that is not built yet
        return None


def _is_of_layers(model: Any) -> bool:
    """Whether it is a functional or sequential model, or of a class right above one."""
    return bool({"Functional", "Sequential"} & {each.__name__ for each in type(model).__mro__[:2]})


def layout_of(model: Any) -> str:
    """What a model is built of, as a hash: its layers and its optimizer with their settings, its loss, its weights'
    types; "" of anything else, of a model without weights, and of one with a part that has no settings."""
    if not any(each.__module__ == _TRAINER for each in type(model).__mro__):
        return ""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None and not _is_of_layers(model):  # compile() has not been called: of a class of the user's
        return ""  # nothing then is the same but its layers
    try:
        weights = [(str(each.dtype), tuple(each.shape)) for each in model.weights]
        layers = [(type(each).__qualname__, _settings(each)) for each in model.layers]
        built = layers, weights, _settings(optimizer), type(model.loss).__qualname__, _settings(model.loss)
    except our_errors():  # a model that is not built yet, or a layer of the user's that does not tell its settings
        return ""
    return f"{zlib.crc32(repr((type(model).__qualname__, built)).encode()):08x}" if weights else ""


def settings_and_rate(model: Any) -> tuple[str, float] | None:
    """What compile() set of a model, its layers' settings, and which of its weights train, as a hash; and beside it the
    learning rate. None where that is not known: of a model that is not built yet, of a schedule, which is compiled in,
    and of a part of the user's own, of which Keras may know no more than the name."""
    try:
        settings = _without_names(model.get_compile_config())
        rate = settings["optimizer"]["config"].pop("learning_rate")
        layers, trains = [*map(_settings, model.layers)], [each.trainable for each in model.weights]
    except our_errors():  # a loss of the user's that does not tell its settings
        return None
    if not trains or type(rate) is not float or not _is_keras_own(settings):
        return None
    return f"{zlib.crc32(repr((settings, layers, trains)).encode()):08x}", rate


def _is_keras_own(settings: Any) -> bool:
    """Whether no part of what compile() was given is a function or an object of the user's."""
    if isinstance(settings, dict):
        is_own = "class_name" not in settings or str(settings.get("module")).startswith("keras.")
        return is_own and all(map(_is_keras_own, settings.values()))
    return not isinstance(settings, list) or all(map(_is_keras_own, settings))


def _settings(part: Any) -> Any:
    """What a layer, an optimizer or a loss was made with, but for names, which Keras numbers."""
    return _without_names(part.get_config()) if hasattr(part, "get_config") else repr(part)


def _without_names(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: _without_names(value) for key, value in config.items() if key not in _NAMES}
    if isinstance(config, list | tuple):
        return [*map(_without_names, config)]
    return config


def runs_eagerly(model: Any) -> bool:
    """Whether nothing compiles a call of the model itself: neither the model's `call` nor what it was asked to."""
    call = getattr(model, "call", None)
    return not (getattr(model, "run_eagerly", False) or hasattr(call, "get_concrete_function"))


def loop_of_model(frame: FrameType) -> tuple[Any, FrameType] | None:
    """The model whose step Keras runs in `frame`, and who called the method that runs it, `fit` or `train_on_batch`;
    None where Keras runs none."""
    file = getattr(sys.modules.get(_TRAINER), "__file__", None)
    runs = [each for each in frames(frame) if each.f_code.co_filename == file and each.f_code.co_name in _TRAINS]
    if not runs or (caller := runs[-1].f_back) is None:
        return None
    return dict(arguments(runs[-1])).get("self"), caller
