"""What each model would hold in memory, said before anything is allocated.

`python -m benchmarks.stack_wars.foretell [MODEL …]` asks each in a process of its own, which writes its row beside the
traces of `python -m benchmarks.stack_wars`; what is there is not asked again, but for another `--memory`.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from benchmarks.stack_wars.fitting import STACKS, Foretold, read, write
from benchmarks.stack_wars.interpreters import ROOT, interpreters, memory
from benchmarks.stack_wars.models import MODELS
from benchmarks.stack_wars.sizes import SIZES

LIMIT_S = 1200


def main() -> None:
    options = _options()
    pythons = interpreters(options.stack)
    for model in options.model:
        for stack in pythons:
            path = Path(options.output, options.size, model, f"{stack}.fit.json").absolute()
            if not path.exists() or _is_of_another(read(path), options.memory):
                ask(pythons[stack], model, stack, options.size, options.memory, path)
            found = read(path)
            print(f"{model} in {stack}: {found.fit or found.why}", flush=True)


def _is_of_another(found: Foretold, memory_bytes: int | None) -> bool:
    """Whether it was said of another limit than this one."""
    return found.fit is not None and memory_bytes not in (None, found.fit.memory_bytes)


def ask(python: str, model: str, stack: str, size: str, memory_bytes: int | None, path: Path) -> None:
    """Ask of one pair; whatever becomes of that, its row is there afterwards."""
    words = [model, stack, size, str(path), *(["--memory", str(memory_bytes)] if memory_bytes else [])]
    command = [python, "-m", "benchmarks.stack_wars.fitting", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        write(Foretold(None, f"not known after {LIMIT_S} s"), path)
        return
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        write(Foretold(None, said[-1] if said else f"ended with {done.returncode}"), path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_wars.foretell", description=__doc__)
    parser.add_argument("model", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (all)")
    parser.add_argument("--stack", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--size", choices=SIZES, default="published", help="(%(default)s)")
    parser.add_argument("--memory", type=memory, metavar="32GiB", help="what there is (what is available)")
    parser.add_argument("-o", "--output", default="stack-wars", help="the folder of rows (%(default)s)")
    options = parser.parse_args()
    options.model = options.model or list(MODELS)
    if unknown := [name for name in options.model if name not in MODELS]:
        parser.error(f"{unknown[0]} is none of {', '.join(MODELS)}")
    return options


if __name__ == "__main__":
    main()
