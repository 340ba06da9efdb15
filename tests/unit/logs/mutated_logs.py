"""Changes logs at random and reads them: `python mutated_logs.py [HOW MANY] [SEED]` prints what failed, the slowest and
the largest."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from log_dressings import DRESSINGS

import coldstep
from coldstep.errors import TraceError
from coldstep.logs import convert

SPECIMENS = [path.read_text() for path in sorted((Path(__file__).parents[2] / "log_specimens").glob("*.log"))]
LONG = (
    "(",
    "[",
    "'",
    "\\",
    "a.",
    "((",
    '{"log":',
    "] ",
    "- 0/0: ",
    "tensor 'x' ",
    "0",
    " ",
    "\t",
    "&#39;",
    "\x1b[",
    "(pid=",
)


def mutated(chance: random.Random) -> bytes:
    """A specimen, or two of them mixed, dressed or not, with up to eight changes."""
    text = chance.choice(SPECIMENS)
    if chance.random() < 0.2:
        lines = [*text.splitlines(True), *chance.choice(SPECIMENS).splitlines(True)]
        chance.shuffle(lines)
        text = "".join(lines)
    content = bytearray(chance.choice([*DRESSINGS.values()])(text) if chance.random() < 0.5 else text.encode())
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(content) + 1)
        chance.choice(CHANGES)(chance, content, at)
    return bytes(content)


def _insert(chance: random.Random, content: bytearray, at: int) -> None:
    content[at:at] = chance.randbytes(chance.randint(1, 20))


def _remove(chance: random.Random, content: bytearray, at: int) -> None:
    del content[at : at + chance.randint(1, 200)]


def _repeat(chance: random.Random, content: bytearray, at: int) -> None:
    content[at:at] = content[at : at + chance.randint(1, 400)] * chance.randint(1, 40)


def _prolong(chance: random.Random, content: bytearray, at: int) -> None:
    content[at:at] = chance.choice(LONG).encode() * chance.choice((10, 1_000, 60_000))


def _move(chance: random.Random, content: bytearray, at: int) -> None:
    to = chance.randrange(len(content) + 1)
    content[to:to] = content[at : at + chance.randint(1, 80)]


def _join(chance: random.Random, content: bytearray, at: int) -> None:
    content[at : at + 400] = content[at : at + 400].replace(b"\n", b" ")


def _number(chance: random.Random, content: bytearray, at: int) -> None:
    digits = str(chance.choice((0, 10**9, 10**40, -1))).encode()
    content[at : at + 400] = bytes(content[at : at + 400]).replace(chance.choice((b"0", b"1", b"5")), digits, 2)


CHANGES: tuple[Callable[[random.Random, bytearray, int], None], ...] = (
    _insert, _remove, _repeat, _prolong, _move, _join, _number,
)  # fmt: skip


def read(content: bytes, folder: Path) -> str | None:
    """What `coldstep log` would say of a log that it cannot read; None where it makes a trace, which can be loaded."""
    (folder / "ci.log").write_bytes(content)
    try:
        convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    except TraceError as error:
        return str(error)
    coldstep.load(folder / "ci.pftrace")
    return None


def main(count: int, seed: int) -> int:
    failed, told = 0, 0
    slowest, largest = (0.0, 0), (0, 0)
    with tempfile.TemporaryDirectory() as name:
        for number in range(seed, seed + count):
            content = mutated(random.Random(number))
            begin = time.process_time()
            try:
                told += read(content, Path(name)) is not None
            except Exception as error:
                failed += 1
                print(f"{number}: {type(error).__name__}: {error}")
            slowest = max(slowest, (time.process_time() - begin, number))
            size = os.path.getsize(Path(name, "ci.pftrace")) if Path(name, "ci.pftrace").exists() else 0
            largest = max(largest, (size, number))
    print(
        f"{count} logs: {failed} raised, {told} got one line and no trace; "
        f"the slowest took {slowest[0]:.2f} s (number {slowest[1]}); "
        f"the largest trace has {largest[0]:,} bytes (number {largest[1]})"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, [*sys.argv[1:], "1000", "0"][:2])))
