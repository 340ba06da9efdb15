"""The hook around Keras' models: it is there only where Keras runs over TensorFlow, and goes without a trace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coldstep_collectors.tensorflow._private.keras_models import DIRECT, around_models, runs_eagerly


def model(*names: str, backend: str = "tensorflow") -> Any:
    """A module with a class `Model` that has these methods from its base."""
    trainer = type("Trainer", (), {"__module__": f"keras.src.backend.{backend}.trainer"})
    base = type("Layer", (), {name: lambda self, *args: args for name in names})
    return SimpleNamespace(Model=type("Model", (trainer, base), {}))


def test_calls_are_seen_and_what_builds_another_model_is_none() -> None:
    module, seen = model("compile", "__call__", "call"), list[str]()
    patches = around_models(module, [lambda *_: seen.append("compiled")], lambda *_: seen.append("called"), [])
    made = module.Model()
    assert (made.compile("sgd"), made(2)) == (("sgd",), (2,))
    made([type("KerasTensor", (), {})()])
    assert seen == ["compiled", "called"]
    assert [patch.undo() for patch in patches] == [None, None]
    assert not {"compile", "__call__"} & vars(module.Model).keys()


def test_another_keras_is_left_alone_and_what_is_not_seen_is_known() -> None:
    for module, expected in (
        (model("compile", "__call__", "call", backend="jax"), []),
        (SimpleNamespace(), []),
        (model("compile", "call"), [DIRECT]),
        (model("__call__", "call"), [DIRECT]),
    ):
        missing: list[str] = []
        assert around_models(module, [print], print, missing) == []
        assert missing == expected


def test_a_model_whose_call_is_compiled_does_not_run_eagerly() -> None:
    assert runs_eagerly(SimpleNamespace(call=print))
    assert not runs_eagerly(SimpleNamespace(call=print, run_eagerly=True))
    assert not runs_eagerly(SimpleNamespace(call=SimpleNamespace(get_concrete_function=print)))
