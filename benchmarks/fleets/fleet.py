"""Fleets of traces: what reading and reporting them takes, here, on a Ray cluster of three nodes and from an S3 server;
that what was planted in them is named, and nothing where nothing was; and that DuckDB and Spark answer alike.

    make venv venv-fleet && .venv-fleet/bin/python benchmarks/fleets/fleet.py [PART…] --output docs/evidence/fleet.md

A part is a framework and a number of traces (jax:2000; JAX's are also read again, with workers that are killed, on Ray
and from S3), a page and a timeline of so many ranks (ranks:512), or the documented questions (questions:5000). What the
other parts came to is kept beside the page. The frameworks' runs are made in .venv; clusters and servers are this
machine's own, begun and ended here. The status is 1 where something does not hold: what, and why, is said at the end
and stands in bold on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/helpers")]

import fleet_of  # noqa: E402
from fleet_machines import RAY, Failed, Killing, Second, Taken, bucket, cluster, coldstep  # noqa: E402
from scenarios.versions import commit  # noqa: E402

from coldstep._util.figures import listed  # noqa: E402
from coldstep_viewers.fleet.report import report  # noqa: E402

PARTS = ("jax:200", "jax:2000", "torch:200", "tensorflow:200", "ranks:512", "questions:5000")
_MORE = 100
_MOST_S = 1.0
"""Of a documented question, asked for the first time."""
_MOST_NAMED = 10
_SPARK = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false --conf "
    "spark.log.level=ERROR pyspark-shell"
)
_PAGE = """# Fleets, measured

Written by `benchmarks/fleets/fleet.py`: fleets made of traces of real runs, rewritten with other names, clocks and
delays, on {processors} processors. Each figure is one run; the peak is the resident memory of all processes together,
on Ray with three nodes, which have some of it while idle. *Planted* has a difference of each kind that its framework
can have: of
*named* ones `coldstep fleet report` says who it is and what is different; *strangers* are all others of whom it says
anything. *Plain* has none: whatever is found in it is wrong. Rows that
say *a second writer is refused* are of tables before `coldstep-tables/2`: now both write, and each trace counts once.
{parts}"""
_PART = """
## {title}

{day}, {commit}{load}

| | wall, s | CPU, s | peak, MB | |
| --- | --- | --- | --- | --- |
{rows}
"""


Tables = dict[str, list[str]]
Shown = tuple[str, bool]
"""Something that was shown, and whether it is as it was to be."""


@dataclass(slots=True)
class Row:
    """Something that was done."""

    what: str
    shown: str
    """What it showed, in bold what does not hold."""
    holds: bool = True
    """Whether that is what was to be shown."""
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_mb: float | None = None

    @classmethod
    def of(cls, what: str, taken: Taken | None, *shown: Shown) -> Row:
        """With what it took."""
        text = "; ".join(words if holds else f"**{words}**" for words, holds in shown)
        row = cls(what, text.replace("|", "/"), all(holds for _, holds in shown))
        if taken is not None:
            row.wall_s, row.cpu_s, row.peak_mb = round(taken.wall_s, 1), round(taken.cpu_s, 1), round(taken.peak_mb)
        return row


@dataclass(slots=True)
class Part:
    """What a part came to, and when."""

    day: str
    commit: str
    load: float
    """Of the machine, a minute's mean as it began."""
    rows: list[Row] = field(default_factory=list)


# --- fleets -------------------------------------------------------------------------------------------------------


def named(tables: object, truth: dict[str, tuple[str, ...]]) -> list[Shown]:
    """How much of the truth is named, and what else is found."""
    found = report(str(tables))
    if not truth:
        texts = "".join(f": {each.text}" for each in found.findings[:1])
        return [(f"{len(found.findings)} findings{texts}", not found.findings)]
    lost = sorted(truth.keys() - fleet_of.named(found, truth))
    strangers = fleet_of.strangers(found, truth)
    some = [each.text for each in found.findings if not {*each.who}.isdisjoint(strangers)][:1]
    return [
        (f"{len(truth) - len(lost)} of {len(truth)} kinds named{f', not {listed(lost)}' if lost else ''}", not lost),
        (f"strangers: {listed(strangers, _MOST_NAMED) or 'none'}{''.join(f', such as {t}' for t in some)}", not some),
    ]


def same(tables: object, expected: Tables, killing: Killing | None = None) -> list[Shown]:
    """Whether the rows are those expected, and which are not; and whether one was killed, if that was to be."""
    differ = fleet_of.differing(fleet_of.rows(tables), expected)
    shown = [(f"the same rows: {not differ}{''.join(f'; {each}' for each in differ)}", not differ)]
    return [*shown, *([] if killing is None or killing.killed else [("nobody was killed", False)])]


def fleet(framework: str, number: int, at: Path) -> Iterator[Row]:
    """A fleet with differences and one without."""
    of = bases(at, framework)
    members, truth = fleet_of.planted(of, number)
    planted = fleet_of.written(members, at / "planted")
    plain = fleet_of.written(fleet_of.plain(of, number), at / "plain")
    size = sum(path.stat().st_size for path in planted.iterdir()) / 1e6
    yield Row.of(f"planted, {size:.0f} MB", coldstep("fleet", planted, "-o", at / "t"), *named(at / "t", truth))
    yield Row.of("report of the planted", coldstep("fleet", "report", at / "t"))
    yield Row.of("plain", coldstep("fleet", plain, "-o", at / "p"), *named(at / "p", {}))
    if framework == "jax":
        yield from again(of, planted, at)
        yield from elsewhere(planted, truth, at)


def again(of: fleet_of.Bases, planted: Path, at: Path) -> Iterator[Row]:
    """The same tables, filled by a command that loses a worker, and filled on."""
    number, expected = len(list(planted.iterdir())), fleet_of.rows(at / "t")
    killing = Killing(at / "k", "spawn_main")
    taken = coldstep("fleet", planted, "-o", at / "k", meanwhile=killing)
    yield Row.of("planted, a worker killed", taken, *same(at / "k", expected, killing))
    taken = coldstep("fleet", planted, "-o", at / "t")
    yield Row.of("planted, again", taken, said(taken, "nothing is new"))
    more = fleet_of.written(fleet_of.plain(of, _MORE), at / "more", seed=number)
    taken = coldstep("fleet", planted, more, "-o", at / "t")
    runs = len(fleet_of.rows(at / "t")["runs"])
    counted = [] if runs == number + _MORE else [(f"{runs:,} rows of runs, not {number + _MORE:,}", False)]
    yield Row.of(f"{_MORE} more", taken, said(taken, f"{_MORE} traces read, {number:,} there already"), *counted)


def said(taken: Taken, words: str) -> Shown:
    """Whether a command said this, else what it did say."""
    return (words, True) if words in taken.said else (f"it did not say: {words}, but: {taken.last}", False)


def elsewhere(planted: Path, truth: dict[str, tuple[str, ...]], at: Path) -> Iterator[Row]:
    """The same tables, filled by other machines."""
    expected = fleet_of.rows(at / "k")
    with cluster() as (address, nodes):
        for what, killing in (
            ("on Ray", None), ("on Ray, a worker killed", Killing(at / "r1", "ray::_ingest", nodes)),
        ):  # fmt: skip
            out = at / ("r0" if killing is None else "r1")
            words = ("fleet", planted, "-o", out, "--engine", "ray")
            taken = coldstep(*words, meanwhile=killing, beside=nodes, RAY_ADDRESS=address, **RAY)
            yield Row.of(f"planted, {what}", taken, *same(out, expected, killing))
    yield from_s3(planted, truth, expected)


def from_s3(planted: Path, truth: dict[str, tuple[str, ...]], expected: Tables) -> Row:
    """The same tables, from a store to a store, while a second writer does the same."""
    with bucket(planted) as (client, name):

        def writing() -> bool:
            found = client.list_objects_v2(Bucket=name, Prefix="tables/").get("Contents", [])
            return any(each["Key"].endswith("/_SUCCESS") for each in found)

        tables = f"s3://{name}/tables"
        words = ("fleet", f"s3://{name}/nightly", "-o", tables)
        second = Second(words, writing)
        taken = coldstep(*words, meanwhile=second)
        lost = re.findall(r"/(\w+)\.pftrace: ([^:\n]*)", taken.said)
        told = "; ".join(f"{each}: {why}" for each, why in lost)
        how = "" if second.code == 0 else f": it ended with status {second.code}: {second.said.strip()}"
        return Row.of(
            "planted, from S3 to S3", taken, *same(tables, expected), *named(tables, truth),
            (f"listed: {told}", {each for each, _ in lost} == {"cut", "empty", "page"}),
            (f"with a second writer at once{how}", second.code == 0),
        )  # fmt: skip


# --- one page, one timeline ---------------------------------------------------------------------------------------


def ranks(number: int, at: Path) -> Iterator[Row]:
    """A fleet among which is a job of so many ranks: its page, and its timeline."""
    members, truth = fleet_of.planted(bases(at, "jax"), number * 5 // 2)
    of_job = [member for member in members if member.rank is not None]
    everything = fleet_of.written(members, at / "all")
    coldstep("fleet", everything, "-o", at / "t")
    page = at / "fleet.html"
    taken = coldstep("fleet", "report", at / "t", "--by", "rank", "--html", page)
    yield Row.of("the page", taken, (f"{page.stat().st_size / 1e3:.0f} KB", True), *named(at / "t", truth))
    job = fleet_of.written(of_job, at / "job")
    taken = coldstep("merge", *job.iterdir(), "-o", at / "job.pftrace")
    line = taken.said.splitlines()[0]
    yield Row.of(
        "merge, within 1 GiB", taken, (line, line.startswith(f"3 of {number} ranks")),
        *([("it takes more than 1 GiB", False)] if taken.peak_mb >= 1074 else []),
    )  # fmt: skip


# --- the documented questions -------------------------------------------------------------------------------------


def questions(number: int, at: Path) -> Iterator[Row]:
    """What they take in DuckDB and in Spark, and whether both say the same."""
    traces = fleet_of.written(fleet_of.planted(bases(at, "jax"), number)[0], at / "traces")
    yield Row.of("planted", coldstep("fleet", traces, "-o", at / "tables"))
    yield Row.of("report of the planted", coldstep("fleet", "report", at / "tables"))
    os.environ["PYSPARK_SUBMIT_ARGS"] = _SPARK
    with chdir(at):  # where the page has them
        connection = fleet_of.in_duckdb(("runs", "costs", "phases", "compiles", "caches"))
        began = time.monotonic()
        spark = fleet_of.in_spark()
    yield Row("Spark", f"its session and views take {time.monotonic() - began:.1f} s")
    for title, question in fleet_of.documented()[1]:
        with chdir(at):
            ours, ours_s = _asked(lambda text: connection.sql(text).to_arrow_table().to_pylist(), question)
            theirs, theirs_s = _asked(lambda text: [row.asDict() for row in spark.sql(text).collect()], question)
        answers = list(map(_plain, ours)), list(map(_plain, theirs))
        differ = fleet_of.differing(*({"DuckDB's": list(map(str, rows))} for rows in answers))
        alike = answers[0] == answers[1]
        told = "".join(f"; {each}" for each in differ)
        yield Row.of(
            title, None, (f"{len(ours)} rows, the same: {alike}{told}", alike),
            _soon("DuckDB", ours_s[0]), _soon("Spark", theirs_s[0]),
            (f"asked again {ours_s[1]:.2f} and {theirs_s[1]:.2f} s", True),
        )  # fmt: skip
    spark.stop()


def _asked(ask: Callable[[str], list[dict[str, Any]]], question: str) -> tuple[list[dict[str, Any]], list[float]]:
    """The answer, and the seconds that it took for the first time and again."""
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        rows = ask(question)
        seconds.append(time.monotonic() - began)
    return rows, seconds


def _soon(name: str, seconds: float) -> Shown:
    soon = seconds < _MOST_S
    return f"{name} {seconds:.2f} s{'' if soon else f', more than {_MOST_S:.0f} s'}", soon


def _plain(row: dict[str, Any]) -> dict[str, str]:
    """Both have types of their own for sums."""
    return {name: str(value) for name, value in row.items()}


# --- all of it ----------------------------------------------------------------------------------------------------


def bases(at: Path, framework: str) -> fleet_of.Bases:
    """Real runs, in the environment that has the frameworks."""
    (at / "bases").mkdir()
    return fleet_of.bases(at / "bases", framework, str(ROOT / ".venv/bin/python"))


def part(name: str, number: int) -> Part:
    """Do it; what breaks is one more row, and ends it."""
    done = Part(f"{datetime.now(UTC):%Y-%m-%d}", commit(), round(os.getloadavg()[0], 1))
    with tempfile.TemporaryDirectory(prefix="coldstep-fleet-") as folder:
        makes = {"ranks": ranks, "questions": questions}
        at = Path(folder)
        rows = makes[name](number, at) if name in makes else fleet(name, number, at)
        try:
            for row in rows:
                done.rows.append(row)
                print(f"{name}:{number}: {_line(row)}", flush=True)
        except Exception as error:
            if not isinstance(error, Failed):
                traceback.print_exc()
            done.rows.append(Row.of("what came next", None, (f"{type(error).__name__}: {error}", False)))
    return done


def _line(row: Row) -> str:
    figures = (row.wall_s, row.cpu_s, row.peak_mb)
    cells = ["" if value is None else f"{value:,}" for value in figures]
    return f"| {row.what} | {' | '.join(cells)} | {'' if row.holds else '**does not hold** '}{row.shown} |"


def _title(name: str) -> str:
    kind, _, number = name.partition(":")
    titles = {"ranks": "{} ranks", "questions": "The questions of [tables.md](tables.md) over {} traces"}
    return titles.get(kind, f"{{}} traces of {kind}").format(f"{int(number):,}")


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    page: Path | None = None if options.output is None else ROOT / options.output
    kept = (
        {}
        if page is None or not page.with_suffix(".json").exists()
        else json.loads(page.with_suffix(".json").read_text())
    )
    failed: list[str] = []
    for name in options.parts or PARTS:
        kind, _, number = name.partition(":")
        made = part(kind, int(number))
        failed += [f"does not hold: {name}: {row.what}: {row.shown}" for row in made.rows if not row.holds]
        kept[name] = asdict(made)
        if page is not None:  # each at once: the next may take long
            page.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
            page.write_text(_written(kept))
    sys.exit("\n".join(failed) or 0)


def _written(kept: dict[str, Any]) -> str:
    parts = []
    for name in sorted(kept, key=lambda name: (PARTS.index(name) if name in PARTS else len(PARTS), name)):
        of = kept[name]
        rows = "\n".join(_line(Row(**row)) for row in of["rows"])
        load = f", a load of {of['load']}" if "load" in of else ""
        parts.append(_PART.format(title=_title(name), day=of["day"], commit=of["commit"], load=load, rows=rows))
    return _PAGE.format(processors=os.cpu_count(), parts="".join(parts))


if __name__ == "__main__":
    main()
