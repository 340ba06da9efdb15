"""Traces as tables: what is exported, what SQL answers, and what it says of what it cannot read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import generated_trace
import in_process
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from sample_trace import sample

import coldstep
from coldstep.model import Cache, Component, InferredBy
from coldstep_viewers.export import queries, tables

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "run.pftrace"
    generated_trace.write(path, steps=200, compiles=25)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "coldstep"


def asked(pattern: object, statement: str) -> list[dict[str, object]]:
    done = in_process.run("sql", pattern, statement, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- Parquet ------------------------------------------------------------------------------------------------------


def test_an_export_is_a_folder_per_table_and_day(file: Path, tmp_path: Path) -> None:
    done = in_process.run("export", file, "--to", "parquet", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    run_id = tables.run_of(file)
    names = [f"{name}/date=2026-11-20/{run_id}.parquet" for name in tables.SCHEMAS]
    assert done.stdout.splitlines() == [str(tmp_path / "out" / name) for name in names]
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")) == sorted(names)
    for name, schema in tables.SCHEMAS.items():
        assert pq.read_schema(tmp_path / "out" / names[list(tables.SCHEMAS).index(name)]).equals(schema)


def test_tools_read_the_folder_as_one_partitioned_table(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pftrace"
    generated_trace.write(other, steps=10, compiles=1, started="2026-11-21T23:30:00-02:00")
    for path in (file, other, file):  # once more replaces
        assert in_process.run("export", path, "--to", "parquet", tmp_path / "out").returncode == 0
    for name in tables.SCHEMAS:
        found = pyarrow.dataset.dataset(tmp_path / "out" / name, partitioning="hive").to_table()
        made = [tables.tables(coldstep.load(path), "")[name].num_rows for path in (file, other)]
        assert found.num_rows == sum(made)
        assert "date" in found.column_names
    runs = pyarrow.dataset.dataset(tmp_path / "out" / "runs", partitioning="hive").to_table().to_pylist()
    assert sorted(row["date"] for row in runs) == ["2026-11-20", "2026-11-22"]


def test_the_rows_are_those_of_the_report(file: Path) -> None:
    trace = coldstep.load(file)
    made = {name: table.to_pylist() for name, table in tables.tables(trace, "r").items()}
    assert len(made["runs"]) == 1
    assert [row["wall_ns"] for row in made["intervals"]] == [row.wall_ns for row in trace.intervals]
    for row in trace.intervals:
        mine = {each["phase"]: each["ns"] for each in made["phases"] if each["interval"] == row.index}
        assert mine == {**row.phases, "unattributed": row.unattributed_ns}
    assert [row["compile"] for row in made["compiles"]] == [row.id for row in trace.compiles]
    causes = {row["compile"]: row["cause"] for row in made["compiles"] if row["cause"]}
    assert causes == {row.compile: row.cause for row in trace.recompiles}
    assert {row["reason"] for row in made["compiles"] if not row["cause"]} == {"first"}
    assert len(made["changes"]) == sum(len(row.changes) for row in trace.recompiles)
    assert [row["text"] for row in made["findings"]] == [row.text for row in trace.findings]


def test_steps_that_were_inferred_say_from_what() -> None:
    trace = sample()
    step = next(row for row in trace.intervals if row.kind == "step")
    step.inferred_by = InferredBy("optimizer", "torch.optim.Adam.step", None)
    rows = tables.tables(trace, "r")["intervals"].to_pylist()
    said = {row["interval"]: (row["inferred_by"], row["inferred_of"]) for row in rows if row["inferred_by"]}
    assert said == {step.index: ("optimizer", "torch.optim.Adam.step")}


def test_what_keys_are_made_of_is_told_once_for_a_process() -> None:
    trace = sample()
    parts = [Component("XLA flags", "a1", "--xla_fast"), Component("computation", "b2", None)]
    for row in trace.compiles[:3]:
        row.caches = [Cache("xla.persistent", "miss", None, key="k", written=True, components=parts)]
    made = tables.tables(trace, "r")
    assert [(row["name"], row["hash"], row["text"], row["compiles"]) for row in made["components"].to_pylist()] == [
        ("XLA flags", "a1", "--xla_fast", 3), ("computation", "b2", None, 3)]  # fmt: skip
    caches = made["caches"].to_pylist()
    assert [(row["compile"], row["layer"], row["state"], row["written"]) for row in caches] == [
        (row.id, "xla.persistent", "miss", True) for row in trace.compiles[:3]
    ]


def test_labels_are_columns_of_runs_and_null_where_a_trace_has_none(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / "a.pftrace")
    generated_trace.write(tmp_path / "b.pftrace", steps=2, compiles=0, labels={"team": "search"})
    generated_trace.write(tmp_path / "c.pftrace", steps=2, compiles=0, labels={"job": "7"})
    rows = asked(tmp_path / "*.pftrace", "select label_team as team, label_job as job from runs order by trace")
    assert rows == [{"team": None, "job": None}, {"team": "search", "job": None}, {"team": None, "job": "7"}]


def test_a_trace_without_steps_or_compiles_has_all_tables() -> None:
    trace = sample()
    trace.intervals, trace.compiles, trace.recompiles = trace.intervals[:1], [], []
    trace.run.started = "not known"
    made = tables.tables(trace, "r")
    assert {name: table.num_rows for name, table in made.items()} == {
        "runs": 1, "processes": 1, "costs": len(trace.cost), "intervals": 1, "phases": 9, "compiles": 0, "changes": 0,
        "caches": 0, "components": 0, "findings": 0}  # fmt: skip


def test_every_column_is_documented() -> None:
    sections = re.split(r"^## (\w+)$", DOCS.read_text().partition("## Fleets")[0], flags=re.MULTILINE)
    common, documented = sections[0], dict(zip(sections[1::2], sections[2::2], strict=True))
    assert list(documented) == list(tables.SCHEMAS)
    keys = {"trace", *(name for name, _ in tables._KEYS)}
    assert set(re.findall(r"^\| `(\w+)`", common, re.MULTILINE)) == keys
    for name, schema in tables.SCHEMAS.items():
        first = [line.split("|")[1] for line in documented[name].splitlines() if line.startswith("| `")]
        assert [column for cell in first for column in re.findall(r"`(\w+)`", cell)] == [
            column for column in schema.names if column not in keys and column != "process"
        ]


# --- SQL ----------------------------------------------------------------------------------------------------------


def test_a_question_to_one_trace(file: Path) -> None:
    [row] = asked(file, "select count(*) as n, sum(wall_ns) as ns from compiles where cause = 'shape'")
    trace = coldstep.load(file)
    assert row == {"n": len(trace.recompiles), "ns": sum(each.cost_ns for each in trace.recompiles)}
    done = in_process.run("sql", file, "select phase, sum(ns) as ns from phases group by all order by ns desc")
    assert re.match(r"phase +ns\nxla\.compile +\d+\n", done.stdout)


def test_a_question_to_many_traces_reads_each_content_once(file: Path, tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "many"
    for number in range(60):
        (folder / str(number % 3)).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / str(number % 3) / f"{number}.pftrace")
    generated_trace.write(folder / "0" / "other.pftrace", steps=5, compiles=0)
    rows = asked(
        f"{folder}/**/*.pftrace",
        "select trace, count(*) as n, sum(wall_ns) as ns from intervals group by all order by trace",
    )
    trace = coldstep.load(file)
    assert len(rows) == 61
    assert rows.pop(0)["trace"] == f"{folder}/0/0.pftrace"
    assert {(row["n"], row["ns"]) for row in rows if "other" not in str(row["trace"])} == {
        (len(trace.intervals), trace.run.wall_ns)
    }
    assert len(list(cache.glob("*/runs/*/*.parquet"))) == 2


def test_what_was_read_is_not_read_again(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> list[dict[str, object]]:
        with queries.query([file], "select wall_ns from runs", pytest.fail) as answer:
            return [row for batch in answer.batches for row in batch]

    first = ask()
    monkeypatch.setattr(queries, "load", lambda path: pytest.fail("read again"))
    assert ask() == first


def test_without_a_cache_folder_it_answers_all_the_same(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    assert asked(file, "select count(*) as n from runs") == [{"n": 1}]


def test_a_day_is_asked_for_by_started(file: Path) -> None:
    said = "select started > timestamptz '2026-11-20 00:00:00+00' and started < now() + interval 100 years as it"
    assert asked(file, f"{said} from runs") == [{"it": True}]


def test_a_file_that_is_no_trace_is_left_out_and_said(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / "good.pftrace")
    (tmp_path / "bad.pftrace").write_text("no trace")
    (tmp_path / "empty.pftrace").touch()
    done = in_process.run("sql", tmp_path / "*.pftrace", "select count(*) as n from runs", "--json")
    assert (done.returncode, done.stdout) == (0, '{"n": 1}\n')
    assert re.fullmatch(
        r"coldstep: left out: \S+bad.pftrace is not a Perfetto trace.*\n"
        r"coldstep: left out: \S+empty.pftrace is empty.*\n",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("selec", "Parser Error: syntax error"),
        ("select nope from runs", 'Binder Error: Referenced column "nope" not found'),
        ("select cast(function as integer) from compiles", "Conversion Error: Could not convert string"),
        ("", "the statement selects nothing"),
    ],
)
def test_a_statement_that_cannot_be_answered_is_one_line(file: Path, statement: str, says: str) -> None:
    done = in_process.run("sql", file, statement)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"coldstep: {says}")
    assert done.stderr.count("\n") == 1


def test_a_single_file_that_is_no_trace_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = in_process.run("sql", tmp_path / "empty", "select 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"coldstep: \S+/empty is empty.*\n", done.stderr)


def test_no_file_at_all_is_one_line(tmp_path: Path) -> None:
    done = in_process.run("sql", tmp_path / "*.pftrace", "select 1")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"coldstep: no file matches {tmp_path}/*.pftrace\n")


@pytest.mark.parametrize("missing", ["duckdb", "pyarrow"])
def test_a_missing_library_is_one_line_that_says_how_to_get_it(file: Path, missing: str) -> None:
    needing = [["sql", str(file), "select 1"]]
    needing += [["export", str(file), "--to", "parquet", "out"]] if missing == "pyarrow" else []
    for arguments in needing:
        source = f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = {arguments!r}; "
        done = subprocess.run(
            [sys.executable, "-c", f"{source}from coldstep.__main__ import main; main()"],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (f"coldstep: this needs {missing}, which is not installed: pip install 'coldstep[sql]'\n")


def test_in_a_pipe_each_row_is_one_line(file: Path) -> None:
    statement = "select * exclude advice, repeat('x', 500) as long from compiles limit 3"
    [header, *rows] = in_process.run("sql", file, statement).stdout.splitlines()
    assert "variant_limit" in header
    assert len(rows) == 3
    assert all("x" * 500 in row for row in rows)


def test_the_tables_are_those_that_are_documented(file: Path) -> None:
    shown = {str(row["name"]) for row in asked(file, "show tables")}
    assert shown - set(tables.SCHEMAS) == {"files"}
    assert asked(file, "select * exclude run from files") == [{"trace": str(file)}]
    assert "`files`" in DOCS.read_text()


def test_names_in_a_trace_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "run.pftrace"
    generated_trace.write(file, steps=3, compiles=1, function="\x1b[31mred\x1b[0m [bold]")
    done = in_process.run("sql", file, "select function from compiles")
    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred\\x1b[0m [bold]" in done.stdout
