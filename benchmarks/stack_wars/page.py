"""Writes the measured parts of docs/evidence/stack-wars.md, its pictures, and stack-wars.json, which has each reason.

`.venv-shows/bin/python -m benchmarks.stack_wars.page [stack-wars]`, on the machine that they were left on: matplotlib,
which draws, is in that environment. A part of which nothing is there stays as it was.
"""

from __future__ import annotations

import argparse
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import psutil
from benchmarks.pages import cell, set_apart
from benchmarks.stack_wars import STACKS, fitting
from benchmarks.stack_wars.models import MODELS
from benchmarks.stack_wars.pair import Row, read
from benchmarks.stack_wars.results import War, fought
from benchmarks.stack_wars.sizes import SIZES, SIZES_OF

from coldstep._util.figures import duration, listed, size
from coldstep.ahead.fit import Fit
from coldstep.analysis.across.frameworks import StackRow
from coldstep.model import Trace
from coldstep_viewers.commands.compare.compare import compared_programs
from coldstep_viewers.pages.frameworks_text import lead, reasons

DOCS = Path(__file__).parents[2] / "docs/evidence"
PAGE = DOCS / "stack-wars.md"
_FIT, _PROGRAMS = "would it fit", "programs"
"""The parts of the page, beside one for each size."""
_LOSSES = 5
_ALIKE = 1.2  # times another figure: no difference, for two runs of one pair are as far apart in the median
_JUDGED_BYTES = 1 << 30
_MOST_HELD = 4
_MOST_DIFFERENCES = 8


def main() -> None:
    from benchmarks.stack_wars import plots  # matplotlib: the text is made, and tested, without it

    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_wars.page", description=__doc__)
    parser.add_argument("folder", nargs="?", default="stack-wars", type=Path, help="of traces and rows (%(default)s)")
    folder = parser.parse_args().folder
    parts = {_FIT: list(predictions(folder)), _PROGRAMS: list(programs(folder))}
    for of in SIZES:
        if wars := fought(folder / of):
            day = date.fromtimestamp(max(path.stat().st_mtime for path in (folder / of).rglob("*.json")))
            parts[of] = list(section(of, wars, day))
            plots.unsteady(wars, DOCS / f"stack-wars-{of}-first.png")
            plots.steady(wars, DOCS / f"stack-wars-{of}-steady.png")
    page = PAGE.read_text()
    for part, lines in parts.items():
        if lines:
            page = replaced(page, part, set_apart(PAGE, part, "\n".join(lines)).split("\n"))
    PAGE.write_text(page)


def replaced(page: str, part: str, lines: Sequence[str]) -> str:
    """The page with these lines as one of its parts, which begins and ends with a comment."""
    begin, end = f"<!-- {part}: made by benchmarks/stack_wars/page.py -->", f"<!-- {part}: end -->"
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"the page has no part {part!r}")
    return "\n".join([before + begin, "", *lines, end]) + after


def section(of: str, wars: Mapping[str, War], day: date) -> Iterator[str]:
    """Everything of one size: first, second and steady steps, their reasons, and whether the losses agree."""
    pairs = [row for war in wars.values() for row in war.ended.values()]
    memory = size(psutil.virtual_memory().total)
    yield f"## `{of}`"
    yield ""
    yield f"`python -m benchmarks.stack_wars --size {of}`, {day}, on {psutil.cpu_count()} cores of"
    yield f"{platform.machine()}, {memory}, without an accelerator; each pair {_steps(pairs)} in a process of its own,"
    yield f"compile caches empty. {_kept(pairs)} One run each: a difference of a fifth is none, and both are bold."
    yield ""
    yield f"{_versions(wars)}."
    for title, figure, picture in (
        ("First step", lambda row: row.first_ns, ""),
        ("Second step", lambda row: row.second_ns, f"![By phase](stack-wars-{of}-first.png)"),
        ("Steady step", lambda row: row.steady_ns, f"![Steady steps](stack-wars-{of}-steady.png)"),
    ):
        yield from ("", f"### {title}", "")
        yield from table(wars, figure)
        if picture:
            yield from ("", picture)
    yield from ("", "### Least time in all", "")
    leads = {
        model: lead(war.stacks).removeprefix("Least time in all: ") if war.stacks else "" for model, war in wars.items()
    }
    unknown = "not known, for not every stack has a steady step."
    yield " ".join(f"{model}: {said or unknown}" for model, said in leads.items())
    yield from ("", "Each figure with its reason: [stack-wars.json](stack-wars.json).", "")
    for model, war in wars.items():
        yield from why(f"{model}: <code>{SIZES_OF[model][of]}</code>", war)
    yield from ("### Losses", "")
    yield f"The relative difference to eager PyTorch's loss in the first {_LOSSES} steps; by model in the same file."
    yield from agreement(wars)


def _steps(pairs: list[Row]) -> str:
    """How many steps a pair took, and what it might ask for."""
    limits = [row.limit_bytes for row in pairs if row.limit_bytes]
    least, most = (size(bound(limits, default=0)) for bound in (min, max))
    limit = f", of at most {least if least == most else f'{least} to {most}'}," if limits else ""
    return f"{max((len(row.losses) for row in pairs), default=0)} steps{limit}"


def _versions(wars: Mapping[str, War]) -> str:
    """What each stack was, as the traces tell it."""
    found: dict[str, list[str]] = {}
    for stack, package in STACKS.items():
        told = next((war.traces[stack].processes[0].versions for war in wars.values() if stack in war.traces), {})
        packages = ("torch", package) if package == "torch_xla" else (package,)
        if versions := listed(f"{name} {told[name]}" for name in packages if name in told):
            found.setdefault(versions, []).append(stack)
    return "; ".join(f"{listed(stacks)}: {versions}" for versions, stacks in found.items())


def _kept(pairs: list[Row]) -> str:
    """How many pairs there are, and how they ended."""
    whole = len(MODELS) * len(STACKS)
    ends = Counter(row.ended for row in pairs)
    parts = [f"{ends.pop('ok', 0)} of {whole} pairs ended by themselves"]
    parts += [f"{n} {_words(ended)}" for ended, n in ends.items()]
    parts += [f"{whole - len(pairs)} not run"] if len(pairs) < whole else []
    return f"{', '.join(parts)}."


def _words(ended: str) -> str:
    return ended.replace("_", " ")


def table(wars: Mapping[str, War], figure: Callable[[StackRow], int | None]) -> Iterator[str]:
    """A row per model, a column per stack; the least is bold, and what is hardly more."""
    yield f"| model | {' | '.join(STACKS)} |"
    yield f"| --- |{' ---: |' * len(STACKS)}"
    for model, war in wars.items():
        known = {stack: ns for stack, row in war.traced.items() if (ns := figure(row)) is not None}
        least = min(known.values(), default=0)
        cells = []
        for stack in STACKS:
            if stack in known:
                words = duration(known[stack])
                cells.append(f"**{words}**" if known[stack] <= _ALIKE * least else words)
            else:
                cells.append(_words(war.ended[stack].ended).replace("ok", "-") if stack in war.ended else "")
        yield f"| {model} | {' | '.join(cells)} |"


def why(title: str, war: War) -> Iterator[str]:
    """Every figure of every stack with its reason, folded."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    for stack, row in war.ended.items():
        ended = f": {_words(row.ended)}{_limit(row)}: {cell(row.why)}" if row.ended != "ok" else ""
        yield f"- **{stack}**{ended}"
        if stack in war.traced:
            yield from (f"  - {words} {value}: {cell(text)}" for words, value, text in reasons(war.traced[stack]))
        elif stack in war.traces:  # it came to no step
            found = [row.text for row in war.traces[stack].findings if row.kind == "out_of_memory"]
            yield from (f"  - Ended : {cell(text)}" for text in found)
    yield ""
    yield "</details>"
    yield ""


def agreement(wars: Mapping[str, War]) -> Iterator[str]:
    """How far the losses lie apart, model by model."""
    stacks = [stack for stack in STACKS if stack != "eager"]
    yield "<details><summary>losses</summary>"
    yield f"| model | eager's loss, step 0 → {_LOSSES - 1} | {' | '.join(stacks)} |"
    yield f"| --- | --- |{' ---: |' * len(stacks)}"
    most = 0.0
    for model, war in wars.items():
        losses = {stack: row.losses[:_LOSSES] for stack, row in war.ended.items() if len(row.losses) >= _LOSSES}
        base = losses.get("eager")
        if base is None:
            continue
        apart = {
            stack: max(abs(a - b) / abs(b) for a, b in zip(losses[stack], base, strict=True))
            for stack in stacks
            if stack in losses
        }
        most = max([most, *apart.values()])
        cells = [f"{apart[stack]:.0e}" if stack in apart else "" for stack in stacks]
        yield f"| {model} | {base[0]:.4f} → {base[-1]:.4f} | {' | '.join(cells)} |"
    yield "</details>"
    yield f"The largest of all is {most:.0e}."
    yield ""


# --- would it fit -------------------------------------------------------------------------------------------------


def predictions(folder: Path) -> Iterator[str]:
    """What would_fit said, beside what the last step held at most above what stood before the model."""
    found = {
        (of, model, stack): fitting.read(path)
        for of in SIZES
        for model in MODELS
        for stack in STACKS
        if (path := folder / of / model / f"{stack}.fit.json").exists()
    }
    if not found:
        return
    yield "## Would it fit"
    yield ""
    yield "`python -m benchmarks.stack_wars.foretell`: what `coldstep.would_fit` says of each step before anything of"
    yield "it is allocated; beside it the most that was resident in a steady step (`VmHWM`, set back before that step)"
    yield "above what stood before the model. That step is not traced; before it the C library gives back what it has"
    yield "kept of memory that is free (the last column), which a process holds besides, and in it each larger block as"
    yield "it is freed. What is compiled leaves something in the memory that it runs in, here, and that is part of the"
    yield "prediction: measured, as `would_fit` compiles. Below 1 GiB the runtime's own memory is too much of the rest"
    yield "to be judged. By model and stack: [stack-wars.json](stack-wars.json)."
    yield "<details><summary>predicted and measured</summary>"
    yield "| size | model | stack | predicted | measured | predicted ÷ measured | kept, though free |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: |"
    shares = []
    for (of, model, stack), said in found.items():
        words = size(said.fit.peak_bytes) if said.fit else cell(said.why)
        measured, share, kept = _measured(folder / of / model / f"{stack}.pftrace", said.fit)
        shares += [share] if share[:1].isdigit() else []
        yield f"| {of} | {model} | {stack} | {words} | {measured} | {share} | {kept} |"
    yield "</details>"
    yield ""
    if shares:
        yield f"Of {len(shares)} that are judged the prediction is {min(shares)} to {max(shares)} of what was measured."
        yield ""
    yield "<details><summary>What it is held for when most is held, and what makes it smaller</summary>"
    for (of, model, stack), said in found.items():
        if said.fit is not None:
            yield f"- {model}, {of}, {stack}: {_held(said.fit)}"
    yield "</details>"
    yield ""


def _measured(trace: Path, fit: Fit | None) -> tuple[str, str, str]:
    """What a pair held, the prediction divided by it, and what the process had kept besides."""
    if not trace.with_suffix(".json").exists():
        return "not run", "", ""
    row = read(trace)
    if row.ended != "ok" or row.peak_bytes is None or row.before_bytes is None:
        return f"{_words(row.ended)}{_limit(row)}", "", ""
    rise = row.peak_bytes - row.before_bytes
    kept = size(row.kept_bytes) if row.kept_bytes is not None else "not known"
    if fit is None:
        return size(rise), "", kept
    is_judged = max(fit.peak_bytes, rise) >= _JUDGED_BYTES
    return size(rise), f"{fit.peak_bytes / rise:.2f}" if is_judged else "not judged", kept


def _limit(row: Row) -> str:
    return f" under a limit of {size(row.limit_bytes)}" if row.limit_bytes else ""


def _held(fit: Fit) -> str:
    said = listed([f"{row.what} {size(row.bytes)}" for row in fit.held if row.within is None][:_MOST_HELD])
    if fit.fits is not False or fit.memory_bytes is None:
        return said
    tried = [
        f"{row.name} ({cell(row.change)}) {size(row.peak_bytes)}{', fits' if row.fits else ''}"
        if row.peak_bytes is not None
        else f"{row.name} not tried ({cell(row.why)})"
        for row in fit.remedies
    ]
    return f"{said}; does not fit into {size(fit.memory_bytes)}; {listed(tried)}"


# --- programs -----------------------------------------------------------------------------------------------------


def programs(folder: Path) -> Iterator[str]:
    """How the stacks' StableHLO differs, of the smallest size that was run with --ir."""
    of = next((of for of in SIZES if (folder / f"{of}-ir").exists()), None)
    if of is None:
        return
    yield "## The programs beside each other"
    yield ""
    yield f"`python -m benchmarks.stack_wars --size {of} --ir`: the step's StableHLO, as `coldstep compare` shows it:"
    yield "products, gathers and the like that are the same in two stacks are paired. What differs is in"
    yield "[stack-wars.json](stack-wars.json)."
    yield ""
    for model, war in fought(folder / f"{of}-ir").items():
        kept = [(stack, row) for stack, row in war.traced.items() if _has_stablehlo(war.traces[stack])]
        counted = [f"{stack} {row.operations:,}" for stack, row in kept if row.operations is not None]
        more = [f"{stack} not counted ({row.reasons['operations']})" for stack, row in kept if row.operations is None]
        yield f"<details><summary>{model}: operations in {listed([*counted, *more])}</summary>"
        yield ""
        yield from _differences(war)
        yield ""
        yield "</details>"
        yield ""


def _has_stablehlo(trace: Trace) -> bool:
    return any("stablehlo" in known.programs for known in trace.details.values())


def _differences(war: War) -> Iterator[str]:
    if war.stacks is None:
        return
    pairs, without = compared_programs(war.stacks, war.traces)
    yield from (f"- {cell(said)}" for said in without)
    for pair in pairs:
        if pair.structure is None:
            continue
        total = pair.structure.anchors
        of = str(total[0]) if total[0] == total[1] else f"{total[0]} and {total[1]}"
        yield f"- **{cell(' → '.join(pair.names))}**: {pair.structure.aligned} of {of} are paired."
        yield from (f"  - {cell(found.text)}" for found in pair.structure.differences[:_MOST_DIFFERENCES])
        if (more := len(pair.structure.differences) - _MOST_DIFFERENCES) > 0:
            yield f"  - and {more} more"


if __name__ == "__main__":
    main()
