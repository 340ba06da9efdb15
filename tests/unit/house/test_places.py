"""Whose code a file is: one table, asked as every collector asks, of this machine's files and of another's."""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import coldstep
import coldstep_collectors
import coldstep_viewers
from coldstep._util import launcher, own_package
from coldstep.places import Places, below_packages, location_of, module_of, origin_elsewhere
from coldstep_collectors.process import py_spy

PACKAGES = sysconfig.get_path("purelib")
STANDARD = sysconfig.get_path("stdlib")
FILES = {
    "/repo/train.py": "user",
    "/repo/site-packages.py": "user",
    "/repo/torchinductor_demo.py": "user",
    "<stdin>": "user",
    "<string>": "user",
    "<ipython-input-3-abc>": "user",
    "<frozen runpy>": "library",
    "<eval_with_key>.7": "library",
    f"{PACKAGES}/optax/_src/transform.py": "library",
    "/usr/lib/python3/dist-packages/numpy/__init__.py": "library",
    f"{STANDARD}/contextlib.py": "library",
    "/tmp/torchinductor_me/ab/cabc.py": "library",
    "/tmp/__autograph_generated_filek2x1.py": "library",
    coldstep.__file__: "library",
}
OF_FRAMEWORKS = {
    f"{PACKAGES}/jax/_src/numpy/lax_numpy.py": "jax",
    f"{PACKAGES}/jaxlib/xla_client.py": "jax",
    f"{PACKAGES}/torch/optim/sgd.py": "torch",
    f"{PACKAGES}/torch_xla/torch_xla.py": "torch_xla",
}


def package(name: str, folder: str = PACKAGES) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = f"{folder}/{name}/__init__.py"
    return module


def of_jax() -> Places:
    return Places(eager=(package("jax"), package("jaxlib")))


ROOMS = sorted(
    room
    for package in (coldstep, coldstep_collectors, coldstep_viewers)
    for room in Path(str(package.__file__)).parent.rglob("__init__.py")
)
"""A file of each room of ours."""


@pytest.mark.parametrize("file", ROOMS, ids=lambda path: path.parent.name)
def test_a_frame_of_each_room_is_coldsteps_own(file: Path) -> None:
    frames: dict[str, Any] = {}
    exec(compile("def called():\n    import sys\n    return sys._getframe()", file, "exec"), frames)
    places = Places()
    assert (places.origin(str(file)), places.is_known(str(file))) == ("library", True)
    innermost = next(places.users_frames(frames["called"]()))
    assert innermost.f_code.co_filename == __file__
    assert origin_elsewhere(str(file)) == "library"


@pytest.mark.parametrize(("file", "origin"), FILES.items())
def test_everybody_says_whose_a_file_is_alike(file: str, origin: str) -> None:
    torch, xla = package("torch"), package("torch_xla")
    asked = [Places(), of_jax(), Places(torch), Places(torch, xla)]
    assert {each.origin(file) for each in asked} == {origin}
    assert {each.is_users(file) for each in asked} == {origin == "user"}
    assert origin_elsewhere(file, ("jax", "jaxlib")) == origin_elsewhere(file) == origin


def test_a_framework_that_runs_from_its_sources_is_no_code_of_the_users() -> None:
    found = {
        "/w/pytorch/xla/torch_xla/core/xla_model.py": "library",
        "/w/pytorch/xla/torch_xla/torch_xla.py": "library",
        "/src/jax/jax/_src/numpy/lax_numpy.py": "eager",
        "/src/tensorflow/python/eager/context.py": "library",
        "/src/keras/keras/src/trainers/trainer.py": "library",
        "/repo/jax/train.py": "user",
        "/repo/torch_xla/train.py": "user",
    }
    assert {file: origin_elsewhere(file, ("jax", "jaxlib")) for file in found} == found


@pytest.mark.parametrize(("file", "framework"), OF_FRAMEWORKS.items())
def test_only_jax_runs_op_by_op(file: str, framework: str) -> None:
    eager = "eager" if framework == "jax" else "library"
    assert of_jax().origin(file) == origin_elsewhere(file, ("jax", "jaxlib")) == eager
    assert Places(package("torch"), package("torch_xla")).origin(file) == Places().origin(file) == "library"


def test_a_framework_built_from_source_is_no_users_and_nor_is_one_without_a_file_everything() -> None:
    built = package("torch", "/src/pytorch")
    assert Places(built).origin("/src/pytorch/torch/optim/sgd.py") == "library"
    assert Places(ModuleType("jax"), eager=[ModuleType("jaxlib")]).is_users(os.path.abspath("train.py"))


def test_what_is_just_installed_is_told_from_the_framework() -> None:
    """A library may sync for the user: that is then the place."""
    places = Places(package("torch"))
    known = [f"{PACKAGES}/torch/optim/sgd.py", f"{STANDARD}/contextlib.py", coldstep.__file__, "<frozen runpy>"]
    assert all(map(places.is_known, known))
    assert not any(map(places.is_known, [f"{PACKAGES}/optax/update.py", "/repo/train.py", "<stdin>"]))


def test_the_users_innermost_frame_and_the_name_of_a_librarys_module() -> None:
    def inner() -> str:
        frame = Places().users_frame(sys._getframe())
        assert frame is not None
        return str(location_of(frame)["function"])

    assert inner() == "inner"
    assert below_packages(f"{PACKAGES}/torch/optim/sgd.py") == "torch/optim/sgd.py"
    assert below_packages("/repo/train.py") is None
    assert module_of(f"{PACKAGES}/torch/optim/__init__.py") == "torch.optim"
    assert module_of(f"{STANDARD}/logging/__init__.py") == "logging"
    assert module_of("/opt/conda/envs/net/lib/python3.10/logging/__init__.py") == "logging"  # of a log's machine
    assert module_of("/usr/lib64/python3/contextlib.py") == "contextlib"
    assert module_of("/opt/pytorch/torch/nn/modules/rnn.py") == "torch.nn.modules.rnn"
    assert module_of("/usr/lib/python3/dist-packages/apt/lib/python3.9/cache.py") == "apt.lib.python3.9.cache"


LAUNCHERS = {
    "console script": ("import re\nimport sys\nfrom tool.cli import main\nif __name__ == '__main__':\n"
                       "    sys.argv[0] = re.sub('x', '', sys.argv[0])\n    sys.exit(main())\n"),
    "one line": "import tool; tool.main()",
    "with a trace": "import coldstep, tool\nwith coldstep.trace('run.pftrace'):\n    tool.main()\n",
}  # fmt: skip
SCRIPTS = {
    "a loop": "import tool\nfor _ in range(3):\n    tool.step()\n",
    "a function": "import tool\ndef main():\n    tool.main()\nmain()\n",
    "a name": "import tool\nmodel = tool.Model()\nmodel.fit()\n",
}


def test_the_package_that_a_script_only_calls_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for name, text in (LAUNCHERS | SCRIPTS).items():
        script = tmp_path / f"{name}.py"
        script.write_text(text)
        main.__file__ = str(script)
        expected = "user" if name in LAUNCHERS else "library"
        assert Places().origin(f"{PACKAGES}/tool/inner/model.py") == expected, name
        assert Places().origin(f"{PACKAGES}/other/model.py") == "library", name


def test_the_package_that_python_runs_as_a_module_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for module, expected in (("tool.cli", "user"), ("tool", "user"), ("server.cli", "library")):
        main.__spec__ = ModuleSpec(module, None, origin=f"{PACKAGES}/{module.replace('.', '/')}.py")
        assert Places().origin(f"{PACKAGES}/{module.partition('.')[0]}/inner/model.py") == expected, module


def test_a_package_that_uses_a_framework_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("tool.cli", None, origin=f"{PACKAGES}/tool/cli.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    looks = []

    class Watched(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name == "__dict__":
                looks.append(name)
            return super().__getattribute__(name)

    sys.modules["tool"].__class__ = Watched
    places = Places()
    assert all(places.is_users(f"{PACKAGES}/tool/layer{number}.py") for number in range(100))
    assert len(looks) == 1


@pytest.mark.parametrize(
    "look", [lambda: Places().is_users(f"{PACKAGES}/tool/layer.py"), lambda: py_spy._Modules().of("a.py")]
)
def test_a_module_that_comes_during_a_look_at_all_fails_nothing(
    look: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Python 3.12 a collection of garbage may begin within the look, and another thread go on meanwhile."""
    _installed(monkeypatch)
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("tool.cli", None, origin=f"{PACKAGES}/tool/cli.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    many = {f"other{number}": main for number in range(5_000)}  # more pairs than Python keeps for the next ones
    monkeypatch.setattr(sys, "modules", sys.modules | many)  # which Python's own import goes on without

    def come(*_: object) -> None:
        sys.modules[f"made{len(sys.modules)}"] = main

    often = gc.get_threshold()
    gc.callbacks.append(come)
    gc.set_threshold(1)
    try:
        assert look()
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(come)


def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_package, "_users", set())
    tool = package("tool")
    tool.__path__ = [f"{PACKAGES}/tool"]
    tool.jnp = ModuleType("jax.numpy")  # what it computes with
    monkeypatch.setitem(sys.modules, "tool", tool)
    server = package("server")
    server.__path__ = [f"{PACKAGES}/server"]
    monkeypatch.setitem(sys.modules, "server", server)


def test_a_script_with_functions_of_its_own_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n\n\ndef train(batch):\n    return batch\n\n\ntrain(1)\n")
    parsed: list[str] = []
    monkeypatch.setattr(launcher.ast, "parse", parsed.append)
    assert own_package._launched_by(str(script)) == frozenset()
    assert parsed == []
