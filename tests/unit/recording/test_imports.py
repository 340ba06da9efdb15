"""The import hook leaves imports as they were, and the `imports` collector says what they cost."""

from __future__ import annotations

import copy
import importlib
import importlib.machinery
import importlib.resources
import importlib.util
import inspect
import pickle
import pkgutil
import runpy
import sys
import textwrap
import threading
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from program import run

import coldstep
from coldstep._util.importhook import ImportHook
from coldstep.events import Begin, End, Slice
from coldstep_collectors.process import imports
from coldstep_collectors.process.imports import Imports

Write = Callable[..., None]


@pytest.fixture
def hook() -> Iterator[ImportHook]:
    hook = ImportHook()
    hook.install()
    yield hook
    hook.remove()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write importable files, `write({"name.py": source})`; what they imported is forgotten after the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(files: dict[str, str]) -> None:
        for name, source in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__spec__", "")):
            del sys.modules[name]


class Names:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, name: str) -> str:
        self.told.append(f"+{name}")
        return name

    def end(self, token: str) -> None:
        self.told.append(f"-{token}")


class FakeSink:
    """As much of a session as `Imports` needs."""

    def __init__(self, hook: ImportHook) -> None:
        self.import_hook = hook
        self.events: list[Any] = []
        self.states: list[tuple[Any, ...]] = []

    def emit(self, event: Any) -> None:
        self.events.append(event)

    def state(self, *state: Any) -> None:
        self.states.append(state)

    def guarded(self, collector: str, hook: Any) -> Any:
        return hook


def collect(hook: ImportHook) -> FakeSink:
    sink = FakeSink(hook)
    Imports().start(sink)
    return sink


def outline(events: list[Any]) -> list[str]:
    """Events in one line each: phases begun and ended, slices."""
    lines = []
    for event in events:
        match event:
            case Begin():
                assert event.track == "imports"
                assert event.args is not None
                under = f" under {event.args['under']}" if "under" in event.args else ""
                lines.append(f"+{event.phase} {event.args['module']}{under}")
            case End():
                lines.append(f"-{event.begin.phase}")
            case Slice():
                lines.append(f"={event.name}")
    return lines


# ---- calling back


def test_a_callback_for_an_imported_module_comes_at_once(hook: ImportHook) -> None:
    seen: list[Any] = []
    hook.when_imported("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_callback_comes_when_the_module_has_run_and_only_once(hook: ImportHook, write: Write) -> None:
    write({"late.py": "first = 1\nlast = 2\n"})
    seen: list[int] = []
    hook.when_imported("late", lambda module: seen.append(module.last))
    assert seen == []
    import late

    assert seen == [2]
    importlib.reload(late)
    assert seen == [2]


def test_a_half_imported_module_is_waited_for(hook: ImportHook, write: Write) -> None:
    write(
        {
            "whole/__init__.py": "import whole.part\nlast = 2\n",
            "whole/part.py": "import whole, sys\nsys.register(whole)\n",
        }
    )
    seen: list[int] = []
    sys.register = lambda module: hook.when_imported("whole", lambda m: seen.append(m.last))
    try:
        importlib.import_module("whole")
        assert seen == [2]
        del sys.modules["whole"], sys.modules["whole.part"]
        importlib.import_module("whole")  # a second life of the module, half imported as the first was
        assert seen == [2, 2]
    finally:
        del sys.register


def test_a_module_that_replaces_itself_is_handed_over_as_replaced(hook: ImportHook, write: Write) -> None:
    write({"chameleon.py": "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(colour='green')\n"})
    seen: list[str] = []
    hook.when_imported("chameleon", lambda module: seen.append(module.colour))
    importlib.import_module("chameleon")
    assert seen == ["green"]


def test_a_failing_callback_reaches_neither_the_import_nor_the_next_callback(hook: ImportHook, write: Write) -> None:
    write({"innocent.py": "x = 1\n"})
    seen: list[Any] = []
    hook.when_imported("innocent", lambda module: 1 / 0)
    hook.when_imported("innocent", seen.append)
    assert importlib.import_module("innocent").x == 1
    assert len(seen) == 1


def test_ctrl_c_in_a_callback_passes(hook: ImportHook, write: Write) -> None:
    write({"stopped.py": "x = 1\n"})

    def interrupt(module: Any) -> None:
        raise KeyboardInterrupt

    hook.when_imported("stopped", interrupt)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("stopped")


def test_callbacks_end_with_the_hook(hook: ImportHook, write: Write) -> None:
    write({"afterwards.py": ""})
    seen: list[Any] = []
    hook.when_imported("afterwards", seen.append)
    hook.remove()
    importlib.import_module("afterwards")
    assert seen == []


def test_every_callback_comes_exactly_once_however_threads_race(hook: ImportHook, write: Write) -> None:
    names = [f"raced{i}" for i in range(60)]
    write({f"{name}.py": "x = 1\n" for name in names})
    seen: list[str] = []
    start = threading.Barrier(3)

    def register() -> None:
        start.wait()
        for name in names:
            hook.when_imported(name, lambda module: seen.append(module.__name__))

    def load() -> None:
        start.wait()
        for name in names:
            importlib.import_module(name)

    threads = [threading.Thread(target=register), threading.Thread(target=load), threading.Thread(target=load)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(seen) == sorted(names)


# ---- what a module sees of it: nothing


def test_a_module_has_its_real_loader_while_it_runs(hook: ImportHook, write: Write) -> None:
    write({"honest.py": "loaders = [type(__loader__), type(__spec__.loader)]\n"})
    honest = importlib.import_module("honest")
    # type(), not isinstance(): nothing that only looks like the real loader will do
    assert honest.loaders == [importlib.machinery.SourceFileLoader] * 2
    assert inspect.getsource(honest).startswith("loaders")
    assert honest.__loader__.get_source("honest").startswith("loaders")


def test_a_spec_that_is_only_looked_at_behaves_as_the_real_one(hook: ImportHook, write: Write) -> None:
    write({"looked_at.py": "x = 1\n"})
    spec = importlib.util.find_spec("looked_at")
    assert spec is not None
    loader: Any = spec.loader
    assert isinstance(loader, importlib.machinery.SourceFileLoader)
    assert loader.get_source("looked_at") == "x = 1\n"
    assert loader.is_package("looked_at") is False
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert (module.x, type(module.__loader__)) == (1, importlib.machinery.SourceFileLoader)
    assert type(spec.loader) is importlib.machinery.SourceFileLoader


def test_exceptions_pass_as_if_we_were_not_there(hook: ImportHook, write: Write) -> None:
    write({"broken.py": "raise ValueError('mine')\n"})
    with pytest.raises(ValueError, match="mine") as caught:
        importlib.import_module("broken")
    assert "broken" not in sys.modules
    assert not [entry for entry in caught.traceback if "importhook" in str(entry.path)]
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_to_be_found'"):
        importlib.import_module("nowhere_to_be_found")


def test_a_warning_still_points_at_the_line_that_imports(hook: ImportHook, write: Write) -> None:
    write({"old.py": "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import old  # noqa: F401
    assert [warning.filename for warning in caught] == [__file__]


def test_packages_resources_namespaces_zips_and_pkgutil(hook: ImportHook, write: Write, tmp_path: Path) -> None:
    write(
        {
            "packed/__init__.py": "",
            "packed/one.py": "",
            "packed/data.txt": "the data",
            "spaces/inner.py": "x = 'namespace'\n",
        }
    )
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("in_zip/__init__.py", "x = 'zip'\n")
        archive.writestr("in_zip/data.txt", "zipped data")
    sys.path.insert(0, str(tmp_path / "zipped.zip"))  # the fixture's monkeypatch restores sys.path
    importlib.invalidate_caches()

    packed = importlib.import_module("packed")
    assert importlib.resources.files("packed").joinpath("data.txt").read_text() == "the data"
    assert pkgutil.get_data("packed", "data.txt") == b"the data"
    assert [found.name for found in pkgutil.walk_packages(packed.__path__, "packed.")] == ["packed.one"]
    assert importlib.import_module("spaces.inner").x == "namespace"
    assert importlib.import_module("in_zip").x == "zip"
    assert importlib.resources.files("in_zip").joinpath("data.txt").read_text() == "zipped data"


def test_runpy_runs_a_module_with_its_real_loader(hook: ImportHook, write: Write) -> None:
    write({"runs.py": "kind = type(__loader__), type(__spec__.loader), __name__\n"})
    loader = importlib.machinery.SourceFileLoader
    assert runpy.run_module("runs", run_name="__main__")["kind"] == (loader, loader, "__main__")


def test_reload_runs_the_module_again(hook: ImportHook, write: Write) -> None:
    write({"again.py": "x = 1\n"})
    again = importlib.import_module("again")
    names = hook.listener = Names()
    write({"again.py": "xyz = 'another length, so that the cached bytecode is stale'\n"})
    assert importlib.reload(again) is again
    assert hasattr(again, "xyz")
    assert names.told == ["+again", "-again"]
    assert type(again.__spec__.loader) is importlib.machinery.SourceFileLoader


def test_a_lazily_loaded_module_loads_when_it_is_used(hook: ImportHook, write: Write) -> None:
    write({"lazy.py": "x = 1\n"})
    spec = importlib.util.find_spec("lazy")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["lazy"] = module
    spec.loader.exec_module(module)
    names = hook.listener = Names()
    assert names.told == []
    assert module.x == 1
    assert names.told == ["+lazy", "-lazy"]


def test_builtin_and_frozen_modules_are_left_alone(hook: ImportHook) -> None:
    for name in ("math" if "math" in sys.builtin_module_names else "_abc", "__hello__"):
        spec = importlib.util.find_spec(name) if name not in sys.modules else hook.find_spec(name)
        assert spec is not None
        assert type(spec.loader) is type  # the finder class itself


class Before:
    """Somebody else's finder, in front of ours, that asks the others and wraps their loader: as APM tools do."""

    def __init__(self) -> None:
        self.asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is not None and spec.has_location:
            spec.loader = TheirLoader(spec.loader)
        return spec


class TheirLoader:
    after: Callable[[Any], None] | None = None

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
        if TheirLoader.after is not None:
            TheirLoader.after(module)


@pytest.fixture
def before() -> Iterator[None]:
    theirs = Before()
    sys.meta_path.insert(0, theirs)
    yield
    sys.meta_path.remove(theirs)


class Patching:
    """vLLM's finder: for one module it asks the others, and sets a method of the loader that they found."""

    def __init__(self, module: str, method: str, then: Callable[[Any], None]) -> None:
        self.module, self.method, self.then = module, method, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        original = getattr(loader, self.method)

        def patched(argument: Any) -> Any:
            result = original(argument)
            self.then(argument)
            return result

        setattr(loader, self.method, patched)
        loader.patched_by = "theirs"
        return spec


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("method", ["exec_module", "create_module"])
def test_a_method_that_a_finder_sets_on_the_loader_is_called(
    hook: ImportHook, write: Write, method: str, first: bool
) -> None:
    write({"served.py": "x = 1\n"})
    seen: list[Any] = []
    hook.when_imported("served", lambda module: seen.append(("ours", module.x)))
    names = hook.listener = Names()
    theirs = Patching("served", method, lambda argument: seen.append(("theirs", getattr(argument, "x", None))))
    sys.meta_path.insert(0 if first else 1, theirs)
    served = importlib.import_module("served")
    order = [("ours", 1), ("theirs", 1)] if method == "exec_module" else [("theirs", None), ("ours", 1)]
    assert seen == order
    assert "+served" in names.told
    loader = served.__spec__.loader
    assert type(loader) is type(served.__loader__) is importlib.machinery.SourceFileLoader
    assert (loader.patched_by, loader.get_source("served")) == ("theirs", "x = 1\n")
    assert getattr(loader, method).__qualname__.endswith("patched")  # as it is where nobody stands in


def test_a_loader_is_compared_referred_to_copied_and_shown_as_the_real_one(hook: ImportHook, write: Write) -> None:
    write({"plain.py": "x = 1\n"})
    spec, again = importlib.util.find_spec("plain"), importlib.util.find_spec("plain")
    hook.remove()
    real_spec = importlib.util.find_spec("plain")
    assert spec is not None
    assert real_spec is not None
    loader: Any = spec.loader
    real: Any = real_spec.loader
    assert type(loader) is not type(real)  # it is the stand-in that is looked at
    assert spec == again == real_spec
    assert hash(loader) == hash(real)
    assert (vars(loader), dir(loader)) == (vars(real), dir(real))
    assert "SourceFileLoader object" in repr(loader)
    assert weakref.ref(loader)() is loader
    for copied in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert (type(copied), copied) == (type(real), real)
    loader.mark = 1
    del loader.mark
    assert not hasattr(loader, "mark")


def test_a_module_that_has_run_but_is_still_marked_as_initializing(
    hook: ImportHook, before: None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"just_run.py": "x = 1\n"})
    seen: list[Any] = []
    late = staticmethod(lambda module: hook.when_imported("just_run", seen.append))
    monkeypatch.setattr(TheirLoader, "after", late)  # as another thread could, in that moment
    just_run = importlib.import_module("just_run")
    assert seen == [just_run]


def test_a_finder_put_before_ours_keeps_its_loader(hook: ImportHook, before: None, write: Write) -> None:
    write({"shared.py": "x = 1\n"})
    seen: list[Any] = []
    hook.when_imported("shared", seen.append)
    shared = importlib.import_module("shared")
    assert seen == [shared]
    assert type(shared.__spec__.loader) is TheirLoader


class Old:
    """A finder without find_spec, which Python asks up to 3.11."""

    asked = 0

    def find_module(self, name: str, path: Any = None) -> None:
        self.asked += 1


def test_finders_of_the_old_protocol_are_still_asked_in_their_turn(hook: ImportHook, write: Write) -> None:
    write({"classic.py": "x = 1\n"})
    old = Old()
    sys.meta_path.insert(1, old)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImportWarning)
            assert importlib.import_module("classic").x == 1
    finally:
        sys.meta_path.remove(old)
    assert old.asked == (sys.version_info < (3, 12))


def test_a_finder_that_python_no_longer_asks_hides_no_import(hook: ImportHook, write: Write) -> None:
    """From Python 3.12 on a finder of the old protocol is passed over, by the hook as by Python."""
    write({"passed.py": "x = 1\n"})
    old, seen = Old(), []
    hook.when_imported("passed", seen.append)
    sys.meta_path.insert(1, old)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImportWarning)
            passed = importlib.import_module("passed")
    finally:
        sys.meta_path.remove(old)
    assert seen == ([] if sys.version_info < (3, 12) else [passed])


def test_removing_the_hook_in_the_middle_of_an_import(hook: ImportHook, write: Write) -> None:
    write({"midway.py": "import sys\nsys.remove_hook()\nimport midway_inner\n", "midway_inner.py": "x = 1\n"})
    names = hook.listener = Names()
    hook.when_imported("midway", lambda module: names.told.append("called back"))
    sys.remove_hook = hook.remove
    try:
        assert importlib.import_module("midway").midway_inner.x == 1
    finally:
        del sys.remove_hook
    assert hook not in sys.meta_path
    assert names.told == ["+midway", "-midway"]
    hook.remove()  # and again: nothing to do


def test_extensions_and_editable_installs_load_as_ever(tmp_path: Path) -> None:
    """In a fresh process: numpy's extensions are announced at dlopen too, coldstep itself is an editable install."""
    source = """
        import importlib.machinery, sys
        from coldstep._util.importhook import ImportHook
        told = []
        class Listener:
            def begin(self, name): told.append(name)
            def end(self, token): pass
        hook = ImportHook()
        hook.listener = Listener()
        hook.install()
        import numpy, coldstep_viewers
        assert "coldstep_viewers" in told
        specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
        assert "coldstep._util.importhook" not in {type(getattr(spec, "loader", None)).__module__ for spec in specs}
        extension = "numpy._core._multiarray_umath"
        assert type(sys.modules[extension].__spec__.loader) is importlib.machinery.ExtensionFileLoader
        assert told.count(extension) == 2, told.count(extension)
        print(numpy.ones(3).sum())
    """
    done = run(source, tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("3.0", "")


# ---- the collector


def test_phases_are_packages_and_change_with_them(
    hook: ImportHook, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "DRAWN_NS", 1 << 62)  # `heavy.part` is no phase, but drawn where it takes long
    write(
        {
            "heavy/__init__.py": "import heavy.part\nimport light\nimport antigravity_free\n",
            "heavy/part.py": "import this_is_not_there_yet_but_light_is as _\n",
            "this_is_not_there_yet_but_light_is.py": "import heavy\n",
            "light.py": "",
            "antigravity_free.py": "",
        }
    )
    sink = collect(hook)
    assert sink.states == [("imports", "attached", None, [])]
    importlib.import_module("heavy")
    assert outline(sink.events) == [
        "+import.heavy heavy",
        "+import.this_is_not_there_yet_but_light_is this_is_not_there_yet_but_light_is under heavy",
        "-import.this_is_not_there_yet_but_light_is",
        "+import.light light under heavy",
        "-import.light",
        "+import.antigravity_free antigravity_free under heavy",
        "-import.antigravity_free",
        "-import.heavy",
    ]
    sink.events.clear()
    importlib.import_module("heavy")  # already there: nothing is loaded
    assert sink.events == []


def test_a_submodule_imported_later_is_its_packages_phase(hook: ImportHook, write: Write) -> None:
    write({"framework/__init__.py": "", "framework/compiler/__init__.py": ""})
    importlib.import_module("framework")
    sink = collect(hook)
    importlib.import_module("framework.compiler")
    assert outline(sink.events) == ["+import.framework framework.compiler", "-import.framework"]


@pytest.mark.timing
def test_slow_submodules_are_drawn_inside_their_package(hook: ImportHook, write: Write) -> None:
    write(
        {
            "slow/__init__.py": "import slow.fast, slow.crawl\n",
            "slow/fast.py": "",
            "slow/crawl.py": "import time\ntime.sleep(0.02)\n",
        }
    )
    sink = collect(hook)
    importlib.import_module("slow")
    assert [line for line in outline(sink.events) if line != "=slow.fast"] == [
        "+import.slow slow",
        "=slow.crawl",
        "-import.slow",
    ]
    begin, end = sink.events[0], sink.events[-1]
    [crawl] = [event for event in sink.events if isinstance(event, Slice) and event.name == "slow.crawl"]
    assert begin.ns < crawl.ns < crawl.end_ns < end.ns
    assert crawl.end_ns - crawl.ns >= 20_000_000


def test_the_standard_library_belongs_to_who_imports_it(
    hook: ImportHook, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"needy.py": "import wave\n"})
    monkeypatch.setattr(imports, "DRAWN_NS", 1 << 62)
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    sink = collect(hook)
    importlib.import_module("needy")
    assert outline(sink.events) == ["+import.needy needy", "-import.needy"]
    del sys.modules["wave"]
    sink.events.clear()
    importlib.import_module("wave")  # alone, and quick
    assert sink.events == []
    monkeypatch.setattr(imports, "DRAWN_NS", 0)
    del sys.modules["wave"]
    importlib.import_module("wave")  # alone, and long: drawn, but no phase
    assert outline(sink.events) == ["=wave"]


def test_a_module_takes_nine_calls_of_ours(hook: ImportHook, write: Write) -> None:
    modules = [f"m{number}" for number in range(50)]
    write(
        {"many/__init__.py": f"from many import {', '.join(modules)}\n"} | {f"many/{name}.py": "" for name in modules}
    )
    collect(hook)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and str(frame.f_globals.get("__name__")).startswith("coldstep")

    sys.setprofile(count)
    try:
        importlib.import_module("many")
    finally:
        sys.setprofile(None)
    assert calls <= 9 * (len(modules) + 1) + 10  # PyTorch has two thousand


def test_a_failing_import_ends_its_phase(hook: ImportHook, write: Write) -> None:
    write({"optional/__init__.py": "try:\n    import optional_part\nexcept ImportError:\n    pass\n"})
    write({"optional_part.py": "import nowhere_to_be_found\n"})
    sink = collect(hook)
    importlib.import_module("optional")
    assert outline(sink.events) == [
        "+import.optional optional",
        "+import.optional_part optional_part under optional",
        "-import.optional_part",
        "-import.optional",
    ]


def test_threads_import_apart(hook: ImportHook, write: Write) -> None:
    write({"left.py": "import time; time.sleep(0.05)\nimport left_inner\n", "left_inner.py": ""})
    write({"right.py": "import time; time.sleep(0.05)\nimport right_inner\n", "right_inner.py": ""})
    sink = collect(hook)
    threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = outline(sink.events)
    assert "+import.left_inner left_inner under left" in lines
    assert "+import.right_inner right_inner under right" in lines
    assert len(lines) == 8


def test_nothing_is_recorded_once_the_collector_has_stopped(hook: ImportHook, write: Write) -> None:
    write({"unseen.py": ""})
    sink = FakeSink(hook)
    collector = Imports()
    collector.start(sink)
    assert collector.stop() == []
    importlib.import_module("unseen")
    assert sink.events == []
    assert hook.listener is None


@pytest.mark.timing
def test_an_import_inside_a_step_is_in_the_steps_ledger(tmp_path: Path, engine: ModuleType) -> None:
    (tmp_path / "late.py").write_text("import time\nimport late_part\ntime.sleep(0.1)\n")
    (tmp_path / "late_part.py").write_text("import time\ntime.sleep(0.05)\n")
    source = """
        import coldstep
        with coldstep.trace("run.pftrace"):
            with coldstep.step():
                import late
            with coldstep.step():
                import late
    """
    run(source, tmp_path)
    trace = coldstep.load(tmp_path / "run.pftrace")
    first, second = (interval for interval in trace.intervals if interval.kind == "step")
    assert 100_000_000 <= first.phases["import.late"] < first.wall_ns
    assert 50_000_000 <= first.phases["import.late_part"] < first.wall_ns
    assert not [phase for phase in second.phases if phase.startswith("import.")]
    engine.assert_clean(tmp_path / "run.pftrace")
