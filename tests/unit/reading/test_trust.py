"""Files and statements that are meant to hurt: one clear line and exit code 2, in little memory."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import generated_trace
import hostile
import program
import pytest
from click.testing import CliRunner

import coldstep
from coldstep._util.command_secrets import hidden
from coldstep.clock import snapshot
from coldstep.converting.anonymise import Private
from coldstep.pftrace import proto
from coldstep.pftrace.reader import EventRow, rows
from coldstep.pftrace.writer import Writer
from coldstep_viewers.commands import cli
from coldstep_viewers.export import queries, sealed
from coldstep_viewers.safe_text import plain

_MOST_MB = 300
_STOPS = ("zeros", "fourth", "60 MiB", "empty packets", "nested 100,000", "events without", "sequences")  # no mere cut
_HELD = ("events without", "slices without", "variants", "text of", "numbers that", "times after")  # large, or odd


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], tuple[int, str, str, int]]:
    """What the commands say of the hostile files, and the memory that they have taken so far."""
    done = subprocess.run([sys.executable, hostile.__file__], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = (json.loads(line) for line in done.stdout.splitlines())
    return {(name, command): tuple(rest) for name, command, *rest in found}


Answers = dict[tuple[str, str], tuple[int, str, str, int]]


@pytest.mark.parametrize("name", hostile.PACKETS)
def test_a_hostile_file_is_one_clear_line(answers: Answers, name: str) -> None:
    code, out, error, megabytes = answers[name, "report"]
    assert megabytes <= _MOST_MB
    if any(word in name for word in _HELD):
        assert (code, error) == (0, "")
        assert out
    else:
        assert (code, out) == (2, "")
        assert error.startswith("coldstep: ")
        assert error.count("\n") == 1


@pytest.mark.parametrize("name", hostile.PACKETS)
def test_what_was_written_before_is_reported(answers: Answers, name: str) -> None:
    code, out, error, megabytes = answers[f"{name}, behind an honest trace", "report"]
    assert megabytes <= _MOST_MB
    if code == 2:  # what is behind belongs to the same trace, and makes no sense
        assert error.startswith("coldstep: ")
        assert "is damaged" in error
        assert error.count("\n") == 1
        return
    assert (code, error) == (0, "")
    assert "step" in out
    if any(word in name for word in _STOPS):
        assert "which coldstep never writes: what follows is not known" in " ".join(out.split())


@pytest.mark.parametrize("command", hostile.COMMANDS)
def test_every_command_that_reads_stops_at_a_bomb(answers: Answers, command: str) -> None:
    code, out, error, megabytes = answers[next(iter(hostile.PACKETS)), command]
    assert (code, out) == (2, "")
    assert error.startswith("coldstep: ")
    assert error.count("\n") == 1
    assert megabytes <= _MOST_MB


def test_a_large_honest_flush_is_read_whole(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "t.pftrace", os.O_WRONLY | os.O_CREAT)
    writer = Writer(fd, 1, snapshot())
    writer.track(1, "a")
    for n in range(90):
        text = "".join(os.urandom(5_000).hex() * 10 for _ in range(10))  # ours, too, are 7 to 20 times larger unpacked
        writer.instant(n, 1, "text", "", {"text": f"{n} {text}"})
    writer.flush()
    os.close(fd)
    said: list[str] = []
    found = [row for row in rows(tmp_path / "t.pftrace", said) if isinstance(row, EventRow)]
    assert [row.args["text"].partition(" ")[0] for row in found] == [str(n) for n in range(90)]
    assert said == []


STARVED = """
import os, resource, zlib
import psutil
from coldstep.pftrace.reader import _inflated

block = zlib.compress(os.urandom(1000) + bytes(50_000))
resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms,) * 2)
taken = []
for size in (1 << 20, 100_000, 32_000, 20_000):  # what zlib needs itself is 32 KiB
    try:
        while True:
            taken.append(bytearray(size))
    except MemoryError:
        pass
taken.pop()  # for all else that the call needs
try:
    _inflated(block, 100)
except MemoryError:
    taken.clear()
    print("no memory")
"""


def test_where_zlib_has_no_memory_a_trace_does_not_end_early() -> None:
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True)
    assert done.stdout == "no memory\n", done.stderr


LIMITED = """
import resource
import psutil
from click.testing import CliRunner
from coldstep_viewers.commands import cli

assert CliRunner().invoke(cli.main, ["report", "short.pftrace"]).exit_code == 0
resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms,) * 2)
done = CliRunner().invoke(cli.main, ["report", "long.pftrace"])
print(done.exit_code, done.stderr, end="")
"""


def test_a_command_that_has_no_memory_does_not_call_the_trace_damaged(tmp_path: Path) -> None:
    for name, steps in (("short", 3), ("long", 5_000)):
        generated_trace.write(tmp_path / f"{name}.pftrace", steps=steps, compiles=steps // 3)
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True)
    said = "there is not enough memory for this; try it on a machine with more"
    assert done.stdout == f"2 coldstep: {said}\n", done.stderr


def test_times_that_do_not_add_up_are_said(tmp_path: Path) -> None:
    def notes(begin: int) -> list[str]:
        slices = [
            (1, hostile.PHASES, proto.SLICE_BEGIN, "execute"), (40, hostile.PHASES, proto.SLICE_END, ""),
            (begin, hostile.PHASES, proto.SLICE_BEGIN, "execute"), (95, hostile.PHASES, proto.SLICE_END, ""),
            (100, hostile.RUN, proto.SLICE_END, ""),
        ]  # fmt: skip
        (tmp_path / "t.pftrace").write_bytes(hostile.begun() + b"".join(hostile.event(*each) for each in slices))
        return coldstep.load(tmp_path / "t.pftrace").run.notes

    assert notes(50) == []
    assert notes(0) == ["The times do not add up: the file was changed, or damaged, after it was written."]


def _honest(folder: Path) -> Path:
    generated_trace.write(folder / "honest.pftrace", steps=5, compiles=2)
    return folder / "honest.pftrace"


# --- sql ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _honest(tmp_path_factory.mktemp("honest"))


@pytest.mark.parametrize(
    "statement",
    [
        "select content from read_text('/etc/hostname')",
        "select content from read_blob('/etc/hostname')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_json('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from '{cache}/tables-*/runs/*/*.parquet'",
        "select * from glob('/etc/*')",
        "select * from sniff_csv('/etc/passwd')",
        "from 'https://example.com/x.parquet'",
        "copy (select 1) to '{cache}/stolen.csv'",
        "copy runs to '{cache}/stolen.parquet'",
        "export database '{cache}/stolen'",
        "import database '/etc'",
        "attach '{cache}/stolen.db'",
        "install httpfs",
        "load httpfs",
        "load '{cache}/mine.duckdb_extension'",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma enable_profiling",
        "select getenv('HOME')",
        "create table mine as select 1",
        "call enable_logging(storage = 'file')",
        "select 1; select content from read_text('/etc/hostname')",
        "create secret (type s3)",
    ],
)
def test_a_statement_reaches_nothing_but_the_tables(
    honest: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    cache = tmp_path_factory.getbasetemp() / "sql"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    done = CliRunner().invoke(cli.main, ["sql", str(honest), statement.format(cache=cache / "coldstep")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("coldstep: ")
    assert done.stderr.count("\n") == 1
    assert not list(cache.rglob("stolen*"))


@pytest.mark.parametrize(
    "statement",
    ["from runs", "show tables", "describe runs", "summarize phases", "explain from runs", "values (1)",
     "pivot phases on kind using sum(ns)", "with a as (from runs) select count(*) from a"],
)  # fmt: skip
def test_every_kind_of_question_is_answered(honest: Path, statement: str, monkeypatch: pytest.MonkeyPatch,
                                            tmp_path_factory: pytest.TempPathFactory) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "sql"))
    with queries.query([honest], statement, pytest.fail) as answer:
        assert [row for batch in answer.batches for row in batch]


def test_a_statement_that_takes_too_long_is_ended(
    honest: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sealed, "_PATIENCE_S", 1.0)
    statement = "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 7 = 3"
    done = CliRunner().invoke(cli.main, ["sql", str(honest), statement])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "coldstep: the statement takes more than 1 s: ask for less\n"


def test_rows_are_capped_and_that_is_said(honest: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("coldstep_viewers.commands.understand.sql._MAX_OBJECTS", 3)
    done = CliRunner().invoke(cli.main, ["sql", str(honest), "select range as n from range(9)", "--json"])
    assert (done.exit_code, done.stdout) == (0, '{"n": 0}\n{"n": 1}\n{"n": 2}\n')
    assert done.stderr.startswith("coldstep: the first 3 rows")


# --- what is recorded ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("train.py --max-tokens 512 --tokenizer gpt2 --lr=0.1", None),
        ("train.py /data/0123456789abcdef0123456789abcdef/x.parquet s3://bucket/a/b", None),
        ("--token abc x", "--token hidden x"),
        ("--hf-token=abc", "--hf-token=hidden"),
        ("--apiKey abc", "--apiKey hidden"),
        ("API_KEY=abc wandb.api_key=abc", "API_KEY=hidden wandb.api_key=hidden"),
        ("https://me:word@host/x", "https://hidden@host/x"),
        ("https://host/x?sig=abc&n=1", "https://host/x?sig=hidden&n=1"),
        ("os.environ['HF_TOKEN']='abc'", "os.environ['HF_TOKEN']='hidden'"),
        ("hf_abcdefghijklmnop AKIAIOSFODNN7EXAMPLE", "hidden hidden"),
        (
            "coldstep run -o hf_trainer.pftrace hf_generate_text.py",
            "coldstep run -o hf_trainer.pftrace hf_generate_text.py",
        ),
        ("0123456789abcdef0123456789abcdef01234567", "hidden"),
    ],
)
def test_secrets_of_a_command_line_are_hidden(words: str, kept: str | None) -> None:
    assert " ".join(hidden(words.split())) == (words if kept is None else kept)


def test_a_trace_holds_no_secret_and_is_its_owners(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; assert sys.argv[1:] == ['--token', 'very-secret']")
    command = [sys.executable, "-m", "coldstep", "run", "train.py", "--token", "very-secret"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, umask=0)
    assert done.returncode == 0, done.stderr
    assert coldstep.load(tmp_path / "train.pftrace").run.command[-2:] == ["--token", "hidden"]
    assert stat.S_IMODE((tmp_path / "train.pftrace").stat().st_mode) == 0o600


# --- a file that the program has closed ---------------------------------------------------------------------------


@pytest.mark.parametrize("reused", [True, False])
def test_a_descriptor_that_the_program_has_closed_is_left_alone(tmp_path: Path, reused: bool) -> None:
    done = program.run(
        f"""
        import os, coldstep

        with coldstep.trace("t.pftrace"):
            with coldstep.step():
                pass
            os.closerange(3, 256)
            file = open("checkpoint.bin", "wb") if {reused} else None
            if file:
                file.write(b"x" * 70)
                file.flush()
            for _ in range(3):
                with coldstep.step():
                    pass
        if file:
            file.close()
        print("goes on")
        """,
        tmp_path,
    )
    assert done.stdout == "goes on\n"
    assert done.stderr.count("cannot write the trace any more, the program goes on") == 1
    assert not reused or (tmp_path / "checkpoint.bin").read_bytes() == b"x" * 70
    assert coldstep.load(tmp_path / "t.pftrace").run.ended == "killed"


# --- texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["n" * 300_000, "a-" * 150_000, "a." * 150_000, " " * 300_000, "allocat" * 50_000, "'\\" * 150_000]
)
def test_long_texts_are_stripped_in_a_time_that_goes_with_their_length(text: str) -> None:
    private = Private()  # in one that goes with its square, each takes a quarter of an hour and more
    for key in ("text", "reason", "error", "guard_failures", "type"):
        private.args({key: text})
    private.args({"context": {"call": text, "value": text}})
    private.name("annotations", text)
    assert private.args({"before": text}) != {"before": text}


def test_no_line_separator_reaches_a_terminal() -> None:
    assert plain("a\u2028b\u2029c\u202ed\ne") == "a\\u2028b\\u2029c\\u202ed\ne"


def test_a_budget_nested_without_end_is_one_line(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(f"a = {'[' * 5000}{']' * 5000}")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.main, ["check", str(honest), "--max-recompiles", "0"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "cannot read" in done.stderr


_BROKEN = "V1121 07:47:53.363000 32395 torch/_dynamo/symbolic_convert.py:544] [0/0] [__graph_breaks] "
_COMPILING = "Compiling f with global shapes and types "
_RECOMPILED = (
    "Recompiling function f in /repo/a.py:1\n    triggered by the following guard failure(s):\n    - 0/0: L['x'] == 1"
)
_LOGS = {
    "no stack": f"{_BROKEN}Graph break in user code at a.py:1\n{_BROKEN}Graph Break Reason: x\n"
    f"{_BROKEN}User code traceback:\n",
    "endless seconds": "Finished tracing + transforming f for pjit in 1e999 sec\n"
    "Finished XLA compilation of jit(f) in 1e999 sec\n",
    "negative seconds": "Finished XLA compilation of jit(f) in -1e999 sec\n",
    "no seconds": "Finished XLA compilation of jit(f) in e sec\n",
    "an endless line": f"{_BROKEN}{'Graph break in user code at ' * 30_000}",
    "endless compiling": _COMPILING * 25_000 + "\n",
    "endless types": f"{_COMPILING}{'a(' * 200_000}. Argument mapping: ({'b(' * 200_000}).\n",
    "an endless word": f"{_COMPILING}{'a' * 400_000}. Argument mapping: ({'b' * 400_000}).\n",
    "endless tracing": "Finished tracing f for pjit in " * 30_000 + "\n",
    "endless explanation": f"TRACING CACHE MISS at a.py:1 (f) because:\n{'* at x, now f32[1] and before ' * 30_000}\n",
    "endless place": "TRACING CACHE MISS at " + "a:1 (" * 200_000 + "\n",
    "endless blanks": f"{' ' * 600_000}x\n{_BROKEN}{' ' * 600_000}x\n",
    "endless blanks of a guard": f"{_RECOMPILED}{' ' * 600_000}x\n",
    "endless hints": f"{_RECOMPILED}{' (HINT: ' * 60_000}x\n",
    "endless quotes": "'" + "a b' c " * 60_000 + "x\n",
    "endless numbers": f"{_BROKEN.replace('32395', '3' * 60_000)}x\n[rank{'0' * 60_000}]: x\n"
    f"Nov 21 07:47:53 node1 python[{'3' * 60_000}]: x\n",
    "endless equals": f"{_BROKEN.replace('graph_breaks', 'guards')}+- EQUALS_MATCH: {' == ' * 5000}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", _LOGS)
def test_a_hostile_log_is_a_report_or_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "job.log").write_text(_LOGS[name])
    done = CliRunner().invoke(cli.main, ["log", str(tmp_path / "job.log"), "-o", str(tmp_path / "out.pftrace")])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.exit_code in (0, 2)
    assert done.exit_code == 0 or done.stderr.count("\n") == 1
