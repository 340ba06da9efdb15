"""Which programs, logs and kept traces show each row of advice: docs/evidence/advice.csv.

`cd tests && python -m advice_rows FOLDER`: programs that have no trace in FOLDER yet are run before, those of torch_xla
in its own environment. A row is shown where a finding of that run has it among its remedies.
"""

from __future__ import annotations

import csv
import importlib
import os
import pkgutil
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import scenarios
from scenarios import warm

import coldstep
import coldstep.analysis
from coldstep.analysis import breaks
from coldstep.analysis.recompiles import rows as recompiles
from coldstep.analysis.remedies import table
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.rules import registry
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.model import Trace

HERE = Path(__file__).parent
OUTPUT = HERE.parent / "docs/evidence/advice.csv"
PROGRAMS = ("shown", "remedies", "scenarios", "threads")
_OF_TOOLS = ("scenarios", "threads")
"""Folders that have programs in folders of their own, and tools beside these."""
_STACKS = {"tf": "tensorflow", "keras": "tensorflow"}
_SETTINGS = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
_ON_JAX = '["KERAS_BACKEND"] = "jax"'  # which is read when Keras is imported
_MOST = 3  # named of each kind
_FIRST = 12  # words of a text
_OF_BREAKS = (
    "_BRANCHES", "_LOOP", "_BY_OPTIMIZER", "_BY_SCHEDULER", "_BY_DDP", "_FAILS_EAGERLY", "_A_BUG", "_ON_PURPOSE",
    "_NOT_TRACED", "_IMPORT_FAILS",
)  # fmt: skip
IN_TESTS = {
    "advice _ANY[cell again]": "commands/test_notebook.py",
    "advice {words}": "unit/analysis/test_vocabulary.py",
    "rules.dynamo REMEDIES[open shape within]": "frameworks/test_trainers.py",
    "rules.dynamo REMEDIES[type of a function]": "unit/analysis/test_advice.py",
    "rules.dynamo REMEDIES[shape within]": "unit/analysis/test_advice.py",
    "rules.dynamo REMEDIES[new_function]": "unit/analysis/test_advice.py",
    "rules.dynamo REMEDIES[float attribute]": "unit/analysis/test_advice.py",
    "rules.dynamo REMEDIES[state of a library]": "unit/analysis/test_advice.py",
    "rules.tensorflow REMEDIES[value of XLA]": "frameworks/tensorflow/test_tensorflow.py",
    "rules.tensorflow REMEDIES[retracing]": "unit/logs/test_log_wordings.py (words of TensorFlow's log)",
    "tuned_anew _FEWER_KEYS": "unit/analysis/test_tuned_anew.py (needs a GPU: gpu/own_kernel.py)",
    "breaks _A_BUG": "frameworks/torch/test_graph_breaks.py",
    "breaks _NOT_TRACED": "frameworks/torch/test_graph_breaks.py",
    "breaks _BY_KIND[skipped_frame]": "unit/logs/test_public_logs.py",
    "breaks _BY_REASON[[Dd]ata-dependent assertion]": "frameworks/torch/test_graph_breaks.py",
    r"breaks _BY_REASON[\.item\(\)|_local_scalar_dense|capture_scalar_outputs|Tensor\.tolist\(\)(?! with non-integer)] "
    "in a library": "frameworks/torch/test_graph_breaks.py",
    "breaks _BY_REASON[[Dd]ynamic shape operator|capture_dynamic_output_shape_ops] in a library":
        "frameworks/torch/test_graph_breaks.py",
    r"breaks _BY_REASON[logging\.Logger|Logger\.\w+] in a library": "frameworks/torch/test_graph_breaks.py",
}  # fmt: skip
"""Rows that no file here shows by itself, and the tests that do."""
_WORDS = {
    "{advice}": "make_finding {advice}",
    "{words}": "advice {words}",
    "graph_break": "breaks hint",
    "cache": "caches.unkept reason",
}
"""Rows without a text of their own: of a finding's advice, of a collector of others, of PyTorch's hints and reasons."""


def catalogue() -> dict[str, Row]:
    """Each row by its place: "rules.jax REMEDIES[shape]"."""
    found: dict[int, tuple[str, Row]] = {}
    for info in pkgutil.walk_packages(coldstep.analysis.__path__, "coldstep.analysis."):
        module = importlib.import_module(info.name)
        if module is registry:  # which has the others'
            continue
        own = set(re.findall(r"^(\w+)(?:: .+?)? = ", Path(str(module.__file__)).read_text(), re.MULTILINE))
        for name, value in vars(module).items():
            for keys, row in _within(value) if name in own else ():
                found.setdefault(id(row), (f"{info.name.removeprefix('coldstep.analysis.')} {name}{keys}", row))
    texts = {name: getattr(breaks, name) for name in _OF_BREAKS}
    texts |= {f"_BY_KIND[{key}]": text for key, text in breaks._BY_KIND.items()}
    known = {f"breaks {name}": Row(text) for name, text in texts.items()}
    for each in breaks._BY_REASON:
        place = f"breaks _BY_REASON[{each.words.pattern}]"
        known[place] = Row(each.own, above=each.above, instead=each.instead, environment=each.environment)
        if each.library != each.own:
            known[f"{place} in a library"] = Row(each.library, environment=each.environment)
    known["recompiles.rows _AFTER_A_BREAK"] = Row(recompiles._AFTER_A_BREAK)
    return {**dict(found.values()), **known, **{place: Row(text) for text, place in _WORDS.items()}}


def _within(value: object) -> Iterator[tuple[str, Row]]:
    if isinstance(value, Row):
        yield "", value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from ((f"[{key}]{keys}", row) for keys, row in _within(each))
    elif isinstance(value, tuple):
        for each in value:
            yield from _within(each)


class Recorder:
    """Notes which row each remedy is made from, by the remedy's text and id."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows  # whose ids are no other's as long as they live
        self._places = {id(row): place for place, row in rows.items()}
        self._texts = {row.text: place for place, row in reversed(rows.items())}
        made = {place: row for place, row in rows.items() if place.startswith(("breaks ", "recompiles.rows _A"))}
        self._patterns = {place: _pattern(row.text) for place, row in made.items()}
        self.made: dict[tuple[str, str], str] = {}
        self._remedies = table._environment
        table._environment = self._note

    def _note(self, row: Row, case: table.Case) -> dict[str, str]:
        self.made[case.id, row.text.format_map(case.names)] = self._place(row, case)
        return self._remedies(row, case)

    def _place(self, row: Row, case: table.Case) -> str:
        text = row.text.removeprefix(f"{breaks._WHOLE} ")
        made = next((place for place, each in self._patterns.items() if each.fullmatch(text)), None)
        known = made if case.id.startswith("graph_break.") else None
        known = known or self._places.get(id(row)) or self._texts.get(row.text) or made
        return known or _WORDS.get(case.id.partition(".")[0], _WORDS["cache"])

    def shown(self, trace: Trace) -> dict[str, bool]:
        """The rows that findings have as remedies; whether with code or variables."""
        found: dict[str, bool] = {}
        for remedy in (each for finding in trace.findings for each in finding.remedies):
            id_ = remedy.id.removesuffix(":environment")
            for (of, text), place in self.made.items():
                if of == id_ and (text in remedy.text or remedy.environment):
                    found[place] = found.get(place, False) or bool(remedy.code or remedy.environment)
        return found


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", ".*", re.escape(text)), re.DOTALL)


# --- what shows them ----------------------------------------------------------------------------------------------


def run_all(folder: Path) -> None:
    """Run the programs that have no trace there."""
    for program in (path for name in PROGRAMS for path in sorted((HERE / name).rglob("*.py"))):
        to = trace_of(program, folder)
        if not (to.exists() or (program.parent == HERE / program.parent.name and program.parent.name in _OF_TOOLS)):
            to.parent.mkdir(parents=True, exist_ok=True)
            run_one(program, to)
            print(program.relative_to(HERE), file=sys.stderr)


def run_one(program: Path, to: Path) -> None:
    """Run a program, which may fail, under coldstep."""
    of = program.parent.name
    first = of if of in scenarios.ENVIRONMENTS else program.stem.partition("_")[0]
    stack = "torch_xla" if program.stem.startswith("torch_xla") else _STACKS.get(first, first)
    stack = "jax" if _ON_JAX in program.read_text() else stack
    python = scenarios.interpreter(stack)
    assert python is not None, scenarios.missing(stack)
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(program, Path(name, "program.py"))
        arguments = ["coldstep", "run", "--no-live", "--device", "off", "-o", str(to), "program.py"]
        env = {**os.environ, **scenarios.ENVIRONMENT, **_SETTINGS}
        warm.server(stack, python).run(arguments, Path(name), env)


def trace_of(program: Path, folder: Path) -> Path:
    """Where the trace of a program is."""
    return folder / program.relative_to(HERE).with_suffix(".pftrace")


def traces(folder: Path) -> Iterator[tuple[str, Trace]]:
    """All that is shown, by its path in tests/."""
    for path in sorted(folder.rglob("*.pftrace")):
        yield str(path.relative_to(folder).with_suffix(".py")), coldstep.load(path)
    for path in sorted((HERE / "traces").glob("*.pftrace")):
        yield f"traces/{path.name}", coldstep.load(path)
    for path in sorted((HERE / "log_specimens").glob("*.log")):
        with tempfile.TemporaryDirectory() as name:
            to = f"{name}/log.pftrace"
            try:
                convert([str(path)], to, lambda *_: None)
            except TraceError:
                continue
            yield f"log_specimens/{path.name}", coldstep.load(to)


def main() -> None:
    """Run what has not been, and write the table."""
    folder = Path(sys.argv[1])
    rows = catalogue()
    recorder = Recorder(rows)
    run_all(folder)
    by: dict[str, list[str]] = defaultdict(list)
    followed: dict[str, list[str]] = defaultdict(list)
    for path, trace in traces(folder):
        for place, has_code in recorder.shown(trace).items():
            by[place].append(path)
            if has_code and path.startswith("remedies/"):
                followed[place].append(path)
        recorder.made.clear()
    with OUTPUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "begins", "code", "shown by", "followed by a test"))
        for place, row in rows.items():
            has = row.above or row.instead or row.over or row.under or row.keyword
            kinds = [name for name, held in (("code", has), ("environment", row.environment)) if held]
            writer.writerow(
                (
                    place,
                    " ".join(row.text.split()[:_FIRST]),
                    " and ".join(kinds),
                    _some(by[place] or [IN_TESTS[place]] if place in IN_TESTS else by[place]),
                    _some(followed[place]),
                )
            )


def _some(paths: list[str]) -> str:
    """The first of each kind, and how many more."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        kinds[path.partition("/")[0]].append(path)
    some = [path for each in kinds.values() for path in each[:_MOST]]
    return (
        " ".join(some) + (f" and {len(paths) - len(some)} more" if len(paths) > len(some) else "") if paths else "none"
    )


if __name__ == "__main__":
    main()
