"""What the tools say of a recompile, against what the scenario programs provoke.

    .venv/bin/python benchmarks/published/explain.py [--verbose | --json]

Each program in tests/scenarios/jax and torch is run for each tool: PyTorch's TORCH_LOGS=recompiles and the pages that
tlparse makes of TORCH_TRACE, JAX's jax_explain_cache_misses, and coldstep. What is right stands in the program's `#
expect:` lines, written by hand. benchmarks/published/stated.py has the rule by which a text states a cause, an argument
and the values; it is generous. Coldstep's fields count only if they are equal, letter for letter. The programs are
coldstep's own test suite: its row says that the tests pass, the others what those tools say of the same programs.

Takes a quarter of an hour on 2 cores.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import scenarios
from scenarios.runner import run_all
from stated import ALL, Clause, Marks, Said, judge

from coldstep.model import Trace

TOOLS = {"jax": ("jax_explain_cache_misses", "coldstep"), "torch": ("TORCH_LOGS=recompiles", "tlparse", "coldstep")}
_LOGGED = re.compile(r"^V\S* .*?\[__recompiles\] ?(.*)$", re.MULTILINE)
_SOURCE = re.compile(r"\s{2,}# .*?(?=\(HINT|$)")
_MISS = re.compile(r"^TRACING CACHE MISS at .*\n((?: .*\n?)*)", re.MULTILINE)
_NOW = re.compile(r"^(.*?)[,:] now (.*?) and before (.*?)(, so .*)?$", re.DOTALL)


@dataclass(slots=True)
class Statement:
    """What a tool says of one recompile, and how that is judged against what one expects."""

    text: str
    judge: Callable[[Said], Marks]


@dataclass(slots=True)
class Row:
    """A recompile that a program provokes, what each tool says of it, and the marks that this gets."""

    program: str
    expected: Said
    said: dict[str, tuple[str, Marks]] = field(default_factory=dict)


# --- reading what the tools say -----------------------------------------------------------------------------------


def torch_logs(stderr: str) -> Iterator[list[str]]:
    """The failed guards of each recompile in the log."""
    for message in "\n".join(_LOGGED.findall(stderr)).split("Recompiling function ")[1:]:
        yield re.findall(r"^ *- (\d+/\d+: .*)$", message, re.MULTILINE)


def tlparse(pages: Path) -> Iterator[list[str]]:
    """The same from the pages on the compiles."""
    found = sorted(pages.glob("*/recompile_reasons_*"), key=lambda path: int(path.stem.rpartition("_")[2]))
    for page in found:
        text = page.read_text()
        reasons = json.loads(text) if text.startswith("[") else [text]
        yield [reason.splitlines()[0] for reason in reasons]


def jax_misses(stderr: str) -> Iterator[list[str]]:
    """The differences that each explanation lists; that a function is compiled for the first time is none."""
    for body in _MISS.findall(stderr):
        head, _, rest = " ".join(body.split()).partition(" For the closest previous key: ")
        if rest:
            title, *bullets = rest.split(" * ")
            yield [f"{title} {bullet}" for bullet in bullets]
        elif "but seen another" in head:
            yield [head]


def of_guard(text: str) -> Clause:
    """What a guard that failed says of before and after."""
    text = _SOURCE.sub(" ", text.partition(": ")[2]).strip()
    before = after = None
    if match := re.search(r"expected (.+?), actual (.+?)(?:\. |$)", text):
        before, after = match.groups()
    elif match := re.search(r"expected (requires_grad=([01]))", text):
        before, after = match[1], f"requires_grad={1 - int(match[2])}"
    elif match := re.search(r"Cached backend: (.*?\)) .*New backend: (.*?\)) ", text):
        before, after = match.groups()
    elif match := re.fullmatch(r"(not )?(?:___dict_contains|set\.__contains__)\((.*)\)", text):
        key = " ".join(re.findall(r"'[^']*'", match[2])[:1])
        before, after = f"with {key}", f"without {key}"
        if match[1]:
            before, after = after, before
    elif match := re.search(r"expected type of .* to be a (tensor) type, .* found (.*)", text):
        before, after = match.groups()
    elif match := re.match(r"not \w", text):
        before = "0"
    elif match := re.search(r"type=<class '(?:\w+\.)*(\w+)'>", text):
        before = match[1]
    elif match := re.match(r".* [!=]= (True|False)\b", text):
        before, after = match[1], str(match[1] == "False")
    elif match := re.match(r".* [!=]= (.*)$", text):
        before = match[1].split(" (HINT")[0]
    elif " is None" in text:
        before = "None"
    elif text.startswith("Duplicate tensors"):
        before, after = "another", "same"
    elif re.match(r"\S+ is [a-z]", text):
        before, after = "same", "another"
    elif "deallocated" in text:
        before = "deallocated"
    return Clause(text, re.sub(r"type=<class .*", "", text), before, after)


def of_miss(text: str) -> Clause:
    """What one line of JAX's explanation says of before and after."""
    if match := _NOW.match(text):
        where, after, before, why = match.groups()
        return Clause(text, f"{where}, {why or ''}", f"{before}{why or ''}", f"{after}{why or ''}")
    return Clause(text, "", "another function", "function")


def positions(program: Path) -> dict[str, int | None]:
    """At which place each argument of the program's functions is passed, by name."""
    found: dict[str, int | None] = {}
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            for place, name in enumerate(names):
                found.setdefault(name, place)
            if node.args.vararg is not None and not names:
                found.setdefault(node.args.vararg.arg, ALL)
    return found


def by_text(program: Path, read: Callable[[str], Clause], texts: Iterable[list[str]]) -> list[Statement]:
    """Statements of a framework."""
    where = positions(program)
    return [
        Statement("\n".join(lines), partial(judge, clauses=[read(line) for line in lines], positions=where))
        for lines in texts
        if lines
    ]


def by_fields(trace: Trace) -> list[Statement]:
    """Coldstep's statements: equal, or wrong."""

    def statement(said: Said) -> Statement:
        cause, argument, before, after = said
        return Statement(f"{cause} of {argument}: {before} → {after}", lambda expected: _equal(expected, said))

    return list(map(statement, scenarios.said(trace)))


def _equal(expected: Said, said: Said) -> Marks:
    marks = [None if want is None else want == got for want, got in zip(expected, said, strict=True)]
    return Marks(bool(marks[0]), *marks[1:])


# --- running ------------------------------------------------------------------------------------------------------


def run_torch(program: Path, folder: Path, tlparse_path: str) -> dict[str, list[Statement]]:
    """What PyTorch logs of the program, and what tlparse makes of its trace."""
    name = program.stem
    stderr = _run(program, {"TORCH_LOGS": "recompiles", "TORCH_TRACE": str(folder / name)})
    for log in (folder / name).glob("*.log"):
        command = [tlparse_path, "--no-browser", "-o", str(folder / f"{name}-pages"), str(log)]
        subprocess.run(command, check=True, capture_output=True)
    logs, pages = TOOLS["torch"][:2]
    return {
        logs: by_text(program, of_guard, torch_logs(stderr)),
        pages: by_text(program, of_guard, tlparse(folder / f"{name}-pages")),
    }


def run_jax(program: Path) -> dict[str, list[Statement]]:
    """What JAX explains of the program."""
    stderr = _run(program, {"JAX_EXPLAIN_CACHE_MISSES": "1", **scenarios.ENVIRONMENT})
    return {TOOLS["jax"][0]: by_text(program, of_miss, jax_misses(stderr))}


def _run(program: Path, env: dict[str, str]) -> str:
    command = [sys.executable, str(program)]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=True)
    return done.stderr


# --- comparing ----------------------------------------------------------------------------------------------------


def aligned(expected: Sequence[Said], statements: Sequence[Statement]) -> list[tuple[str, Marks] | None]:
    """The statement on each expected recompile, in their order and so that most of it is right; None for silence."""

    @cache
    def best(i: int, j: int) -> tuple[int, int, tuple[int | None, ...]]:
        if i == len(expected) or j == len(statements):
            return 0, 0, (None,) * (len(expected) - i)
        score, pairs, rest = best(i + 1, j + 1)
        paired = score + statements[j].judge(expected[i]).score, pairs + 1, (j, *rest)
        score, pairs, rest = best(i + 1, j)
        silent = score, pairs, (None, *rest)
        return max(paired, silent, best(i, j + 1), key=lambda found: found[:2])

    found = best(0, 0)[2]
    return [
        None if j is None else (statements[j].text, statements[j].judge(said))
        for said, j in zip(expected, found, strict=True)
    ]


def compare(programs: list[Path]) -> tuple[list[Row], dict[str, dict[str, int]]]:
    """All recompiles with what is said of them; and how often each tool speaks of one where there is none."""
    path = shutil.which("tlparse", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        sys.exit("tlparse is not installed: .venv/bin/python -m pip install -r requirements/main.txt")
    with tempfile.TemporaryDirectory(prefix="coldstep-explain-") as name:
        folder = Path(name)

        def others(program: Path) -> dict[str, list[Statement]]:
            return run_jax(program) if program.parent.name == "jax" else run_torch(program, folder, path)

        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(others, programs))
        for by_tool, trace in zip(said, run_all(programs, folder), strict=True):
            if isinstance(trace, Exception):
                raise trace
            by_tool["coldstep"] = by_fields(trace)
    rows: list[Row] = []
    unprovoked: dict[str, dict[str, int]] = {stack: dict.fromkeys(tools, 0) for stack, tools in TOOLS.items()}
    for program, by_tool in zip(programs, said, strict=True):
        stack = program.parent.name
        expected = scenarios.read(program).recompiles
        mine = [Row(f"{stack}/{program.stem}", one) for one in expected]
        for tool, statements in by_tool.items():
            if not expected:
                unprovoked[stack][tool] += len(statements)
            for row, found in zip(mine, aligned(expected, statements), strict=True):
                if found is not None:
                    row.said[tool] = found
        rows += mine
    return rows, unprovoked


# --- telling ------------------------------------------------------------------------------------------------------


def summary(rows: list[Row], tool: str) -> dict[str, int]:
    """How many recompiles a tool speaks of, and how many of which part it states rightly."""
    marks = [row.said[tool][1] for row in rows if tool in row.said]
    counts = {part: sum(getattr(mark, part) is True for mark in marks) for part in Marks._fields}
    wrong = sum(not mark.cause for mark in marks)
    return {"said": len(marks), **counts, "all": sum(mark.whole for mark in marks), "another_cause": wrong}


def possible(rows: list[Row]) -> dict[str, int]:
    """The same for a tool that says everything."""
    parts = {part: sum(row.expected[at] is not None for row in rows) for at, part in enumerate(Marks._fields)}
    return {"said": len(rows), **parts, "all": len(rows), "another_cause": 0}


def results(rows: list[Row], unprovoked: dict[str, dict[str, int]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stack, tools in TOOLS.items():
        mine = [row for row in rows if row.program.startswith(f"{stack}/")]
        found[stack] = {"possible": possible(mine)} | {
            tool: summary(mine, tool) | {"unprovoked": unprovoked[stack][tool]} for tool in tools
        }
    return found


def table(found: dict[str, Any]) -> str:
    titles = ("said", "cause", "argument", "before", "after", "all", "another_cause", "unprovoked")
    lines = []
    for stack, tools in found.items():
        lines.append("".join([f"{stack:26}", *(f"{title.replace('_', ' '):>15}" for title in titles)]))
        for tool, counts in tools.items():
            lines.append("".join([f"  {tool:24}", *(f"{counts.get(title, ''):>15}" for title in titles)]))
        lines.append("")
    return "\n".join(lines)


def details(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        cause, argument, before, after = row.expected
        lines.append(f"{row.program} expects {cause} of {argument}: {before} → {after}")
        for tool in TOOLS[row.program.partition("/")[0]]:
            text, marks = row.said.get(tool, ("(silent)", None))
            right = [part for part in Marks._fields if marks and getattr(marks, part)]
            lines.append(f"  {tool:26}{', '.join(right) or 'nothing'}")
            lines += [f"      {line[:300]}" for line in text.splitlines()]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--verbose", action="store_true", help="also print what each tool says of each recompile")
    form.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    programs = [path for path in scenarios.PROGRAMS if path.parent.name in TOOLS]
    rows, unprovoked = compare(programs)
    if options.verbose:
        print(details(rows))
    found = results(rows, unprovoked)
    print(json.dumps(found, indent=1) if options.json else table(found))


if __name__ == "__main__":
    main()
