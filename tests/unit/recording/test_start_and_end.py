"""A trace begins and ends with little: what it does not need is not loaded, and what is there to load is found."""

from __future__ import annotations

import json
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import program
import pytest

from coldstep._util.installed import offered, offers
from coldstep.pftrace.reader import rows

NOTHING = """
import json, sys
known = set(sys.modules)
import coldstep
with coldstep.trace("t.pftrace"):
    entered = sorted(set(sys.modules) - known)
print(json.dumps([entered, sorted(set(sys.modules) - known)]))
"""
_TOLD = """
import sys
import coldstep
with coldstep.trace("t.pftrace"{collectors}) as run:
{body}
from coldstep_viewers.report.headline import headline
trace = coldstep.load("t.pftrace")
print(run.headline)
read_back = "coldstep.converting.write_findings" in sys.modules
print(headline(trace), len(trace.findings), "read back" if read_back else "at once")
"""


def told(folder: Path, body: str = "    pass", collectors: str = "", before: str = "") -> list[str]:
    """What the line at exit says; what the file read back says, and whether it was read for that line."""
    source = before + _TOLD.format(body=body, collectors=collectors)
    return program.run(source, folder).stdout.splitlines()


def test_a_trace_of_nothing_loads_no_collector_of_a_framework_and_reads_nothing_back(tmp_path: Path) -> None:
    entered, left = json.loads(program.run(NOTHING, tmp_path).stdout)
    heavy = ("importlib.metadata", "email", "socket", "datetime", "subprocess", "psutil", "coldstep.model")
    assert [name for name in entered if name.startswith(heavy)] == []
    ours = {name.partition(".")[2] for name in entered if name.startswith("coldstep_collectors.")}
    always = {"process", "process.children", "process.collector", "process.imports", "process.lines", "process.memory",
              "process.thread_stack", "process.waits", "steps", "steps.collector"}  # fmt: skip
    of_jax = {"jax", "jax._private", "jax._private.started"}  # whether its backend runs, and no more
    assert ours <= {"lazy_loading", "proc", "support", *always, *of_jax}
    assert set(left) - set(entered) <= {"resource"}


def test_no_class_of_ours_is_written_as_text_and_compiled_field_by_field(tmp_path: Path) -> None:
    done = program.run(
        """
        import dataclasses, typing
        made = []
        def counted(real):
            def make(*args, **options):
                made.append(args)
                return real(*args, **options)
            return make
        typing.NamedTupleMeta.__new__ = counted(typing.NamedTupleMeta.__new__)
        dataclasses._process_class = counted(dataclasses._process_class)
        import coldstep
        with coldstep.trace("t.pftrace"):
            pass
        print([name for name in map(str, made) if "coldstep" in name])
        """,
        tmp_path,
    )
    assert done.stdout == "[]\n"


@pytest.mark.jax
def test_a_framework_s_collector_is_loaded_when_the_framework_is_and_that_is_our_time(tmp_path: Path) -> None:
    done = program.run(
        """
        import sys
        import coldstep
        with coldstep.trace("t.pftrace", collectors="jax,dynamo"):
            assert "coldstep_collectors.jax.collector" not in sys.modules
            import jax
            assert "coldstep_collectors.jax.collector" in sys.modules
            assert "coldstep_collectors.torch.collector" not in sys.modules
            with coldstep.step():
                jax.jit(lambda x: x + 1)(1)
        trace = coldstep.load("t.pftrace")
        print({row.name: row.state for row in trace.collectors})
        print([row.function for row in trace.compiles if row.origin == "user"])
        """,
        tmp_path,
    )
    assert done.stdout.splitlines() == ["{'jax': 'attached', 'dynamo': 'absent'}", "['<lambda>']"]
    [loaded] = [row for row in rows(tmp_path / "t.pftrace") if getattr(row, "name", "").startswith("load the ")]
    assert (loaded.name, getattr(loaded, "category", "")) == ("load the collector jax", "coldstep")


def test_a_collector_that_cannot_be_loaded_is_said_to_have_failed(tmp_path: Path) -> None:
    (tmp_path / "torch_xla.py").write_text("__version__ = '0'\n")
    done = program.run(
        """
        import sys
        import coldstep
        sys.modules["coldstep_collectors.torch_xla.collector"] = None
        with coldstep.trace("t.pftrace", collectors="torch_xla") as run:
            import torch_xla
        [row] = coldstep.load("t.pftrace").collectors
        print(row.state, row.missing, run.headline)
        """,
        tmp_path,
    )
    assert done.stdout.startswith("failed ['collector torch_xla failed and was detached: ModuleNotFoundError")
    assert "what compiled is not known" in done.stdout


def test_the_line_of_a_trace_of_nothing_is_what_its_file_says(tmp_path: Path) -> None:
    said, again = told(tmp_path)
    assert again == f"{said} 0 at once"
    assert said.endswith("nothing compiled")


@pytest.mark.parametrize("body", [
    "    with coldstep.step():\n        pass",
    "    import subprocess; subprocess.run([sys.executable, '-c', ''])",
    "    coldstep.ready()",
], ids=["a step", "another Python", "ready"])  # fmt: skip
def test_what_did_happen_is_read_back_for_its_line(body: str, tmp_path: Path) -> None:
    said, again = told(tmp_path, body)
    assert again.startswith(f"{said} ")
    assert again.endswith("read back")


@pytest.mark.torch
def test_that_nobody_watched_a_framework_is_read_back(tmp_path: Path) -> None:
    said, again = told(tmp_path, collectors=", collectors='imports'", before="import torch\n")
    assert "no collector watched torch" in said
    assert again == f"{said} 1 read back"


# ---- entry points


def test_what_is_offered_is_what_the_distributions_say() -> None:
    groups = [f"coldstep.{name}" for name in ("collectors", "foresight", "logs", "viewers")]
    theirs = {(group, each.name, each.value) for group in groups for each in entry_points(group=group)}
    assert {(each.group, each.name, each.value) for each in offers()} == theirs
    assert len(theirs) > 20
    with pytest.raises(LookupError, match=r"nothing installed provides nobody \(the entry points coldstep.viewers\)"):
        offered("coldstep.viewers", "nobody")


def distribution(text: str, value: str) -> dict[str, str]:
    return {f"{text}/entry_points.txt": f"[console_scripts]\nx = y:z\n\n[coldstep.viewers]\n# mine\nmine = {value}\n",
            f"{text}/METADATA": "Metadata-Version: 2.1\nName: Mine.Own\nVersion: 1\n"}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_the_first_distribution_of_a_name_on_the_path_counts(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version, value in (("first", "1.0", "json:dumps"), ("second", "2.0", "json:loads")):
        files = distribution(f"Mine.Own-{version}.dist-info", value)
        for name, text in files.items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(text)
    first = tmp_path / "first"
    if packed:
        with zipfile.ZipFile(first := tmp_path / "first.zip", "w") as archive:
            for name, text in distribution("Mine.Own-1.0.dist-info", "json:dumps").items():
                archive.writestr(name, text)
    monkeypatch.setattr(sys, "path", [str(first), str(tmp_path / "second"), str(tmp_path / "nowhere"), *sys.path])
    assert offered("coldstep.viewers", "mine") is json.dumps
    assert [each.value for each in offers() if each.name == "mine"] == ["json:dumps"]


def test_what_is_no_text_on_the_path_is_passed_over_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    known = offers()
    monkeypatch.setattr(sys, "path", [Path("here"), b"there", *sys.path])
    assert offers() == known


def test_a_collector_of_two_packages_attaches_once_though_two_threads_import_them(tmp_path: Path) -> None:
    (tmp_path / "first.py").touch()
    (tmp_path / "second.py").touch()
    (tmp_path / "late.dist-info").mkdir()
    (tmp_path / "late.dist-info" / "entry_points.txt").write_text("[coldstep.collectors]\nlate = program:late\n")
    (tmp_path / "late.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1\n")
    done = program.run(
        """
        import sys
        from functools import partial
        from importlib import import_module
        from threading import Barrier, Thread
        import coldstep
        from coldstep_collectors.lazy_loading import Later
        from coldstep_collectors.support import Lazy

        class Slow:
            both = Barrier(2)
            def __init__(self):
                print("made")
                try:
                    self.both.wait(0.5)
                except Exception:
                    return
            def start(self, sink):
                sink.state("late", "attached", None, [])
            def stop(self):
                return []

        late = partial(Later, Lazy("late", "slow:Slow", ("first", "second")))
        sys.modules["program"] = sys.modules["__main__"]
        sys.modules["coldstep_collectors.slow"] = sys.modules["__main__"]
        with coldstep.trace("t.pftrace", collectors="late"):
            threads = [Thread(target=import_module, args=(name,)) for name in ("first", "second")]
            [each.start() for each in threads]
            [each.join() for each in threads]
        print([(row.name, row.state) for row in coldstep.load("t.pftrace").collectors])
        """,
        tmp_path,
    )
    assert done.stdout.splitlines() == ["made", "[('late', 'attached')]"]
