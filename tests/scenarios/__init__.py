"""Tiny real programs, one per cause and stack, each with what coldstep must say of it in its first comment lines.

A program expects its recompiles in the order of the trace, one line each,

    # expect: shape batch['x'] f32[8,4] -> f32[5,4]

(cause, argument, before, after; `-` where the report must say null; a value in quotes may hold spaces), or

    # expect: nothing

and may say more: `# settles: 1` (settled_at_step of its first kind of step), `# finding: cache_limit_near` (a kind
that must be among the findings), `# pattern: last_batch`, `# break: data_dependent`, `# settling: optimizer_state`
(the causes listed for steps before the settled one, in order; `-` for what compiled for the first time), `# before:
jax 0.5: XLA compiles it twice` (why older releases of a framework do something else than is expected here).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import coldstep
from coldstep.model import Trace
from scenarios import warm

HERE = Path(__file__).parent
ENVIRONMENTS = {"jax": ".venv", "torch": ".venv", "torch_xla": ".venv-xla", "tensorflow": ".venv"}
"""The stacks, and where `make` puts each: torch_xla needs an older torch beside it."""
STACKS = ("torch_xla",) if find_spec("torch_xla") else ("jax", "torch", "tensorflow")
"""Those of the environment that this runs in."""
PROGRAMS = [path for stack in STACKS for path in sorted((HERE / stack).glob("*.py"))]
_FLAGS = os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=2"
ENVIRONMENT = {"XLA_FLAGS": " ".join(filter(None, _FLAGS)), "PJRT_DEVICE": "CPU"}
"""What the programs run under, beside what is there."""
TIMEOUT_S = 300
_SAYS = re.compile(r"# (expect|settles|finding|pattern|break|settling|before): (.+)")
_WITHOUT = (
    "import contextlib, types; coldstep = types.SimpleNamespace("
    "step=contextlib.nullcontext, annotate=contextlib.nullcontext, wait=lambda value: value)"
)
"""What stands for coldstep in a program without marks."""

Said = tuple[str, str | None, str | None, str | None]
"""A recompile's cause, argument, before and after."""


@dataclass(slots=True)
class Scenario:
    """A program and what its first lines expect."""

    path: Path
    recompiles: list[Said] = field(default_factory=list)
    says: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def before(self, versions: Mapping[str, str]) -> str:
        """Why the framework does something else than is expected, by its version; empty where it does not."""
        for text in self.says.get("before", []):
            release, _, why = text.partition(": ")
            package, _, first = release.partition(" ")
            if package in versions and numbers(versions[package]) < numbers(first):
                return why
        return ""

    def without_steps(self) -> Scenario:
        """What it expects where nobody marks its steps: the same recompiles."""
        return replace(self, says={key: self.says[key] for key in ("expect", "before") if key in self.says})


def numbers(version: str) -> list[int]:
    """A version by which to sort: 2.13.0+cpu as [2, 13, 0]."""
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


def read(path: Path) -> Scenario:
    """The expectations in the program at `path`. Raises ValueError for a line that is none."""
    scenario = Scenario(path)
    for kind, text in _SAYS.findall(path.read_text()):
        if kind != "expect":
            scenario.says.setdefault(kind, []).append(text.strip())
        elif text.strip() == "nothing":
            scenario.says["expect"] = ["nothing"]
        else:
            scenario.recompiles.append(_recompile(text))
    if not scenario.recompiles and "expect" not in scenario.says:
        raise ValueError(f"{path} expects nothing at all: write `# expect: nothing` if that is meant")
    return scenario


def _recompile(text: str) -> Said:
    lexer = shlex.shlex(text, posix=False, punctuation_chars=False)
    lexer.whitespace_split, lexer.quotes, lexer.commenters = True, '"', ""
    words = [word.strip('"') for word in lexer]
    if len(words) != 5 or words[3] != "->":
        raise ValueError(f"not `cause argument before -> after`: {text}")
    cause, argument, before, _, after = words
    return cause, *(None if word == "-" else word for word in (argument, before, after))  # type: ignore[return-value]


def programs(stack: str) -> list[Path]:
    """All programs of a stack, whether they can run here or not."""
    return sorted((HERE / stack).glob("*.py"))


def interpreter(stack: str) -> str | None:
    """The Python that runs the programs of a stack: this, or the other environment's; None where that is not there."""
    if stack in STACKS:
        return sys.executable
    other = HERE.parents[1] / ENVIRONMENTS[stack] / "bin/python"
    return str(other) if other.exists() else None


def unmarked(path: Path, folder: Path) -> Path:
    """A copy of the program, line by line, in which nothing marks a step, and nothing is coldstep's."""
    copy = folder / path.parent.name / path.name
    copy.parent.mkdir()
    copy.write_text(re.sub("^import coldstep$", _WITHOUT, path.read_text(), flags=re.MULTILINE))
    return copy


def missing(stack: str) -> str:
    """What is said where a stack has no interpreter."""
    environment = ENVIRONMENTS[stack]
    return f"there is no {environment} here (make {environment.removeprefix('.')})"


def run(
    path: Path,
    folder: Path,
    env: dict[str, str] | None = None,
    python: str | None = None,
    *,
    cold: bool = False,
    settings: Sequence[str] | None = None,
) -> Trace:
    """The trace that `coldstep run` makes of the program, in `folder`; beside it, with .log, what went to stderr.

    By the stack's own interpreter, or by `python`, in a process that has imported the framework already, unless it is
    to be `cold` or in an `env`, which a framework may read as it is imported; not if `settings` are the modules, those
    of `folder` included, that read all of it again.
    """
    stack = path.parent.name
    output = folder / f"{stack}-{path.stem}.pftrace"
    python = python or interpreter(stack)
    assert python is not None, missing(stack)
    arguments = ["coldstep", "run", "-o", str(output), str(path)]
    whole = {**os.environ, **ENVIRONMENT, **(env or {})}
    if cold:
        command = [python, "-m", *arguments]
        done = subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, timeout=TIMEOUT_S)
        code, said = done.returncode, done.stderr
    else:
        server = warm.server(stack, python, env if settings is None else None)
        code, said = server.run(arguments, folder, whole, settings or ())
    assert code == 0, said
    output.with_suffix(".log").write_text(said)
    return coldstep.load(output)


def said(trace: Trace) -> list[Said]:
    """What the report says of each recompile."""
    return [(row.cause, row.argument, row.before, row.after) for row in trace.recompiles]
