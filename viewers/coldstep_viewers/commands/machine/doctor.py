"""`coldstep doctor`: what works with the frameworks that are installed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from coldstep._util.pythons import untried
from coldstep.ahead.doctor_rows import Checkup
from coldstep.ahead.plugins import reach
from coldstep.job.reach import LOST, doors
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.output import fail, show


@click.command("doctor", short_help="What works with the frameworks that are installed here.")
@findings("text", "json")
def command(wanted: Wanted) -> None:
    """Try coldstep on each installed framework: which hooks attach, and whether coldstep reports a compile, a recompile
    with its cause, a graph break and a hit of a disk cache. The test programs run in processes of their own, in a
    temporary folder. The exit code is 1 if a promised feature fails.

    \b
    Example:
      coldstep doctor
      coldstep doctor --format json | jq '.tests[] | select(.ok | not)'
    """
    try:
        examine = reach("doctor")
    except LookupError as error:
        fail(str(error))
    found: Checkup = examine(_progress)
    _progress("")
    show(lambda: found.to_json() | {"doors": doors()}, lambda: lines(found), wanted.format)
    sys.exit(0 if found.ok else 1)


def lines(found: Checkup) -> Iterator[str]:
    """The checkup as text: versions, collectors with what they miss and what to do, tests, and a verdict."""
    yield ", ".join(f"{name} {version}" for name, version in found.versions.items())
    if (line := untried()) is not None:
        yield line
    yield from _doors()
    yield ""
    width = max(len(row.name) for row in found.collectors) if found.collectors else 0
    for row in found.collectors:
        yield f"  {row.name:{width}}  {row.state}{' (not installed)' if row.state == 'absent' else ''}"
        yield from (f"  {'':{width}}    not observed: {words}" for words in row.missing)
        yield from (f"  {'':{width}}    what to do: {words}" for words in row.advice)
    yield ""
    width = max(len(test.name) for test in found.tests)
    for test in found.tests:
        yield f"  {'ok    ' if test.ok else 'FAILED'}  {test.name:{width}}  {test.text}"
    yield ""
    failed, number = sum(not test.ok for test in found.tests), len(found.tests)
    yield f"{failed} of {number} failed" if failed else f"all {number} are reported as they happened"


def _doors() -> Iterator[str]:
    """Which processes below a traced one, or below COLDSTEP=FILE, are reached."""
    if doors()["coldstep.pth"]:
        yield "child processes: COLDSTEP=FILE and coldstep run reach each Python of this environment (by coldstep.pth)"
    else:
        yield "child processes: coldstep run reaches Pythons by PYTHONPATH, COLDSTEP=FILE none: this environment"
        yield "  lacks coldstep.pth, as after an editable install; copy it from tracer/ into its site-packages"
    yield "  not reached: an environment without coldstep, python -S, env -i; what keeps the variable where it is lost:"
    width = max(map(len, LOST))
    yield from (f"    {what:{width}}  {line}" for what, line in LOST.items())


def _progress(text: str) -> None:
    """Show how far it is, on a terminal; an empty text takes the line away."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
