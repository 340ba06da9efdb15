"""What commands do with the files they read: they never replace one, and one that cannot be read hides no other."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import generated_trace
import pyarrow as pa
import pyarrow.parquet as pq
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
    "report --output": ["report t.pftrace -o t.pftrace", "report t.pftrace --format json -o t.pftrace"],
    "check --output": [
        "check t.json --max-recompiles 0 -o t.json",
        "check t.pftrace --baseline t.json --max-recompiles 0 -o t.json",
    ],
    "check --write-baseline": ["check t.pftrace --write-baseline t.pftrace"],
    "lock --output": ["lock t.pftrace -o t.pftrace"],
    "diff --output": ["diff t.pftrace t.json -o t.json"],
    "compare --html": ["compare t.pftrace --html t.pftrace"],
    "compare --output": ["compare t.pftrace t.json -o t.json", "compare --ir t.pftrace#a t.json#b -o t.json"],
    "cache --output": ["cache t.pftrace -o t.pftrace", "cache t.pftrace t.json -o t.json"],
    "sql --output": ["sql t.pftrace --format json -o t.pftrace SELECT"],
    "doctor --output": [],
    "merge --output": ["merge t.pftrace -o t.pftrace"],
    "log --output": ["log t.pftrace -o t.pftrace"],
    "strip --output": ["strip t.pftrace -o t.pftrace", "strip t.pftrace t.json -o ."],
    "export DIR": ["export t.pftrace --to parquet t.pftrace", "export t.pftrace --to tensorboard t.pftrace"],
    "fleet load --output": ["fleet load t.pftrace -o t.pftrace", "fleet t.pftrace -o t.pftrace"],
    "fleet report --html": ["fleet-report tables --html {table}", "fleet-report tables --html {marker}"],
    "fleet report --output": ["fleet report tables -o {table}", "fleet report tables -o {marker}"],
    "forecast --output": ["forecast f.py:step calls.py:calls -o f.py"],
    "forecast --html": [
        "forecast f.py:step calls.py:calls --html f.py",
        "forecast f.py:step calls.py:calls --html calls.py",
        "forecast f.py:step calls.py:calls --from t.pftrace --html t.pftrace",
    ],
}
"""By every option that names an output, commands that would replace what they read."""


def _outputs() -> set[str]:
    """The options, and the folder, in which commands name what they write."""
    commands = dict(_below(cli.main, "")) | {"lock": cli.main.get_command(click.Context(cli.main), "lock")}
    return {
        f"{name} {param.opts[-1] if isinstance(param, click.Option) else param.metavar}"
        for name, command in commands.items()
        for param in (command.params if command is not None else ())
        if {"--output", "--html", "--write-baseline", "folder"} & set(param.opts)
    }


def _below(group: click.Group, above: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{above}{name} ")


def test_no_command_with_an_output_replaces_what_it_reads(
    trace: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(_REPLACING) == _outputs() - {"explain --output"}  # which reads no file
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tables, "tables")
    shutil.copyfile(trace, "t.pftrace")
    shutil.copyfile(trace, "t.json")
    for name in ("f.py", "calls.py"):
        Path(name).write_text("raise SystemExit('it was run')")
    table, marker = (str(next(Path("tables").glob(each))) for each in ("*/runs/*/*", "*/_SUCCESS"))
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


# --- one that cannot be read hides no other -----------------------------------------------------------------------

_LOG = (
    "WARNING:2026-11-25 00:00:01,000:jax._src.interpreters.pxla:1: Compiling step with global shapes and types "
    "[ShapedArray(float32[4])]. Argument mapping: (UnspecifiedValue,).\n"
    "WARNING:2026-11-25 00:00:02,000:jax._src.dispatch:1: Finished XLA compilation of jit(step) in 0.9 sec\n"
)


@pytest.fixture
def entries(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a trace, and of entries that cannot be read, before it and behind it; the working folder."""
    folder = tmp_path / "entries"
    (folder / "logs").mkdir(parents=True)
    shutil.copyfile(trace, folder / "b.pftrace")
    (folder / "a.pftrace").write_text("no trace")
    (folder / "c.pftrace").touch()
    (folder / "logs/a.log").write_bytes(b"\0\1\2")
    (folder / "logs/b.log").write_text(_LOG)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "printed", "left_out"),
    [
        ("strip a.pftrace b.pftrace c.pftrace -o public", "public/b.pftrace: look at it", "ac"),
        ("cache .", "the next like it", "ac"),
        ("cache . .", "", "acac"),
        ("compare a.pftrace b.pftrace c.pftrace", "step", "ac"),
        ("merge a.pftrace b.pftrace c.pftrace -o m.pftrace", "m.pftrace: 1 process", "ac"),
        ("log logs -o l.pftrace", "step", "a"),
    ],
)
def test_one_that_cannot_be_read_hides_no_other(entries: Path, words: str, printed: str, left_out: str) -> None:
    done = coldstep(*words.split())
    assert done.exit_code == 2
    assert printed in done.stdout
    assert re.findall(r"(?m)^coldstep: left out: (?:\S+/)?(\w)\.", done.stderr) == list(left_out)


def test_a_check_judges_what_it_can_read_and_passes_nothing_else(entries: Path) -> None:
    done = coldstep("check", "a.pftrace", "b.pftrace", "c.pftrace", "--max-recompiles", "0")
    assert done.exit_code == 2
    assert "could not check: a.pftrace is not a Perfetto trace" in done.stdout
    assert "could not check: c.pftrace is empty" in done.stdout
    assert "recompile" in done.stdout
    done = coldstep("check", "b.pftrace", "--baseline", "b.pftrace", "--baseline", "a.pftrace")
    assert done.exit_code == 2
    assert "could not check: baseline: a.pftrace is not a Perfetto trace" in done.stdout


def test_a_cache_is_listed_but_for_what_cannot_be_read(entries: Path) -> None:
    cache = entries / "cache"
    for kernel, children in (("long", ["x" * 300]), ("whole", ["k.json"])):
        (cache / kernel).mkdir(parents=True)
        (cache / kernel / f"__grp__{kernel}.json").write_text(json.dumps({"child_paths": children}))
        (cache / kernel / "k.json").touch()
    done = coldstep("cache", "--holds", "cache")
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.search(r"corrupt: long: x+ is not there", done.stdout)
    assert "2 entries" in done.stdout


def test_a_cache_without_permission_is_not_an_empty_one(entries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = entries / "cache"
    (cache / "mine").mkdir(parents=True)
    key = "0" * 64
    for name in ("mine", "others"):
        (cache / name).mkdir(exist_ok=True)
        (cache / name / f"jit_{name}-{key}-cache").write_bytes(zlib.compress(b"\0\0\0\1program"))
    listed = os.scandir

    def refused(path: str) -> object:
        if os.path.basename(os.fspath(path)) == "others":  # to root nothing is refused
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr("os.scandir", refused)
    done = coldstep("cache", "--holds", "cache")
    assert done.exit_code == 2
    assert "1 entry" in done.stdout
    assert done.stderr == "coldstep: left out: cannot read cache/others: Permission denied\n"
    done = coldstep("cache", "--holds", "cache/others")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "coldstep: cannot read cache/others: Permission denied\n"


_SEEDS = (*range(48, 56), 112)


# --- damaged traces -----------------------------------------------------------------------------------------------


def test_a_trace_whose_events_name_a_process_that_it_has_not_is_one_line(tmp_path: Path) -> None:
    import hostile

    path = tmp_path / "t.pftrace"
    path.write_bytes(hostile.track(20, "Pipeline (rank 1)") + hostile.begun() + hostile.event(9, hostile.RUN, name="x"))
    for words in (["report"], ["check", "--max-recompiles", "0"], ["diff", path], ["cache"]):
        done = coldstep(words[0], *words[1:], path)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "is damaged" in done.stderr


def test_damaged_traces_are_a_report_or_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import damage

    monkeypatch.chdir(tmp_path)
    whole = sorted((Path(__file__).parents[2] / "traces").glob("*.pftrace"))
    commands = "report --json t.pftrace", "check t.pftrace --max-recompiles 0", "export t.pftrace --to parquet ."
    for seed in _SEEDS:
        Path("t.pftrace").write_bytes(damage.changed(whole[seed % len(whole)], seed))
        for words in commands:
            done = coldstep(*words.split())
            assert done.exit_code in (0, 1, 2), (seed, words)
            assert "cannot go on" not in done.stderr, (seed, words)
            assert done.exit_code != 1 or "over budget" in done.stdout, (seed, words)
            assert done.exit_code != 2 or done.stdout or done.stderr.count("\n") == 1, (seed, words)
            assert not re.search(r"[:\[,] ?(-?Infinity|NaN)\b", done.stdout), (seed, words)


def test_a_trace_of_another_user_is_one_line_that_says_why(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("coldstep.pftrace.reader.open", refused, raising=False)  # to root nothing is refused
    done = coldstep("report", trace)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "for their owner alone (mode 0600)" in done.stderr


def test_that_no_stacks_will_be_sampled_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import coldstep as recorded

    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with recorded.trace(tmp_path / "t.pftrace", collectors=["stacks"], stacks=True, live=False):
        assert "coldstep: no stacks will be sampled: py-spy is not installed" in capsys.readouterr().err


# --- names --------------------------------------------------------------------------------------------------------


def test_no_name_is_a_command_for_the_runner_that_prints_it(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coldstep_viewers.fleet import filling

    monkeypatch.chdir(tmp_path)
    name = "::error::a\n  ::stop-commands::x\n##[error]b ##vso[task.complete]"
    generated_trace.write(Path("t.pftrace"), steps=5, compiles=3, function=name)
    filling.fill(["t.pftrace"], "tables", "local", None, lambda _: None)
    obeyed = {}
    for words in ("report {0}", "report --all {0}", f"diff {trace} {{0}}", "lock {0}", "fleet-report tables"):
        shown = coldstep(*words.format("t.pftrace").split()).stdout
        assert "error" in shown
        lines = [line.strip() for line in shown.splitlines()]
        obeyed[words] = [line for line in lines if line.startswith("::") or "##[" in line or "##vso[" in line]
    assert not any(obeyed.values()), obeyed


@pytest.mark.parametrize("name", ["\u00e9" * 600_000, "/a" * 200_000], ids=["endless", "slashes"])
def test_a_step_of_an_endless_name_is_a_step(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import coldstep as recorded

    monkeypatch.chdir(tmp_path)
    with recorded.trace("t.pftrace", collectors=[], live=False):
        for _ in range(3):
            with recorded.step(name):
                pass
    assert coldstep("strip", "t.pftrace", "-o", "s.pftrace").exit_code == 0
    for path in ("t.pftrace", "s.pftrace"):
        steps = [row for row in recorded.load(path).intervals if row.kind == "step"]
        assert [row.step for row in steps] == [0, 1, 2]
        assert {len(row.name or "") < 100_000 for row in steps} == {True}


def test_strip_leaves_no_half_of_a_trace(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a packet that makes no sense")

    monkeypatch.setattr("coldstep.converting.rewrite.write_findings", fail)
    done = coldstep("strip", trace, "-o", tmp_path / "s.pftrace")
    assert (done.exit_code, done.stdout) == (2, "")
    assert not (tmp_path / "s.pftrace").exists()


# --- a fleet's tables ---------------------------------------------------------------------------------------------


def _of_one_batch(tables: Path) -> tuple[Path, dict[str, Path]]:
    """The marker of a batch, and its tables by name."""
    marker = min(tables.glob("*/_SUCCESS"))
    return marker, {path.parent.parent.name: path for path in marker.parent.glob("*/*/*.parquet")}


def _changed(path: Path, column: str, change: Callable[[pa.Table], pa.Array]) -> None:
    table = pq.read_table(path, partitioning=None)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, change(table)), path)


_HARM: dict[str, Callable[[Path, dict[str, Path]], object]] = {
    "a damaged marker": lambda marker, _: marker.write_text("{"),
    "an empty marker": lambda marker, _: marker.write_text(""),
    "a marker without files": lambda marker, _: marker.write_text(
        json.dumps(json.loads(marker.read_text()) | {"files": []})
    ),
    "a missing table": lambda _, found: found["costs"].unlink(),
    "a cut table": lambda _, found: found["findings"].write_bytes(found["findings"].read_bytes()[:-50]),
    "a damaged table": lambda _, found: found["phases"].write_bytes(
        found["phases"].read_bytes()[:4] + bytes(400) + found["phases"].read_bytes()[404:]
    ),
    "a number that is bytes": lambda _, found: _changed(
        found["intervals"], "wall_ns", lambda table: table["wall_ns"].cast(pa.string()).cast(pa.binary())
    ),
    "times without end": lambda _, found: _changed(
        found["compiles"], "wall_ns", lambda table: pa.array([1 << 62] * table.num_rows)
    ),
    "no values at all": lambda _, found: _changed(
        found["processes"], "wall_ns", lambda table: pa.nulls(table.num_rows, pa.int64())
    ),
}


@pytest.mark.parametrize("harm", _HARM)
def test_a_damaged_batch_hides_no_other(harm: str, trace: Path, tables: Path, tmp_path: Path) -> None:
    shutil.copytree(tables, tmp_path / "tables")
    _HARM[harm](*_of_one_batch(tmp_path / "tables"))
    done = coldstep("fleet-report", tmp_path / "tables")
    assert done.exit_code == 2
    assert "1 process in 1 trace on 1 host" in done.stdout
    assert done.stderr.startswith("coldstep: left out: ")
    assert done.stderr.count("\n") == 1


def test_a_fleet_grows_beside_a_damaged_marker(trace: Path, tables: Path, tmp_path: Path) -> None:
    shutil.copytree(tables, tmp_path / "tables")
    marker, found = _of_one_batch(tmp_path / "tables")
    marker.write_text("{")
    generated_trace.write(tmp_path / "v.pftrace", steps=5, compiles=2, started="2026-11-24T12:00:00+00:00")
    done = coldstep("fleet", tmp_path / "v.pftrace", "-o", tmp_path / "tables")
    assert done.exit_code == 2
    assert "1 trace read" in done.stdout
    assert "is damaged" in done.stderr
    assert all(path.exists() for path in found.values())
    assert "2 processes in 2 traces" in coldstep("fleet-report", tmp_path / "tables").stdout


def test_a_fleet_removes_only_what_it_began_and_follows_no_link(trace: Path, tables: Path, tmp_path: Path) -> None:
    shutil.copytree(tables, tmp_path / "tables")
    _, found = _of_one_batch(tmp_path / "tables")
    others = tmp_path / "others"
    (others / "runs/date=2026-11-20").mkdir(parents=True)
    (tmp_path / "tables/0123456789abcdef0123").symlink_to(others)
    strangers = [
        others / "runs/date=2026-11-20/0123456789abcdef0123.parquet",
        found["runs"].with_stem("3210fedcba9876543210"),
    ]
    for path in strangers:
        shutil.copyfile(found["runs"], path)
        os.utime(path, (0, 0))
    coldstep("fleet", trace, "-o", tmp_path / "tables")
    assert all(path.exists() for path in strangers)
