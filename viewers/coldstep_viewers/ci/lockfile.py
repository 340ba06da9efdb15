"""The lock: what compiles, as a small text file that is reviewed like code. No times, no ids, nothing of a machine."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from coldstep._util.figures import count
from coldstep.analysis.across.run_diff import Function, Summary
from coldstep.errors import TraceError

_HEAD = (
    "# What compiles, written by `coldstep check --write-baseline`. Review a change to it like a change to the code."
)
# coldstep: "train_step: 2 compiles (jax, train.py)"
_FUNCTION = re.compile(r"(?P<name>\S.*): (?P<compiles>\d+) compiles? \((?P<stack>\w+)(?:, (?P<file>.+))?\)")
# coldstep: "    1 recompile: shape of batch"
_COUNT = re.compile(r"    (?P<count>\d+) (?P<what>recompile|graph break)s?: (?P<kind>.+)")
# coldstep: "    operations: 12, 14"
_OPERATIONS = re.compile(r"    operations: (?P<numbers>\d+(?:, \d+)*)")
# coldstep: "step: settled at step 1"
_STEPS = re.compile(r"(?P<name>\S.*): (?:settled at step (?P<step>\d+)|did not settle, or ran too seldom to tell)")


def write(summary: Summary) -> str:
    """The lock of one run. The same program gives the same text."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield _HEAD
    for key in sorted(summary.functions):
        row = summary.functions[key]
        yield ""
        file = f", {_name(row.file)}" if row.file else ""
        yield f"{_name(row.name)}: {count(row.compiles, 'compile')} ({row.stack}{file})"
        for what, kinds in (("recompile", row.recompiles), ("graph break", row.graph_breaks)):
            for kind in sorted(kinds):
                yield f"    {count(kinds[kind], what)}: {_name(kind)}"
        if row.operations:
            yield f"    operations: {', '.join(map(str, row.operations))}"
    if summary.settled:
        yield ""
    for name in sorted(summary.settled):
        step = summary.settled[name]
        yield f"{_name(name)}: " + (
            f"settled at step {step}" if step is not None else "did not settle, or ran too seldom to tell"
        )


def is_lock(path: str) -> bool:
    """Whether the file begins as a lock does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_HEAD.encode())) == _HEAD.encode()
    except OSError:
        return False


def read(path: str) -> Summary:
    """The summary in a lock. Raises TraceError for a line that is not a lock's."""
    summary = Summary()
    function: Function | None = None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"cannot read {path}: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            function = _take(line, summary, function)
        except ValueError:
            raise TraceError(
                f"line {number} of {path} is not a line of a lock: write it again with coldstep check --write-baseline"
            ) from None
    return summary


def _take(line: str, summary: Summary, function: Function | None) -> Function | None:
    """Take in a line; the function that the next ones are of. Raises ValueError where it is no line of a lock."""
    if match := _FUNCTION.fullmatch(line):
        function = Function(_text(match["file"] or ""), _text(match["name"]), match["stack"], int(match["compiles"]))
        summary.functions[function.key] = function
    elif match := _STEPS.fullmatch(line):
        summary.settled[_text(match["name"])] = int(match["step"]) if match["step"] else None
    elif function is not None and (match := _COUNT.fullmatch(line)):
        kinds: Counter[str] = function.recompiles if match["what"] == "recompile" else function.graph_breaks
        kinds[_text(match["kind"])] += int(match["count"])
    elif function is not None and (match := _OPERATIONS.fullmatch(line)):
        function.operations = [int(word) for word in match["numbers"].split(", ")]
    else:
        raise ValueError(line)
    return function


def _name(text: str) -> str:
    """A text as it stands in a line; one that would not be read again as it is, as a JSON string."""
    plainly = text.isprintable() and text == " ".join(text.split()) and text and not text.startswith(("#", '"'))
    return text if plainly else json.dumps(text)


def _text(name: str) -> str:
    """What `_name` wrote. Raises ValueError where it wrote nothing of that kind."""
    return str(json.loads(name)) if name.startswith('"') else name
