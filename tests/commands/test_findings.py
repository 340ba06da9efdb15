"""Every command that prints findings takes `--format` and `-o`; the older names of commands and options still work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import generated_trace
import pytest
from click.testing import CliRunner, Result

from coldstep_viewers.commands import cli


@pytest.fixture(autouse=True)
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=2)
    shutil.copy("t.pftrace", "u.pftrace")


def coldstep(words: str) -> Result:
    done = CliRunner().invoke(cli.main, words.split(), prog_name="coldstep")
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


FINDINGS = {
    "report t.pftrace": ("text", "json", "html", "markdown"),
    "diff t.pftrace u.pftrace": ("text", "json"),
    "compare t.pftrace u.pftrace": ("text", "json", "html"),
    "cache t.pftrace": ("text", "json"),
    "explain shape": ("text", "json", "markdown"),
}


@pytest.mark.parametrize(("words", "formats"), FINDINGS.items())
def test_what_is_written_is_what_is_printed(words: str, formats: tuple[str, ...]) -> None:
    for name in formats:
        printed = coldstep(f"{words} --format {name}")
        assert printed.exit_code == 0, printed.stderr
        suffix = {"text": ".txt", "markdown": ".md"}.get(name, f".{name}")
        written = coldstep(f"{words} -o out{suffix}")  # the file's name chooses
        assert (written.exit_code, written.stdout) == (0, f"out{suffix}\n")
        assert Path(f"out{suffix}").read_text() == printed.stdout
        assert coldstep(f"{words} --format {name} -o any").exit_code == 0
        assert Path("any").read_text() == printed.stdout
    refused = coldstep(f"{words} --format junit")
    listed = ", ".join(f"'{name}'" for name in formats)
    command = words.split()[0]
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"coldstep: Invalid value for '--format': 'junit' is not one of {listed} (see coldstep {command} --help)\n"
    )
    assert not Path("out.xml").exists()
    assert coldstep(f"{words} -o out.xml").stderr == (
        f"coldstep: cannot write out.xml: this command writes {', '.join(formats)}; --format chooses one\n"
    )


def test_a_file_stays_as_it_is_where_a_command_gives_up() -> None:
    Path("kept.json").write_text("kept")
    done = coldstep("report nothing.pftrace -o kept.json")
    assert (done.exit_code, done.stdout, Path("kept.json").read_text()) == (2, "", "kept")
    done = coldstep("report t.pftrace -o missing/out.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "coldstep: cannot write missing/out.json: No such file or directory\n"


def test_two_formats_are_refused() -> None:
    for words in ("--json --html a.html", "--format json --html a.html", "--format text --json"):
        done = coldstep(f"report t.pftrace {words}")
        assert (done.exit_code, done.stdout) == (2, ""), words
        assert done.stderr.endswith(", not both\n")
    assert not Path("a.html").exists()


OLDER = {
    "report t.pftrace --json": "report t.pftrace --format json",
    "diff t.pftrace u.pftrace --json": "diff t.pftrace u.pftrace --format json",
    "cache t.pftrace --json": "cache t.pftrace --format json",
    "check t.pftrace --max-recompiles 0 --json": "check t.pftrace --max-recompiles 0 --format json",
    "fleet-report tables --json": "fleet report tables --format json",
    "diff --ir t.pftrace u.pftrace": "compare --ir t.pftrace u.pftrace",
    "fleet t.pftrace -o tables": "fleet load t.pftrace -o tables",
    "fleet -o tables t.pftrace": "fleet load -o tables t.pftrace",
}


@pytest.mark.parametrize(("older", "name"), OLDER.items())
def test_older_names_do_the_same_and_are_not_shown(older: str, name: str) -> None:
    if "tables" in older:
        assert coldstep("fleet load t.pftrace -o tables").exit_code == 0
    before, now = coldstep(older), coldstep(name)
    assert (before.exit_code, before.stdout, before.stderr) == (now.exit_code, now.stdout, now.stderr)
    shown = "".join(coldstep(f"{words} --help").stdout for words in ("", "report", "diff", "check", "fleet"))
    assert [word for word in ("--json", "--html", "fleet-report", "  lock ", "--ir  ") if word in shown] == ["--ir  "]


def test_a_baseline_is_written_by_check_as_lock_did() -> None:
    assert coldstep("lock t.pftrace -o old.lock").exit_code == 0
    done = coldstep("check t.pftrace --write-baseline new.lock")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert Path("new.lock").read_text() == Path("old.lock").read_text() == coldstep("lock t.pftrace").stdout
    judged = coldstep("check u.pftrace --baseline new.lock --format json")
    assert (judged.exit_code, json.loads(judged.stdout)["verdict"]) == (0, "within")
    assert coldstep("check t.pftrace u.pftrace --write-baseline a.lock").stderr == (
        "coldstep: --write-baseline takes one trace\n"
    )


def test_a_near_miss_below_fleet_is_named() -> None:
    done = coldstep("fleet reprot tables")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "coldstep: No such command 'reprot': did you mean coldstep fleet report? (see coldstep fleet --help)\n"
    )
