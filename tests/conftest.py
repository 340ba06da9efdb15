"""What several test modules share."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# a job in the background of a shell inherits an ignored Ctrl-C, and so would every program under test
signal.signal(signal.SIGINT, signal.default_int_handler)

# nearly every test starts a process, which would parse all of coldstep where the environment wants no bytecode kept
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# what Inductor takes longest for in a first run: a program of C++ for each vector instruction set that it tries
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
# of a small program's compile most is LLVM's, which no test is about
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

# TensorFlow's LLVM and Triton's do not go together in that order: the interpreter dies, with coldstep or without
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

# how long a busy machine takes to make up values says nothing of them
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# torch_xla needs an older torch, and so an environment of its own, which lacks some tools of the other tests
_IS_XLA = find_spec("torch_xla") is not None
_TESTS = Path(__file__).parent
_BUSY = 2.0  # processes that want a processor, for each that there is
_APART = "tests/scenarios/test_scenarios.py"  # each program is a test by itself
collect_ignore = [
    str(path) for path in _TESTS.rglob("test_*.py") if _IS_XLA and "mark.torch_xla" not in path.read_text()
]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of torch_xla run in its environment only, and those of another framework where it is."""
    if not _IS_XLA and item.get_closest_marker("torch_xla"):
        pytest.skip("torch_xla is in .venv-xla")
    for name in ("jax", "torch", "tensorflow"):
        if item.get_closest_marker(name) and find_spec(name) is None:
            pytest.skip(f"{name} is in .venv: make venv")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that needs a processor in time tells nothing where each has much more to do: it is skipped."""
    report = yield
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if report.failed and item.get_closest_marker("timing") and load > _BUSY:
        path, line, _ = item.location
        why = f"Skipped: failed at a load of {load:.1f} for each processor; run it alone"
        report.outcome, report.longrepr = "skipped", (path, line or 0, why)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Of what is imported and collected nothing is garbage: to look for some took two seconds of five."""
    gc.disable()
    collected = yield
    if "PYTEST_XDIST_WORKER" in os.environ and "torch" in sys.modules:  # a worker of many tests
        from torch._dynamo import guards

        guards.profile_guard_manager = lambda *_: 0.0  # it writes 32 MB in each compile, to time its guards
    gc.enable()
    gc.freeze()
    return collected


def pytest_sessionfinish() -> None:
    """What the session, or a command in it, has frozen is looked at again."""
    gc.unfreeze()
    if (warm := sys.modules.get("scenarios.warm")) is not None:
        warm.end_all()  # now, so that their time is still counted as ours


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A module's tests run in one worker, so that its fixtures are made once; scenarios fill what is left.

    Only where `--dist loadfile` asks for it.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file == _APART else file

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def _every_key_is_known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace that a test reads has a key in a signature's context that `coldstep.context` does not declare."""
    from coldstep import context

    if request.node.get_closest_marker("undeclared"):
        return
    read = context.context_of

    def strict(said: Any) -> dict[str, str]:
        found = read(said)
        unknown = [key for key in found if context.parsed(key) is None]
        assert not unknown, f"keys that coldstep/context.py does not declare: {unknown}"
        return found

    monkeypatch.setattr(context, "context_of", strict)


@pytest.fixture(autouse=True)
def _every_word_is_declared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace that a test reads has tracks or phases that are in no vocabulary, whatever process wrote it."""
    from coldstep import loading
    from coldstep.recording.recorder import UNDECLARED

    if request.node.get_closest_marker("undeclared"):
        return
    made = loading._trace

    def strict(*given: Any) -> Any:
        trace = made(*given)
        assert not [note for note in trace.run.notes if UNDECLARED in note]
        return trace

    monkeypatch.setattr(loading, "_trace", strict)


@pytest.fixture
def _few_small_programs_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no answer of their own, however long a busy machine takes for them."""
    from coldstep.analysis import answers

    monkeypatch.setattr(answers, "_DEAR_NS", 60 * answers._DEAR_NS)


@pytest.fixture(scope="session")
def engine() -> ModuleType:
    """Perfetto's own engine: `engine.query(trace, *sql)`, `engine.assert_clean(trace)`."""
    import engine

    return engine


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `small_repository`, built once."""
    import small_repository

    folder = tmp_path_factory.mktemp("repository")
    small_repository.build(folder)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; skips where there is none."""
    import browser

    if browser.CHROMIUM is None:
        pytest.skip(browser.MISSING)
    with browser.launched() as launched:
        yield launched
