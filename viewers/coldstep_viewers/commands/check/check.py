"""`coldstep check`: traces held against a budget, for the logs and exit codes of CI."""

from __future__ import annotations

import configparser
import json
import os
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from coldstep.analysis.across.run_diff import Summary
from coldstep.analysis.budgets import COMPILED, Budget, BudgetError, judge, parse
from coldstep.model import Trace
from coldstep_viewers.ci import formats as ci
from coldstep_viewers.ci import lockfile
from coldstep_viewers.commands.check.lock import write_lock
from coldstep_viewers.commands.findings import SUFFIXES
from coldstep_viewers.commands.inputs import all_loaded, opened, protect, readable
from coldstep_viewers.commands.output import echo, fail, give_up, or_fail

_FORMATS = ("text", "json", "markdown", "github", "junit")
_BY_SUFFIX = {suffix: name for suffix, name in SUFFIXES.items() if name in _FORMATS}
_LIMITS = {
    "max_recompiles": ("N", "Recompiles in all."),
    "max_graph_breaks": ("N", "Places where a graph breaks."),
    "max_compiles": ("[FUNCTION=]N", "Compiles of one function."),
    "max_variants": ("[FUNCTION=]N", "Compiles of one function for one module instance."),
    "settle_by": ("[NAME=]STEP", "From this step, three in a row must compile nothing."),
    "forbid": ("CAUSE", "A cause that no recompile may have."),
    "max_errors": ("N", "Functions that failed to compile, or that the framework gave up compiling. Default: 0 if "
                   "you give any limit above."),
    "max_cache_misses": ("N", "Programs compiled again although the --baseline run had compiled or loaded them."),
    "max_slowdown": ("[PHASE=]PERCENT", "How much longer the first step, or a phase of it, may take than in the "
                     "baseline. Needs three traces on either side."),
    "max_autotune_seconds": ("SECONDS", "How long all autotuning may take."),
    "max_memory": ("SIZE", "Memory at its peak, such as 8GiB."),
    "max_device_memory": ("SIZE", "Device memory at its peak."),
}  # fmt: skip


class _Check(click.Command):
    """`--ready` alone is `--ready=compiles`: what follows it is a trace, and no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args.index("--") if "--" in args else len(args)
        said = [f"--ready={COMPILED}" if word == "--ready" else word for word in args[:options]]
        return super().parse_args(ctx, said + args[options:])


def _limits(command: Callable[..., None]) -> Callable[..., None]:
    for name, (metavar, help_) in reversed(_LIMITS.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, multiple=True, help=help_)(command)
    return command


@click.command(
    "check", cls=_Check, short_help="Check traces against a budget: exit 0 within it, 1 over it, 2 could not check."
)
@click.argument("traces", nargs=-1, required=True)
@_limits
@click.option(
    "--ready",
    metavar="[=strict]",
    help="Nothing may compile after coldstep.ready(), or after the steps of run "
    "--ready-after, and no load from a disk cache may take 100 ms or more. With =strict, nothing may be loaded.",
)
@click.option("--baseline", "baselines", metavar="FILE", multiple=True,
              help="A trace, or a file that --write-baseline wrote. No function may compile or break more often than "
              "there, and no step may settle later, unless a limit allows it. May be given several times.")  # fmt: skip
@click.option("--allow-untraced", is_flag=True,
              help="Check even if the program started processes that were not traced.")  # fmt: skip
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="Default: github in GitHub Actions, else text.")
@click.option("--json", "format_", flag_value="json", hidden=True, help="The same as --format json.")
@click.option("-o", "--output", "outputs", metavar="FILE", multiple=True,
              help="Also write a file: .xml (JUnit), .json, .md (a summary) or .txt.")  # fmt: skip
@click.option("--write-baseline", metavar="FILE", help="Write what TRACE compiles to a small text file. Review it, "
              "and give it to --baseline.")  # fmt: skip
def command(
    traces: tuple[str, ...],
    baselines: tuple[str, ...],
    format_: str | None,
    outputs: tuple[str, ...],
    ready: str | None,
    allow_untraced: bool,
    write_baseline: str | None,
    **limits: tuple[str, ...],
) -> None:
    """Check traces against a budget. Exit code 0: within it; 1: over it; 2: could not check.

    If coldstep did not see everything, the check never passes. It cannot check (exit code 2) if the trace was cut or
    began too late, an event was lost, something compiled in a way that coldstep does not see, or the program started a
    process that was not traced. You can also set limits in [coldstep] of setup.cfg or [tool.coldstep] of
    pyproject.toml, in this folder or one above, under the names of the options. An option overrides them.

    \b
    Example:
      coldstep check run.pftrace --max-recompiles 0 --max-graph-breaks 0 --settle-by 1
      coldstep check run.pftrace --max-compiles 1 --max-compiles train_step=3 --forbid optimizer_state
      coldstep check run.pftrace --write-baseline coldstep.lock
      coldstep check run.pftrace --baseline coldstep.lock -o check.xml
      coldstep check --ready server.pftrace
      coldstep check a.pftrace b.pftrace c.pftrace --max-slowdown 20% \\
        --baseline main-a.pftrace --baseline main-b.pftrace --baseline main-c.pftrace
    """
    where, settings = _configured(Path.cwd())
    named, lost = all_loaded(traces)
    found = [trace for _, trace in named]
    causes = {cause: None for trace in found for cause in trace.vocabulary.causes}
    budget = _budget(settings, where, causes)
    for name in (name for name in limits if limits[name]):
        setattr(budget, name, getattr(_budget({name.replace("_", "-"): ",".join(limits[name])}, "", causes), name))
    if ready is not None:
        budget.ready = _budget({"ready": ready}, "", causes).ready
    if write_baseline is not None:
        if len(traces) != 1:
            fail("--write-baseline takes one trace")
        write_lock(traces[0], found[0], write_baseline)
        if not budget.given() and not baselines:
            return
    if not budget.given() and not baselines:
        fail("no budget: give a limit such as --max-recompiles 0, a --baseline, or [tool.coldstep] in pyproject.toml")
    if budget.max_cache_misses is not None and not any(_is_trace(path) for path in baselines):
        fail("--max-cache-misses compares with an earlier run: give its trace with --baseline")
    if budget.max_slowdown and not any(_is_trace(path) for path in baselines):
        fail("--max-slowdown compares with traces: give them with --baseline")
    for path in outputs:
        if Path(path).suffix not in _BY_SUFFIX:
            fail(f"cannot choose a format for {path}: its name must end in {', '.join(_BY_SUFFIX)}")
        protect([*traces, *baselines], path)
    known, unknown = _baselines(baselines)
    verdict = judge(found, budget, known, allow_untraced=allow_untraced)
    verdict.doubts = [*lost, *unknown, *verdict.doubts]
    checked = ci.Checked([path for path, _ in named], found, verdict)
    for path in outputs:
        _write(path, _rendered(checked, _BY_SUFFIX[Path(path).suffix]))
    _show(checked, format_ or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"))
    sys.exit(ci.EXIT_CODES[checked.verdict.word])


# --- the budget ---------------------------------------------------------------------------------------------------


def _configured(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """The settings of the nearest folder that has some, up to the repository's top, and the file they are in."""
    for place in (folder, *folder.parents):
        for path, read in ((place / "pyproject.toml", _from_toml), (place / "setup.cfg", _from_ini)):
            if path.is_file() and (settings := read(path)) is not None:
                return str(path), settings
        if (place / ".git").exists():
            break
    return "", {}


def _from_toml(path: Path) -> Mapping[str, Any] | None:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("coldstep")
    except (OSError, ValueError, RecursionError) as error:
        fail(f"cannot read {path}: {error}")
    if settings is not None and not isinstance(settings, dict):
        fail(f"{path}: [tool.coldstep] is no table")
    return settings


def _from_ini(path: Path) -> Mapping[str, Any] | None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, ValueError, configparser.Error) as error:
        fail(f"cannot read {path}: {' '.join(str(error).split())}")
    return dict(parser["coldstep"]) if parser.has_section("coldstep") else None


def _budget(settings: Mapping[str, Any], where: str, causes: Collection[str]) -> Budget:
    try:
        return parse(settings, causes)
    except BudgetError as error:
        fail(f"{where}: {error}" if where else f"--{error}")


def _is_trace(path: str) -> bool:
    return not lockfile.is_lock(path)


def _baseline(path: str) -> Trace | Summary:
    return opened(path) if _is_trace(path) else lockfile.read(path)


def _baselines(paths: Sequence[str]) -> tuple[list[Trace | Summary], list[str]]:
    """Those that can be read, and why the others cannot; exit code 2 where that is all."""
    lost: list[str] = []
    found = [row for _, row in readable(paths, _baseline, lost)]
    if lost and not found:
        give_up(lost)
    return found, [f"baseline: {text}" for text in lost]


# --- what is said -------------------------------------------------------------------------------------------------


def _rendered(checked: ci.Checked, format_: str) -> str:
    if format_ == "json":
        return json.dumps(ci.as_json(checked), indent=2)
    if format_ == "github":
        return ci.github(checked, os.environ.get("GITHUB_WORKSPACE", ""))
    return {"junit": ci.junit, "markdown": ci.summary, "text": ci.text}[format_](checked)


def _show(checked: ci.Checked, format_: str) -> None:
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    shown = ci.text(checked, colour) if format_ == "text" else _rendered(checked, format_)
    echo(shown, commands=format_ == "github")
    if format_ == "github" and (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        _write(path, ci.summary(checked), mode="a")


def _write(path: str, text: str, mode: str = "w") -> None:
    with or_fail(f"cannot write {path}"), open(path, mode, encoding="utf-8", errors="replace") as file:
        file.write(text.rstrip("\n") + "\n")
