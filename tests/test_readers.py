"""What commands do with the files they read: they never replace one, and one that cannot be read hides no other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import generated_trace
import pytest
from click.testing import CliRunner, Result

from coldstep_viewers.commands import cli


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace."""
    path = tmp_path_factory.mktemp("trace") / "t.pftrace"
    generated_trace.write(path, steps=5, compiles=2)
    return path


@pytest.fixture(scope="module")
def tables(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of two fleets of one trace each, the second added to the first."""
    from coldstep_viewers.fleet import filling

    folder = tmp_path_factory.mktemp("tables")
    generated_trace.write(folder / "u.pftrace", steps=5, compiles=2, started="2026-11-22T12:00:00+00:00")
    for source in (trace, folder / "u.pftrace"):
        filling.fill([str(source)], str(folder / "tables"), "local", None, lambda _: None)
    return folder / "tables"


def coldstep(*words: object) -> Result:
    """What a command prints."""
    done = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


# --- nothing that is read is replaced -----------------------------------------------------------------------------

_REPLACING = {
    "report --html": ["report t.pftrace --html t.pftrace"],
    "check --output": [
        "check t.json --max-recompiles 0 -o t.json",
        "check t.pftrace --baseline t.json --max-recompiles 0 -o t.json",
    ],
    "lock --output": ["lock t.pftrace -o t.pftrace"],
    "compare --html": ["compare t.pftrace --html t.pftrace"],
    "merge --output": ["merge t.pftrace -o t.pftrace"],
    "log --output": ["log t.pftrace -o t.pftrace"],
    "strip --output": ["strip t.pftrace -o t.pftrace", "strip t.pftrace t.json -o ."],
    "export DIR": ["export t.pftrace --to parquet t.pftrace", "export t.pftrace --to tensorboard t.pftrace"],
    "fleet --output": ["fleet t.pftrace -o t.pftrace"],
    "fleet-report --html": ["fleet-report tables --html {table}", "fleet-report tables --html {marker}"],
    "forecast --html": [
        "forecast f.py:step calls.py:calls --html f.py",
        "forecast f.py:step calls.py:calls --html calls.py",
        "forecast f.py:step calls.py:calls --from t.pftrace --html t.pftrace",
    ],
}
"""By every option that names an output, commands that would replace what they read."""


def _outputs() -> set[str]:
    """The options, and the folder, in which commands name what they write."""
    context = click.Context(cli.main)
    commands = {name: cli.main.get_command(context, name) for name in cli.main.list_commands(context)}
    return {
        f"{name} {param.opts[-1] if isinstance(param, click.Option) else param.metavar}"
        for name, found in commands.items()
        for param in (found.params if found is not None else ())
        if {"--output", "--html", "folder"} & set(param.opts)
    }


def test_no_command_with_an_output_replaces_what_it_reads(
    trace: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(_REPLACING) == _outputs()
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tables, "tables")
    shutil.copyfile(trace, "t.pftrace")
    shutil.copyfile(trace, "t.json")
    for name in ("f.py", "calls.py"):
        Path(name).write_text("raise SystemExit('it was run')")
    table, marker = (str(next(Path("tables").glob(each))) for each in ("runs/*/*", "_batches/*.json"))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for words in ["run -o f.py f.py", *(each for some in _REPLACING.values() for each in some)]:
        done = coldstep(*words.format(table=table, marker=marker).split())
        assert (done.exit_code, done.stdout) == (2, ""), words
        assert re.fullmatch(r"coldstep: .*(is read and cannot be|cannot write|is no folder).*\n", done.stderr), words
        assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before, words


def test_a_forecast_replaces_no_module_that_it_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    Path("sizes_of_calls.py").write_text("SIZES = (1, 2)\n")
    Path("forecast_me.py").write_text(
        "import jax.numpy as jnp\nfrom sizes_of_calls import SIZES\nstep = jnp.sum\n"
        "def calls():\n    return [(jnp.ones(n),) for n in SIZES]\n"
    )
    done = coldstep("forecast", "forecast_me.py:step", "forecast_me.py:calls", "--html", "sizes_of_calls.py")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "sizes_of_calls.py is read and cannot be written to" in done.stderr
    assert Path("sizes_of_calls.py").read_text() == "SIZES = (1, 2)\n"
