"""A fleet's traces in tables: whole, once, whatever dies on the way; and what stands out in them."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import fleet_of
import generated_trace
import in_process
import psutil
import pytest
from fleet_of import Bases, Delay, named, rows, strangers, text, written

import coldstep
from coldstep._util.labels import VARIABLES
from coldstep.analysis.across.rank_choice import MOST, chosen
from coldstep.model import Trace
from coldstep_viewers.export import tables
from coldstep_viewers.fleet import filling, ingest, limits, places, sections, store, workers
from coldstep_viewers.fleet.differences import KINDS
from coldstep_viewers.fleet.places import FleetError
from coldstep_viewers.fleet.report import report
from coldstep_viewers.fleet.store import Store

pytestmark = pytest.mark.jax
NUMBER = 60
Rows = dict[str, list[str]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return fleet_of.bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def traces(bases: Bases, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet with a difference of each kind."""
    return written(fleet_of.planted(bases, NUMBER)[0], tmp_path_factory.mktemp("fleet") / "traces")


@pytest.fixture(scope="module")
def made(traces: Path) -> Path:
    """Its tables, made by a command that nothing disturbed."""
    out = traces.parent / "tables"
    done = run("fleet", traces, "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: {NUMBER} traces read; coldstep fleet report {out}\n"
    return out


@pytest.fixture(scope="module")
def made_rows(made: Path) -> Rows:
    """What readers of these tables see."""
    return rows(made)


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | environment
    command = [sys.executable, "-m", "coldstep", *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True)


@cache
def loaded(path: Path) -> Trace:
    """Each trace of the fleet, read once."""
    return coldstep.load(path)


def fill(sources: object, out: Path, tell: Callable[[filling.Progress], None] = lambda _: None) -> filling.Filled:
    return filling.fill([str(sources)], str(out), "local", None, tell)


def states(out: Path) -> dict[str, str]:
    return {Path(o.uri).name: o.state for marker in store.live(Store(str(out)).markers()) for o in marker.objects}


# --- what is read -------------------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_traces_in_few_files(traces: Path, made: Path, made_rows: Rows) -> None:
    expected: dict[str, list[str]] = {name: [] for name in tables.SCHEMAS}
    for path in traces.iterdir():
        for name, table in tables.tables(loaded(path), tables.run_of(path)).items():
            expected[name] += [text(row) for row in table.to_pylist()]
    assert made_rows == {name: sorted(listed) for name, listed in expected.items()}
    assert all(expected[name] for name in ("components", "caches", "changes"))
    assert len(list(made.rglob("*.parquet"))) < 3 * NUMBER


def test_a_worker_that_is_killed_costs_nothing(traces: Path, made_rows: Rows, tmp_path: Path) -> None:
    killed: list[int | None] = []

    def kill(_: filling.Progress) -> None:
        if not killed and (children := multiprocessing.active_children()):
            killed.append(children[0].pid)
            children[0].kill()

    found = fill(traces, tmp_path / "tables", kill)
    assert killed
    assert {outcome.state for outcome in found.outcomes} == {store.READ}
    assert rows(tmp_path / "tables") == made_rows


def test_a_trace_that_kills_each_worker_is_listed_and_the_others_are_read(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for n in range(4):
        shutil.copy(traces / f"{n}.pftrace", folder)
    shutil.copy(traces / "4.pftrace", folder / "poison.pftrace")
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, os, signal\nreal = builtins.open\n"
        "def opened(file, *rest, **more):\n"
        "    if str(file).endswith('poison.pftrace'):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(file, *rest, **more)\nbuiltins.open = opened\n"
    )
    done = run("fleet", folder, "-o", tmp_path / "tables", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == f"coldstep: not read (too costly): {folder / 'poison.pftrace'}: {workers.KILLED}\n"
    assert "4 traces read, 1 not read" in done.stdout
    assert len(rows(tmp_path / "tables")["runs"]) == 4


def test_the_second_time_nothing_is_done_and_then_only_what_is_new(traces: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    shutil.copytree(made, out)
    done = in_process.run("fleet", traces, "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: nothing is new: {NUMBER} objects are there as they were read\n"
    assert sorted(path.name for path in out.rglob("*.*")) == sorted(path.name for path in made.rglob("*.*"))
    more = tmp_path / "more"
    more.mkdir()
    for n in range(3):
        generated_trace.write(more / f"{n}.pftrace", steps=3, compiles=1, labels={f"label{n}": "x"})
    done = in_process.run("fleet", traces, more, "-o", out)
    assert done.stdout == f"{out}: 3 traces read, {NUMBER} there already; coldstep fleet report {out}\n"
    assert len(rows(out)["runs"]) == NUMBER + 3
    assert sum("label_label1" in row for row in rows(out)["runs"]) == 1


@pytest.mark.parametrize("early", [True, False])
def test_interrupted_it_goes_on_where_it_was(early: bool, traces: Path, made_rows: Rows, tmp_path: Path) -> None:
    """By Ctrl-C, of which a terminal tells the workers, too: when they begin, and when they have committed."""
    out = tmp_path / "tables"
    command = [sys.executable, "-m", "coldstep", "fleet", str(traces), "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    watched = psutil.Process(process.pid)
    while process.poll() is None and not (watched.children() if early else list(out.glob("*/_SUCCESS"))):
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    said = process.communicate()[1]
    if process.returncode:  # it may have been done
        assert process.returncode == 130
        assert re.fullmatch(r"coldstep: stopped: .*; run it again to go on\n", said)
    assert run("fleet", traces, "-o", out).returncode == 0
    assert rows(out) == made_rows


def test_a_trace_that_grows_and_one_by_two_names_count_once(traces: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "traces", tmp_path / "tables"
    folder.mkdir()
    whole = (traces / "0.pftrace").read_bytes()
    (folder / "grows.pftrace").write_bytes(whole[: len(whole) * 2 // 3])
    fill(folder, out)
    assert states(out) == {"grows.pftrace": store.CUT}
    (folder / "grows.pftrace").write_bytes(whole)
    shutil.copy(folder / "grows.pftrace", folder / "copy.pftrace")
    fill(folder, out)
    expected = tables.tables(loaded(traces / "0.pftrace"), tables.run_of(traces / "0.pftrace"))
    assert rows(out) == {name: sorted(text(row) for row in table.to_pylist()) for name, table in expected.items()}
    assert sorted(states(out).values()) == [store.COPY, store.READ]
    assert fill(folder, out).new == 0
    # shorter again, as an upload that was cut: what was known stays
    for name in ("grows", "copy"):
        (folder / f"{name}.pftrace").write_bytes(whole[: len(whole) // 2])
        fill(folder, out)
        assert len(rows(out)["runs"]) == 1
    assert fill(folder, out).new == 0
    assert rows(out) == {name: sorted(text(row) for row in table.to_pylist()) for name, table in expected.items()}


def test_what_is_no_trace_is_listed_and_the_rest_is_read(traces: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "traces", tmp_path / "tables"
    folder.mkdir()
    shutil.copy(traces / "0.pftrace", folder / "good.pftrace")
    (folder / "empty.pftrace").touch()
    (folder / "page.pftrace").write_text("<html>404</html>")
    (folder / "cut.pftrace").write_bytes((traces / "1.pftrace").read_bytes()[:9000])
    done = run("fleet", folder, "-o", out)
    assert done.returncode == 0
    assert "2 traces read, 2 not read" in done.stdout
    assert sorted(line.split(": ")[1] for line in done.stderr.splitlines()) == [
        "not read (broken)", "not read (broken)", "read as far as it goes"]  # fmt: skip
    assert re.search(r"not read \(broken\): \S+/empty.pftrace: is empty", done.stderr)
    assert fill(folder, out).new == 0
    listed = json.loads(in_process.run("fleet", "report", out, "--json").stdout)
    assert listed["objects"] == {"read": 1, "cut": 1, "broken": 2}
    assert [Path(row["uri"]).name for row in listed["unread"]] == ["cut.pftrace", "empty.pftrace", "page.pftrace"]


def test_what_is_no_file_of_data_is_listed_and_holds_nothing_up(traces: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "traces", tmp_path / "tables"
    folder.mkdir()
    shutil.copy(traces / "0.pftrace", folder / os.fsdecode(b"caf\xe9.pftrace"))  # of a time before UTF-8
    os.mkfifo(folder / "pipe.pftrace")
    (folder / "zero.pftrace").symlink_to("/dev/zero")
    (folder / "gone.pftrace").symlink_to(tmp_path / "nowhere")
    done = in_process.run("fleet", folder, "-o", out, "--shard", "0/1")
    assert done.returncode == 0
    assert "1 trace read, 3 not read" in done.stdout
    told = {match[2]: match[1] for match in re.finditer(r"not read \((\w+)\): \S+/(\w+)\.pftrace: ", done.stderr)}
    assert told == {"pipe": "broken", "zero": "broken", "gone": "unreadable"}
    assert in_process.run("fleet", "report", out, "--json").returncode == 0


def test_an_object_of_any_name_is_read(traces: Path) -> None:
    """In a store, where its address is not its name: Arrow's own, in memory."""
    at = places.place("mock:///nightly")
    at.system.create_dir(at.path)
    with at.system.open_output_stream(at.below("loss<1 #3? 100%41.pftrace")) as file:
        file.write((traces / "0.pftrace").read_bytes())
    [each] = places.objects("mock:///nightly")
    assert ingest.read(each)[0].state == store.READ


def test_a_trace_of_any_year_and_label_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "tables"
    days = ("0001-01-01T00:00:00+00:00", "2026-11-20T12:00:00+00:00", "2026-11-21T12:00:00+00:00")
    for n, started in enumerate(days):
        labels = {"job": "4711", f"label{n}": "x"}
        generated_trace.write(tmp_path / f"{n}.pftrace", steps=3, compiles=1, started=started, labels=labels)
    listed = tuple(places.objects(str(tmp_path)))
    ingest.ingest(listed, str(out))
    assert [[row[f"label_label{n}"] for row in runs_of(out)] for n in range(3)] == [
        ["x", None, None], [None, "x", None], [None, None, "x"]]  # fmt: skip
    assert [row["started"].year for row in runs_of(out)] == [1, 2026, 2026]
    monkeypatch.setattr(store, "_MOST_LABELS", 1)  # what reports group by is not crowded out
    ingest.ingest(listed, str(few := tmp_path / "few"))
    assert [row["label_job"] for row in runs_of(few)] == ["4711"] * 3


def runs_of(out: Path) -> list[dict[str, Any]]:
    at = Store(str(out))
    runs: list[dict[str, Any]] = at.dataset("runs", at.markers()).to_table().to_pylist()
    return sorted(runs, key=lambda row: row["started"])


def test_what_the_store_did_not_give_is_asked_for_again(traces: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "late.pftrace", tmp_path / "tables"
    shutil.copy2(traces / "0.pftrace", path)
    listed = tuple(places.objects(str(path)))
    path.rename(tmp_path / "away")
    ingest.ingest(listed, str(out))
    assert states(out) == {"late.pftrace": store.UNREADABLE}
    (tmp_path / "away").rename(path)
    assert fill(path, out).new == 1
    found = report(str(out))
    assert (found.states, found.unread) == ({store.READ: 1}, [])


@pytest.mark.parametrize(("failures", "state"), [(1, store.READ), (9, store.UNREADABLE)])
def test_a_bucket_that_was_not_found_is_looked_for_again(
    failures: int, state: str, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker asks the network where it is: a passing error of that says nothing of a trace."""
    at = places.place("mock:///found")
    at.system.create_dir(at.path)
    with at.system.open_output_stream(at.below("a.pftrace")) as file:
        file.write((traces / "0.pftrace").read_bytes())
    [each] = places.objects("mock:///found")
    left, found = [failures], places._system

    def system(*address: str) -> tuple[Any, str]:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError("timed out")
        return found(*address)

    monkeypatch.setattr(places, "_system", system)
    monkeypatch.setattr(ingest, "_PAUSES_S", (0, 0))
    outcome, _ = ingest.read(each)
    assert outcome.state == state
    assert (outcome.why or "timed out").endswith("timed out")


@pytest.mark.parametrize(("limit", "value", "says"), [("SECONDS", 0.001, "processor time"), ("BYTES", 1, "memory")])
def test_what_takes_too_much_is_given_up(limit: str, value: float, says: str, tmp_path: Path) -> None:
    path = tmp_path / "long.pftrace"
    generated_trace.write(path, steps=3_000, compiles=300)
    with multiprocessing.get_context("spawn").Pool(1) as fresh:  # what a process has freed, it may take again
        limited, unlimited = fresh.apply(_read_twice, (str(path), limit, value))
    assert limited[0] == store.TOO_COSTLY
    assert says in limited[1]
    assert unlimited[0] == store.READ


def test_what_fails_where_memory_is_at_its_end_fails_for_want_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot be loaded is an ImportError, and no fault of the trace's."""
    with pytest.raises(ImportError), limits.limited():
        raise ImportError
    monkeypatch.setattr(limits, "BYTES", 1)
    with pytest.raises(MemoryError), limits.limited():
        raise ImportError


def _read_twice(path: str, limit: str, value: float) -> list[tuple[str, str]]:
    """How reading ends, and why, within another limit and then within the usual one."""
    [each] = places.objects(path)
    usual = getattr(limits, limit)
    ended = []
    for most in (value, usual):
        setattr(limits, limit, most)
        outcome, _ = ingest.read(each)
        ended.append((outcome.state, outcome.why or ""))
    return ended


# --- the tables' folder -------------------------------------------------------------------------------------------


def copied(made: Path, tmp_path: Path) -> Path:
    """Tables that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "tables"))


def counting(out: Path) -> list[store.Marker]:
    return store.live(Store(str(out)).markers())


def compacted(out: Path, batches: list[store.Marker], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a machine that listed these batches, however long ago."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "_MOST_SMALL", 1)
        patch.setattr(Store, "markers", lambda _: batches)
        Store(str(out)).tidy()


def test_what_a_dead_writer_left_does_not_count_and_goes(made: Path, made_rows: Rows, tmp_path: Path) -> None:
    out = copied(made, tmp_path)
    left = out / "0123456789abcdef0123"
    shutil.copytree(next(out.glob("*/_SUCCESS")).parent, left)
    (left / "_SUCCESS").rename(left / "_SUCCESS.0123abcd")  # it died just then
    [some, *_] = sorted(left.rglob("*.parquet"))
    some.write_bytes(some.read_bytes()[:100])
    assert rows(out) == made_rows
    Store(str(out)).sweep()
    assert left.exists()  # it may be somebody's who writes just now
    for path in left.rglob("*"):
        os.utime(path, (0, 0))
    Store(str(out)).sweep()
    assert rows(out) == made_rows
    assert not left.exists()


def test_an_empty_marker_is_of_nobody(made: Path, made_rows: Rows, tmp_path: Path) -> None:
    out = copied(made, tmp_path)
    (out / "0123456789abcdef0123").mkdir()
    (out / "0123456789abcdef0123/_SUCCESS").touch()  # as an object store keeps one that was not finished
    assert rows(out) == made_rows


def test_files_of_others_in_the_folder_stay(made: Path, tmp_path: Path) -> None:
    """What TensorBoard writes, what `coldstep export` does, what lies in a folder of such a name, or beyond a link."""
    out = copied(made, tmp_path)
    (exported := out / "runs/date=2026-11-20/0123456789abcdef.parquet").parent.mkdir(parents=True)
    (events := out / "runs/Nov22_box/events.out.tfevents.1").parent.mkdir()
    (objects := out / "0123456789abcdef0123/pack").parent.mkdir()
    (linked := tmp_path / "elsewhere/_SUCCESS.0123abcd").parent.mkdir()
    for path in (exported, events, objects, linked):
        path.touch()
        os.utime(path, (0, 0))
    (out / "3210fedcba9876543210").symlink_to(linked.parent)
    before = rows(out)
    Store(str(out)).sweep()
    assert rows(out) == before
    assert all(path.exists() for path in (exported, events, objects, linked))


def test_what_was_replaced_stays_a_day_whatever_clocks_say(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied(made, tmp_path)
    before = counting(out)
    monkeypatch.setattr(time, "time", lambda: 0.0)  # of a machine whose clock was never set
    compacted(out, before, monkeypatch)
    monkeypatch.undo()
    Store(str(out)).sweep()
    assert Store(str(out)).dataset("runs", before).count_rows() == NUMBER


def test_small_batches_become_one_while_others_read(
    made: Path, made_rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied(made, tmp_path)
    before = counting(out)
    assert len(before) > 1
    compacted(out, before, monkeypatch)
    assert len(counting(out)) == 1
    assert rows(out) == made_rows
    assert Store(str(out)).dataset("runs", before).count_rows() == NUMBER  # whoever has the old list reads on
    monkeypatch.setattr(store, "_GRACE_S", 0)
    Store(str(out)).sweep()
    assert rows(out) == made_rows
    assert len(list(out.glob("*/runs/*/*.parquet"))) == 1


def test_what_is_written_twice_is_written_once(traces: Path, made: Path, made_rows: Rows, tmp_path: Path) -> None:
    out = copied(made, tmp_path)
    for batch in ingest.batches(list(places.objects(str(traces))), workers.number()):
        ingest.ingest(batch, str(out))
    names = [sorted(path.relative_to(each) for path in each.rglob("*")) for each in (out, made)]
    assert names[0] == names[1]
    assert rows(out) == made_rows


def test_machines_that_read_at_once_count_each_trace_once(traces: Path, made_rows: Rows, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    with ThreadPoolExecutor(2) as two:
        for done in two.map(lambda _: run("fleet", traces, "-o", out), range(2)):
            assert done.returncode == 0, done.stderr
    assert rows(out) == made_rows
    fill(traces, out)
    assert Store(str(out)).dataset("runs", counting(out)).count_rows() == NUMBER


def test_machines_that_compact_at_once_lose_nothing(
    made: Path, made_rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has not seen the last batch yet, and a third does not know of what both have made."""
    out = copied(made, tmp_path)
    before = counting(out)
    compacted(out, before[:-1], monkeypatch)
    once = counting(out)
    compacted(out, before, monkeypatch)
    assert rows(out) == made_rows
    compacted(out, [*once, *before[:1]], monkeypatch)
    assert rows(out) == made_rows
    Store(str(out)).tidy()
    [marker] = counting(out)
    assert Store(str(out)).dataset("runs", [marker]).count_rows() == NUMBER
    assert rows(out) == made_rows


def test_what_a_damaged_batch_replaced_counts_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied(made, tmp_path)
    compacted(out, counting(out), monkeypatch)
    [marker] = counting(out)
    (out / marker.batch / marker.files[0]).unlink()
    found = report(str(out))
    assert found.runs == NUMBER
    [why] = found.lost
    assert "is missing or damaged" in why


def test_shards_together_read_all_and_two_that_read_the_same_count_once(
    traces: Path, made_rows: Rows, tmp_path: Path
) -> None:
    out = tmp_path / "tables"
    parts = [filling.fill([str(traces)], str(out), "local", (n, 2), lambda _: None).new for n in range(2)]
    assert sum(parts) == NUMBER
    assert min(parts) > NUMBER // 4
    assert rows(out) == made_rows
    # the same trace in two batches
    ingest.ingest(tuple(places.objects(str(traces / "0.pftrace"))), str(out))
    at = Store(str(out))
    assert at.dataset("runs", counting(out)).count_rows() == NUMBER + 1
    assert rows(out) == made_rows
    assert report(str(out)).runs == NUMBER
    at.tidy()
    assert rows(out) == made_rows
    assert at.dataset("runs", counting(out)).count_rows() == NUMBER


@pytest.mark.parametrize("words", [("fleet", "load", ".", "-o"), ("fleet", "report")])
def test_tables_of_an_earlier_version_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "_batches").mkdir()
    done = in_process.run(*words, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    says = "tables of coldstep-tables/1: give coldstep fleet load another folder"
    assert done.stderr == f"coldstep: {tmp_path} holds {says}\n"


# --- what they say ------------------------------------------------------------------------------------------------


def test_all_that_was_planted_is_named_and_nobody_else(bases: Bases, made: Path) -> None:
    truth = fleet_of.planted(bases, NUMBER)[1]
    assert set(truth) == set(KINDS)
    found = report(str(made))
    assert named(found, truth) == set(truth)
    assert strangers(found, truth) == []


def test_where_nothing_was_planted_nothing_is_found(bases: Bases, tmp_path: Path) -> None:
    """Nor where a rank compiles for longer, and nobody waits for it."""
    members = fleet_of.plain(bases, NUMBER)
    slow = members[NUMBER // 2]
    assert slow.rank is not None
    members[NUMBER // 2] = replace(slow, delays=(*slow.delays, Delay(bases.first_ns, "jax.trace")))
    fill(written(members, tmp_path / "traces"), tmp_path / "tables")
    found = report(str(tmp_path / "tables"))
    assert [each.text for each in found.findings] == []
    assert found.processes == NUMBER


def test_the_report_counts_what_the_traces_say(traces: Path, made: Path) -> None:
    document = json.loads(in_process.run("fleet", "report", made, "--by", "job", "--json").stdout)
    assert document["schema"] == "coldstep-fleet/1"
    each = [loaded(path) for path in traces.iterdir()]
    first = sorted(trace.cost[0].time_to_first_step_ns for trace in each)
    assert [(row["percentile"], row["first_ns"]) for row in document["cold_start"]] == [
        (50, first[29]), (95, first[56]), (99, first[59])]  # fmt: skip
    again = [row for trace in each for row in trace.recompiles]
    assert sum(row["recompiles"] for row in document["recompiles"]) == len(again)
    asked = [cache for trace in each for row in trace.compiles for cache in row.caches if cache.state != "off"]
    [layer] = document["caches"]
    assert (layer["asked"], layer["hits"]) == (len(asked), sum(cache.hits for cache in asked))
    assert {row["job"]: row["processes"] for row in document["by"]}["4711"] == NUMBER * 2 // 5
    versions = {(row["package"], row["version"]): row["processes"] for row in document["versions"]}
    assert versions["jax", "0.9.9"] == 1


@pytest.mark.parametrize("by", ["commit", "host", "rank", "day"])
def test_groups_add_up(made: Path, by: str) -> None:
    [section] = [each for each in report(str(made), by).sections if each.name == "by"]
    assert sum(row["processes"] for row in section.rows) == NUMBER


def test_of_many_ranks_the_slowest_are_shown_in_their_order(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_MOST_GROUPS", 12)
    [section] = [each for each in report(str(made), "rank").sections if each.name == "by"]
    assert section.about == f"the 12 slowest of {NUMBER * 2 // 5 + 1}"  # and those that have none
    shown = [int(row["rank"]) for row in section.rows if row["rank"] is not None]
    assert shown == sorted(shown)
    assert len(section.rows) == 12
    monkeypatch.setattr(sections, "_MOST_GROUPS", 100)
    [whole] = [each for each in report(str(made), "rank").sections if each.name == "by"]
    assert [row["rank"] for row in whole.rows] == [*map(str, range(NUMBER * 2 // 5)), None]
    slowest = sorted((row["first_p95_ns"] for row in whole.rows), reverse=True)[:12]
    assert sorted((row["first_p95_ns"] for row in section.rows), reverse=True) == slowest


HOSTILE = "</td><script>alert(1)</script>\x1b[31m'; drop table runs; --"


def test_hostile_names_and_labels_do_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for n in range(6):
        labels = {"job": HOSTILE, "commit": f"{HOSTILE}{n}"}
        path = folder / f"{n}.pftrace"
        generated_trace.write(path, steps=30, compiles=3, function=HOSTILE if n else "step", labels=labels)
    fill(folder, tmp_path / "tables")
    done = in_process.run("fleet", "report", tmp_path / "tables", "--by", "commit", "--html", tmp_path / "fleet.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "fleet.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page
    shown = in_process.run("fleet", "report", tmp_path / "tables").stdout
    assert "\x1b" not in shown
    assert "drop table runs" in shown


def test_a_marker_names_no_file_but_its_own(made: Path, made_rows: Rows, tmp_path: Path) -> None:
    out = copied(made, tmp_path)
    [one, *_] = sorted(out.glob("*/_SUCCESS"))
    said = json.loads(one.read_text())
    part = "date=2026-11-20/0123456789abcdef0123.parquet"
    said["files"] += ["../secret.parquet", "/etc/passwd", f"runs/../{part}", f"x/{part}"]
    one.write_text(json.dumps(said))
    assert rows(out) == made_rows
    one.write_text("{")
    done = in_process.run("fleet", "report", out)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "left out: " in done.stderr
    assert "is damaged" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fleet", "absent.pftrace", "-o", "{}/t"], "cannot read absent.pftrace: No such file"),
        (["fleet", "absent", "-o", "{}/t", "--shard", "8/8"], "is no part of a number"),
        (["fleet", "{}/x", "-o", "{}/t", "--engine", "ray"], "ray"),
        (["fleet", "{}", "-o", "s3://me:word@bucket/x"], "credentials belong into the environment"),
        (["fleet", "s3://bucket/x?secret_key=word", "-o", "{}"], "credentials belong into the environment"),
        (["fleet", "{}/x", "-o", "/proc/nowhere"], "cannot write /proc/nowhere"),
        (["fleet", "{}/x", "-o", os.fsdecode(b"caf\xe9")], "needs a name in UTF-8"),
        (["fleet", "report", "{}"], "holds no tables"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("no trace")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    done = in_process.run(*(word.format(tmp_path) for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert "word" not in done.stderr


def test_labels_of_the_environment_are_always_columns(made: Path) -> None:
    at = Store(str(made))
    assert {f"label_{name}" for name in VARIABLES} <= set(at.dataset("runs", at.markers()).schema.names)
    with pytest.raises(FleetError, match="holds no tables"):
        report(str(made / "runs"))


DOCS = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"


def test_the_documented_questions_are_answered(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page says: with the files that markers name, among others that count no longer."""
    shutil.copytree(made, tmp_path / "tables")
    left = next(tmp_path.glob("tables/*/compiles/*/*.parquet"))
    shutil.copy(left, left.with_name("0123456789abcdef0123.parquet"))
    monkeypatch.chdir(tmp_path)
    connection = fleet_of.in_duckdb(tables.SCHEMAS)
    questions = [question for _, question in fleet_of.documented()[1]]
    again, twice, days, caches, spent = (connection.sql(each).to_arrow_table().to_pylist() for each in questions)
    assert [(row["cause"], row["recompiles"]) for row in again] == [("shape", 1)]
    assert [(row["function"], row["runs"]) for row in twice] == [("train_step", 8)]
    assert sum(row["p50"] > 0 for row in days) == 1
    assert [(row["layer"], row["hits"]) for row in caches] == [("xla.persistent", 51)]
    assert len({row["commit"] for row in spent}) == 6
    fleets = DOCS.read_text().partition("## Fleets")[2]
    assert set(re.findall(r"`(\w+)`", fleets)) >= {*KINDS, *store.Marker.__slots__, *store.Outcome.__slots__}


# --- one timeline of a large job ----------------------------------------------------------------------------------


def test_of_a_large_job_those_that_differ_are_merged_and_one_of_the_others(traces: Path, tmp_path: Path) -> None:
    pods = NUMBER * 2 // 5
    ranks = [traces / f"{pods + n}.pftrace" for n in range(pods)]
    done = in_process.run("merge", *ranks, "-o", tmp_path / "job.pftrace")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 of 24 ranks: 2 and 4 differ, 0 is one of 22 alike; --ranks takes others\n")
    merged = coldstep.load(tmp_path / "job.pftrace")
    assert [process.rank for process in merged.processes] == [0, 2, 4]
    assert [row.process for row in merged.recompiles] == [1]
    done = in_process.run("merge", *ranks, "-o", tmp_path / "job.pftrace", "--ranks", "3,5-6")
    assert done.returncode == 0, done.stderr
    assert [process.rank for process in coldstep.load(tmp_path / "job.pftrace").processes] == [3, 5, 6]
    done = in_process.run("merge", *ranks, "-o", tmp_path / "job.pftrace", "--ranks", "77")
    assert (done.returncode, done.stderr) == (2, "coldstep: --ranks 77: none of the traces is of such a rank\n")


def test_where_all_ranks_differ_there_is_room_for_some() -> None:
    found = chosen([str(n) for n in range(512)])
    assert len(found.taken) == MOST
    found = chosen(["a"] * 500 + ["b"] * 10 + ["c", "d"])
    assert {0, 500, 510, 511} <= set(found.taken)
    assert len(found.taken) == 4 + 9
    assert found.stand_for == {0: 500}


# --- what measures them -------------------------------------------------------------------------------------------


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks/fleets")
    return importlib.import_module("fleet")


def test_a_benchmark_says_which_rows_differ(benchmark: Any, made: Path, made_rows: Rows, tmp_path: Path) -> None:
    assert benchmark.same(made, made_rows) == [("the same rows: True", True)]
    shutil.copytree(made, tmp_path / "tables")
    next(tmp_path.glob("tables/*/_SUCCESS")).unlink()
    [(told, alike)] = benchmark.same(tmp_path / "tables", made_rows)
    lost = NUMBER - len(rows(tmp_path / "tables")["runs"])
    assert not alike
    assert f"; runs: {lost} missing, such as [(" in told
    shutil.copytree(made, tmp_path / "tables", dirs_exist_ok=True)
    generated_trace.write(tmp_path / "more.pftrace", steps=3, compiles=1)
    fill(tmp_path / "more.pftrace", tmp_path / "tables")
    [(told, alike)] = benchmark.same(tmp_path / "tables", made_rows)
    assert not alike
    assert "; runs: 1 too many, such as [(" in told


def test_a_benchmark_says_what_does_not_hold_and_goes_on(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fleet(framework: str, *_: object) -> Iterator[Any]:
        yield benchmark.Row.of("first", None, ("this holds", True), ("that does not", False))
        yield benchmark.Row.of("second", benchmark.coldstep("fleet", "absent"))

    monkeypatch.setattr(benchmark, "fleet", fleet)
    monkeypatch.setattr(sys, "argv", ["fleet.py", "jax:1", "torch:1"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    lines = str(ended.value).splitlines()
    assert [line.split(": ")[1:4] for line in lines] == [
        [name, *row]
        for name in ("jax:1", "torch:1")
        for row in (["first", "this holds; **that does not**"], ["what came next", "**Failed"])
    ]
    assert "coldstep fleet absent: status 2: " in lines[1]
    assert "| first |  |  |  | **does not hold** this holds; **that does not** |" in capsys.readouterr().out


def test_a_benchmark_finds_no_other_fleet_in_its_bucket(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto", reason="moto is in .venv-fleet")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "")
    for number in (3, 2):
        (folder := tmp_path / str(number)).mkdir()
        for n in range(number):
            generated_trace.write(folder / f"{n}.pftrace", steps=number, compiles=1)
        with benchmark.bucket(folder) as (_, name):
            found = {each.uri for each in places.objects(f"s3://{name}")}
        keys = [*map(str, range(number)), "cut", "empty", "page"]
        assert found == {f"s3://{name}/nightly/{key}.pftrace" for key in keys}
