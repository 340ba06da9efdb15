"""What pip gives today: the programs without their marks, the file of what was right, and when it is not right."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import scenarios
from scenarios import elsewhere, newest, versions
from scenarios.elsewhere import HELD, SHORT, WRONG, Result

from coldstep import load

JAX = versions.Release("jax", "0.12.0.1", "3.13")
PACKAGES = ("jax==0.12.0.1", "numpy==2.5.5")


def row(*results: Result, stack: str = "jax", unseen: tuple[str, ...] = ()) -> newest.Row:
    return newest.Row(stack, "3.13", PACKAGES, (), unseen, (versions.Run.of(JAX, results),))


@pytest.mark.jax
def test_a_program_without_its_marks_has_the_same_recompiles(tmp_path: Path) -> None:
    program = scenarios.HERE / "jax/shape_library.py"
    result = elsewhere.run(program, sys.executable, tmp_path / "run", marked=False)
    assert (result.verdict, result.why) == (HELD, "")
    trace = load(tmp_path / "run/jax-shape_library.pftrace")
    assert "step" not in {row.kind for row in trace.intervals}  # of two calls none is inferred


def test_it_is_right_where_enough_is_right_and_nothing_is_unseen() -> None:
    right = [Result(f"{number}", False) for number in range(19)]
    assert row(*right, Result("short", False, SHORT)).holds  # 95 %
    assert not row(*right[1:], Result("short", False, SHORT)).holds
    assert not row(*right, Result("quiet", True, WRONG)).holds
    assert not row(*right, unseen=("jax is partial",)).holds
    assert not row(Result("eager", False, partial=["jax"]), *right).holds


def test_what_no_release_lets_anybody_observe_is_shown_and_is_no_reason() -> None:
    limited = row(*(Result("shape", False, missing=["tensorflow: devices"]) for _ in range(19)))
    assert limited.holds
    assert "| tensorflow: devices |" in limited.line()
    partial = row(*(Result("shape", False, missing=["jax: the name"], partial=["jax"]) for _ in range(19)))
    assert not partial.holds
    assert "| jax is partial; jax: the name |" in partial.line()


KNOCKED_OUT = """\
import sys
sys.modules |= dict.fromkeys(["torch", "torch_xla", "tensorflow"])  # as in an environment of JAX's own
from coldstep_collectors.jax._private import names as jax_names
[form] = jax_names.IS_CLEAN.forms
jax_names.IS_CLEAN.forms = (form._replace(path=form.path + "_of_another_version"),)
"""


@pytest.mark.jax
def test_with_a_private_name_knocked_out_it_exits_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `make newest-held` runs, on what is installed here, from its programs to doctor and the exit code."""
    (tmp_path / "sitecustomize.py").write_text(KNOCKED_OUT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(newest, "build", lambda *_: sys.executable)
    monkeypatch.setattr(newest, "held", lambda _: ("", []))
    monkeypatch.setattr(sys, "argv", ["newest", "--held", "1", "jax"])
    assert newest.main() == 1
    out = capsys.readouterr().out
    assert "| jax is partial; jax: whether a mark stands in code that is being traced | 1 of 1 right |" in out


def test_a_collector_that_doctor_calls_partial_is_unseen(tmp_path: Path) -> None:
    document = {
        "collectors": [{"name": "jax", "state": "partial"}, {"name": "torch", "state": "absent"}],
        "tests": [{"name": "jax.compile", "ok": True, "text": ""}, {"name": "jax.cache", "ok": False, "text": "none"}],
    }
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(document)}'\nexit 1\n")
    python.chmod(0o755)
    assert newest.unseen(os.fspath(python)) == ("jax.cache: none", "jax is partial")


def test_what_was_right_is_kept_by_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "HELD", tmp_path / "newest.txt")
    newest.hold(row())
    newest.hold(row(stack="torch"))
    newest.hold(newest.Row("jax", "3.14", ("jax==0.13.0",), (), (), ()))
    assert newest.held("jax") == ("3.14", ["jax==0.13.0"])
    assert newest.held("torch") == ("3.13", list(PACKAGES))
    assert newest.HELD.read_text().index("# jax") < newest.HELD.read_text().index("# torch")  # each in its place
    with pytest.raises(SystemExit, match="has nothing of tensorflow"):
        newest.held("tensorflow")


def test_the_page_keeps_the_rows_of_other_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "PAGE", tmp_path / "newest.md")
    newest.publish(row(Result("shape", False, SHORT)))
    newest.publish(newest.Row("torch", "3.13", ("torch==2.14.1",), ("torch==2.15.0",), (), ()))
    newest.publish(row(Result("shape", False)))
    newest.publish(newest.Row("tensorflow", "3.13", ("tensorflow_cpu==2.21.0", "zipp==4"), (), (), ()))
    jax, torch, tensorflow = newest.PAGE.read_text().splitlines()[-3:]
    assert jax.startswith("| jax | 3.13 | jax==0.12.0.1 | nothing | nothing | 1 of 1 right |")
    assert tensorflow.startswith("| tensorflow | 3.13 | tensorflow_cpu==2.21.0 | nothing |")
    assert torch.startswith("| torch | 3.13 | torch==2.14.1 | torch==2.15.0 | nothing |")
