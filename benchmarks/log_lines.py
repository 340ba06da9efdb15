"""How fast `coldstep log` goes through lines that are not its own, beside a loop that only reads them, and in how much
memory: `python benchmarks/log_lines.py [MB]`."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coldstep.logs import convert

STEP = "step {n} loss 0.1234 and what else a training script prints, line after line after line\n"
OURS = (
    "TRACING CACHE MISS at /repo/train.py:20:12 (<module>):\n  never seen function:\n"
    "    train_step id=1 defined at /repo/train.py:8\nFinished tracing train_step for jit in 0.007 sec\n"
    "Compiling jit(train_step) with global shapes and types (ShapedArray(float32[8,4]),). "
    "Argument mapping: (UnspecifiedValue,).\nFinished jaxpr to MLIR module conversion jit(train_step) in 0.004 sec\n"
    "Finished XLA compilation of jit(train_step) in 0.500 sec\n"
)
KINDS: dict[str, Callable[[int], str]] = {
    "plain": lambda n: STEP.format(n=n),
    "with colours": lambda n: f"\x1b[36m(train pid=7)\x1b[0m {STEP.format(n=n)}",
    "progress bars": lambda n: f"\r {n % 100}%|███       | {n}/10000 [00:00<00:01,  5.00it/s]" + "\n" * (n % 100 == 0),
    "JSON": lambda n: f'{{"log":"{STEP.format(n=n).strip()}\\n","stream":"stderr","time":"2026-11-21T07:47:53Z"}}\n',
    "a compile in 500 lines": lambda n: OURS if n % 500 == 0 else STEP.format(n=n),
}


def read_only(path: str) -> None:
    with open(path, "rb") as file:
        for _ in file:
            pass


def read_by_coldstep(path: str) -> None:
    convert([path], f"{path}.pftrace", lambda read, total: None)


def seconds(work: Callable[[str], None], path: Path) -> float:
    before = time.process_time()
    work(str(path))
    return time.process_time() - before


def main(megabytes: int) -> None:
    """Print a line for each kind of lines."""
    print(f"{'lines':24} {'MB/s':>8} {'a loop: MB/s':>14} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, line in KINDS.items():
            path = Path(folder, "ci.log")
            lines = "".join(map(line, range(20_000))).encode()
            with path.open("wb") as file:
                for _ in range(max(1, (megabytes << 20) // len(lines))):
                    file.write(lines)
                file.write(OURS.encode())
            size = path.stat().st_size / 1e6
            ours, plain = seconds(read_by_coldstep, path), seconds(read_only, path)
            print(f"{kind:24} {size / ours:8.0f} {size / plain:14.0f} {ours / plain:7.1f}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
