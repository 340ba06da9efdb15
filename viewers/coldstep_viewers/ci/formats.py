"""What a check found, for the logs and machines of CI: text, GitHub annotations and summary, JUnit, JSON.

The cause comes first: a log is read from the line that is red.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree

from coldstep._util.figures import count, duration, listed, percent, size
from coldstep.analysis.budgets import Check, Verdict
from coldstep.model import Finding, Trace
from coldstep.rows.processes import name as process_name
from coldstep_viewers.safe_text import flat, markdown, plain

SCHEMA = "coldstep-check/1"
EXIT_CODES = {"within": 0, "over": 1, "unknown": 2}

_WORDS = {"within": "within budget", "over": "over budget", "unknown": "could not check"}
_COLOURS = {"within": "32", "over": "31", "unknown": "33"}
_MAX_FINDINGS = 20
_MAX_ANNOTATIONS = 10  # GitHub shows no more of a kind for a step
_MAX_LIMITS = 3  # that are broken and stand before the first finding
_SUMMARY_CHARS = 500_000  # GitHub takes 1 MiB for a step


@dataclass(slots=True)
class Checked:
    """The traces by the names that their reader knows them by, and the verdict on them."""

    names: list[str]
    traces: list[Trace]
    verdict: Verdict

    def rows(self, verdict: str) -> list[Check]:
        """The checks with this verdict."""
        return [row for row in self.verdict.checks if row.verdict == verdict]

    def findings(self) -> Iterator[tuple[Trace, str, Finding]]:
        """Each finding that is over some limit, once, with its trace and, of several, that trace's name."""
        for position, trace in enumerate(self.traces):
            told: set[tuple[str, ...]] = set()
            for row in self.rows("over"):
                for finding in row.findings if row.trace == position else ():
                    key = (finding.text, *finding.refs)
                    if key not in told:
                        told.add(key)
                        yield trace, self.names[position] if len(self.names) > 1 else "", finding

    def folded(self) -> Iterator[tuple[Trace, str, Finding]]:
        """The same for people: the recompiles of one function, where there are many, as one, as the report has them."""
        shown: set[tuple[int, str]] = set()
        offenders = {id(trace): _offenders(trace) for trace in self.traces}
        for trace, name, finding in self.findings():
            whole = next(filter(None, map(offenders[id(trace)].get, finding.refs)), None)
            row = whole if whole is not None and finding.kind == "recompile" else finding
            if row is finding or (id(trace), row.id) not in shown:
                shown.add((id(trace), row.id))
                yield trace, name, row

    def sentence(self, row: Check) -> str:
        """A check in words, with its trace and process where there are several."""
        where = [self.names[row.trace]] if len(self.names) > 1 and row.runs is None else []
        trace = self.traces[row.trace]
        if len(trace.processes) > 1 and row.runs is None:
            where.append(process_name(trace, row.process))
        return ": ".join([*where, _sentence(row)])


def _offenders(trace: Trace) -> dict[str, Finding]:
    """By the id of a recompile, the finding on all those of its function, where there is one."""
    return {ref: row for row in trace.findings if row.kind == "repeat_offender" for ref in row.refs}


# --- text -------------------------------------------------------------------------------------------------------


def text(checked: Checked, colour: bool = False) -> str:
    """For a person who reads a log: the broken limits, what broke each and where, then all limits."""
    word = checked.verdict.word
    broken = [checked.sentence(row) for row in checked.rows("over")]
    doubts = _doubts(checked)
    lines: list[str] = []
    heads = [("unknown", doubts), ("over", broken)]
    for verdict, said in heads[:: -1 if word == "over" else 1]:
        if said:
            lines += _headed(verdict, said, colour)
    if word == "within":
        held = [said for _, said in _all(checked)]
        lines += _headed("within", held, colour, most=len(held)) if held else [_WORDS["within"]]
    lines += [f"note: {flat(each)}" for each in checked.verdict.notes]
    blocks = list(checked.folded())
    for trace, name, finding in blocks[:_MAX_FINDINGS]:
        lines += ["", *_block(trace, name, finding, colour)]
    if len(blocks) > _MAX_FINDINGS:
        lines += ["", f"and {count(len(blocks) - _MAX_FINDINGS, 'more finding')}; --format json has them all"]
    if word != "within" and len(checked.verdict.checks) > 1:
        lines += ["", "All limits:"]
        lines += [f"  {_WORDS[verdict]:<15}  {flat(said)}" for verdict, said in _all(checked)]
    return "\n".join(lines)


def _all(checked: Checked) -> Iterator[tuple[str, str]]:
    """Verdict and sentence of each check; the many of a baseline that are kept are one."""
    kept: Counter[str] = Counter()
    for row in checked.verdict.checks:
        if row.verdict == "within" and row.limit in _KEPT:
            kept[row.limit] += 1
        else:
            yield row.verdict, checked.sentence(row)
    for limit, number in kept.items():
        noun, plural, said = _KEPT[limit]
        yield "within", f"{count(number, noun, plural)} {said} than in the baseline"


def _headed(verdict: str, said: Sequence[str], colour: bool, most: int = _MAX_LIMITS) -> list[str]:
    """The verdict, and what it is about, on one line each."""
    head = _painted(_WORDS[verdict], _COLOURS[verdict], colour)
    lines = [f"{head}: {flat(each)}" for each in said[:most]]
    if len(said) > most:
        lines.append(f"{head}: and {count(len(said) - most, 'more limit')}, see below")
    return lines


def _block(trace: Trace, name: str, finding: Finding, colour: bool) -> list[str]:
    place = f"{finding.location.file}:{finding.location.line}" if finding.location else ""
    head = ": ".join(part for part in (name, place, finding.text) if part)
    facts = ((label, each) for label, said in _details(trace, finding) for each in said.split("\n") if each)
    return [_painted(flat(head), "1", colour), *(f"    {label:<8}  {each}" for label, each in facts)]


def _details(trace: Trace, finding: Finding) -> Iterator[tuple[str, str]]:
    place = finding.location
    if place and (code := trace.code.get((place.file, place.line), "").strip()):
        yield "code", flat(code)
    if finding.advice:
        yield "advice", flat(finding.advice)
    if defined := _defined(trace, finding):
        yield "function", defined
    if finding.cost_ns:
        yield "cost", duration(finding.cost_ns)
    for evidence in finding.evidence[:3]:
        yield "evidence", plain(evidence)


def _defined(trace: Trace, finding: Finding) -> str:
    """Where the function that compiled is defined, if that is another place."""
    recompiled = {row.id: row.compile for row in trace.recompiles}
    wanted = {recompiled.get(ref, ref) for ref in finding.refs}
    place = next((row.location for row in trace.compiles if row.id in wanted), None)
    if place is None or place == finding.location:
        return ""
    return f"{flat(place.function)}, defined at {flat(place.file)}:{place.line}"


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


# --- a check in words -------------------------------------------------------------------------------------------

_COUNTED = {
    "max_recompiles": "recompile",
    "max_graph_breaks": "graph break",
    "max_compiles": "compile",
    "max_variants": "variant",
    "max_errors": "error",
    "max_cache_misses": "missed program",
}
_LATE = {"ready": "compile", "ready_builds": "build"}
_PEAKS = {"max_memory": "memory at its peak", "max_device_memory": "device memory at its peak"}


_KEPT = {
    "baseline_compiles": ("function", "functions", "compiled no more often"),
    "baseline_graph_breaks": ("function", "functions", "had no more graph breaks"),
    "baseline_settled": ("kind of step", "kinds of steps", "settled no later"),
}


def _sentence(row: Check) -> str:
    if row.verdict == "unknown":
        return f"{f'{row.limit} {row.subject}'.rstrip(' *')}: {row.why}"
    if row.limit in _COUNTED:
        subject = f"{row.subject}: " if row.subject else ""
        return f"{subject}{count(int(row.found or 0), _COUNTED[row.limit])}, {row.allowed:.0f} allowed"
    if row.limit == "settle_by":
        rest = f"; {row.why}" if row.why else ""
        return f"{row.subject} {_settled(row.found)}, allowed by step {row.allowed:.0f}{rest}"
    if row.limit == "max_autotune_seconds":
        return f"autotuning took {duration(round((row.found or 0) * 1e9))}, {row.allowed:g} s allowed"
    if row.limit in _LATE:
        return f"{count(int(row.found or 0), _LATE[row.limit])} after {row.subject}, none allowed"
    if row.limit == "forbid":
        return f"{count(int(row.found or 0), 'recompile')} with a forbidden cause ({row.subject})"
    if row.limit in _PEAKS:
        return f"{_PEAKS[row.limit]} {size(int(row.found or 0))}, {size(int(row.allowed))} allowed"
    if row.limit == "max_slowdown":
        return _slowdown(row)
    if row.limit == "baseline_settled":
        return f"{row.subject} {_settled(row.found)}, at step {row.allowed:.0f} in the baseline"
    noun = "compile" if row.limit == "baseline_compiles" else "graph break"
    if row.is_new:
        return f"{row.subject}: new, {count(int(row.found or 0), noun)}, {row.allowed:.0f} allowed"
    change = f"{row.allowed:.0f} → " if row.found != row.allowed else ""
    return f"{row.subject}: {change}{count(int(row.found or 0), noun)}{'' if change else ', as in the baseline'}"


def _settled(step: float | None) -> str:
    return "did not settle" if step is None else f"settled at step {step:.0f}"


def _slowdown(row: Check) -> str:
    assert row.times_ns is not None
    assert row.runs is not None
    before, now = row.times_ns
    change = f" ({_signed(row.found)})" if row.found is not None else ""
    return (
        f"{row.subject.replace('_', ' ')} {duration(round(now))}, {duration(round(before))} in the baseline{change}, "
        f"{_signed(row.allowed)} allowed; medians of {row.runs[1]} and {row.runs[0]} runs; longer than allowed with "
        f"{percent(row.confidence or 0)} confidence"
    )


def _signed(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


# --- GitHub -----------------------------------------------------------------------------------------------------


def github(checked: Checked, workspace: str) -> str:
    """The text, and an annotation at the user's line for each finding; paths as GitHub knows them below `workspace`."""
    # what a trace holds must not be taken for a command to the runner
    lines = [f"| {line}" if line.lstrip().startswith(("::", "##[")) else line for line in text(checked).split("\n")]
    return "\n".join([*lines, *_annotations(checked, workspace)])


def _annotations(checked: Checked, workspace: str) -> Iterator[str]:
    said: list[tuple[str, str, dict[str, str]]] = [("coldstep could not check", each, {}) for each in _doubts(checked)]
    for trace, name, finding in checked.folded():
        place: dict[str, str] = {}
        if finding.location:
            file = _below(workspace, os.path.join(trace.run.root, finding.location.file)) or finding.location.file
            place = {"file": file, "line": str(finding.location.line)}
        title = f"coldstep: {finding.kind.replace('_', ' ')}"
        message = "\n".join(part for part in (name, finding.text, finding.advice, *finding.evidence[:1]) if part)
        said.append((title, message, place))
    said += [("coldstep: over budget", checked.sentence(row), {}) for row in checked.rows("over") if not row.findings]
    for title, message, place in said[:_MAX_ANNOTATIONS]:
        properties = ",".join(f"{key}={_property(value)}" for key, value in {**place, "title": title}.items())
        yield f"::error {properties}::{_message(message)}"


def _doubts(checked: Checked) -> list[str]:
    return [*checked.verdict.doubts, *(checked.sentence(row) for row in checked.rows("unknown"))]


def _below(folder: str, file: str) -> str | None:
    """`file` relative to `folder`, if it lies below it."""
    relative = os.path.relpath(file, folder) if folder else ".."
    return None if relative.startswith("..") else relative


def _message(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def summary(checked: Checked) -> str:
    """Markdown for the summary page of a job."""
    word = checked.verdict.word
    lines = [f"### coldstep: {_WORDS[word]}"]
    if said := [*checked.verdict.doubts, *checked.verdict.notes]:
        lines += ["", *(f"- {markdown(each)}" for each in said)]
    if checked.verdict.checks:
        lines += ["", "| | |", "| --- | --- |"]
        lines += [f"| {_WORDS[verdict]} | {markdown(said)} |" for verdict, said in _all(checked)]
    for trace, name, finding in checked.folded():
        place = f"{finding.location.file}:{finding.location.line}" if finding.location else ""
        head = ": ".join(markdown(part) for part in (name, place, finding.text) if part)
        lines += ["", f"**{head}**", ""]
        lines += [f"- {label}: {markdown(said)}" for label, said in _details(trace, finding)]
    whole = "\n".join(lines) + "\n"
    return whole if len(whole) < _SUMMARY_CHARS else f"{whole[:_SUMMARY_CHARS]}\n\n…\n"


# --- machines ---------------------------------------------------------------------------------------------------


def as_json(checked: Checked) -> dict[str, Any]:
    """Everything, as data; each finding as in `coldstep report --json`."""
    verdict = checked.verdict
    head = {"schema": SCHEMA, "verdict": verdict.word, "exit_code": EXIT_CODES[verdict.word], "traces": checked.names}
    checks = [asdict(row) | {"text": checked.sentence(row)} for row in verdict.checks]
    return {**head, "doubts": verdict.doubts, "notes": verdict.notes, "checks": checks}


def junit(checked: Checked) -> str:
    """JUnit's XML: a test case per limit; what could not be checked is an error."""
    first = checked.traces[0]
    rows = checked.verdict.checks
    doubts = checked.verdict.doubts
    over = len(checked.rows("over"))
    errors = len(checked.rows("unknown")) + len(doubts)
    numbers = {"tests": str(len(rows) + len(doubts)), "failures": str(over), "errors": str(errors)}
    suites = ElementTree.Element("testsuites")
    about = {"name": "coldstep check", "package": "coldstep", "id": "0", **numbers, "time": "0"}
    about["timestamp"] = first.run.started[:19] or "1970-01-01T00:00:00"
    about["hostname"] = plain(first.processes[0].host or "localhost")
    suite = ElementTree.SubElement(suites, "testsuite", about)
    ElementTree.SubElement(suite, "properties")
    for doubt in doubts:
        case = _case(suite, listed(checked.names), "seen whole")
        _said(case, "error", "not seen whole", doubt, doubt)
    for row in rows:
        name = f"{row.limit} {row.subject}".strip()
        name += f" (process {row.process})" if len(checked.traces[row.trace].processes) > 1 else ""
        case = _case(suite, checked.names[row.trace], name)
        if row.verdict == "unknown":
            _said(case, "error", "unknown", checked.sentence(row), row.why)
        elif row.verdict == "over":
            blocks = [_block(checked.traces[row.trace], "", finding, False) for finding in row.findings[:_MAX_FINDINGS]]
            details = "\n\n".join("\n".join(lines) for lines in blocks)
            kind = row.findings[0].kind if row.findings else row.limit
            _said(case, "failure", kind, checked.sentence(row), details or checked.sentence(row))
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(suites)
    encoded: bytes = ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return encoded.decode("ascii")


def _case(suite: ElementTree.Element, group: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", {"classname": plain(group), "name": flat(name), "time": "0"})


def _said(case: ElementTree.Element, tag: str, kind: str, message: str, details: str) -> None:
    element = ElementTree.SubElement(case, tag, {"message": flat(message), "type": kind})
    element.text = plain(details)
