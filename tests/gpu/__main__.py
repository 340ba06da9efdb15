"""`python3 -m gpu [FOLDER]`, `make gpu`: runs the programs on this machine's GPU, and writes traces and a table.

It needs a framework that sees the GPU, and what coldstep itself needs; no network, no pytest. It exits with 1 where a
trace does not show what it must, and with 2 where nothing can be run.
"""

from __future__ import annotations

import datetime
import importlib
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu.programs import Program

HERE = Path(__file__).parent
NEEDED = ("click", "jinja2", "psutil", "rich")
SEES = {
    "torch": "import torch; assert torch.version.cuda and torch.cuda.is_available(); "
    "print(torch.__version__, torch.cuda.get_device_name())",
    "jax": "import jax; d, *_ = jax.devices('cuda'); print(jax.__version__, d.device_kind)",
}
HEAD = ["program", "first step, ms", "steady step, ms", "compiles", "kernels in the first step, ms", "device peak, MiB"]
NONE = "-"
ALL_S = 570
"""How long all programs together may take."""


def missing() -> list[str]:
    """The packages that coldstep needs and this Python lacks."""
    return [name for name in NEEDED if not _can_import(name)]


def _can_import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def seen_by(framework: str) -> str | None:
    """The framework's version and the GPU's name, as it says them; None where it sees no GPU."""
    done = subprocess.run([sys.executable, "-c", SEES[framework]], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


@dataclass(slots=True)
class Row:
    """A line of the table."""

    cells: list[str]
    failures: list[str] = field(default_factory=list)
    verdict: str = "yes"

    def text(self) -> str:
        """As Markdown."""
        cells = [*self.cells, *[NONE] * (len(HEAD) - len(self.cells)), "; ".join(self.failures) or self.verdict]
        return f"| {' | '.join(cells)} |"


def tried(program: Program, folder: Path, device: str, timeout_s: float) -> Row:
    """Run a program, and hold its trace against what it must show."""
    try:
        ran = program.run(folder, device, timeout_s)
    except RuntimeError as error:
        return Row([program.name], [str(error)])
    first = ran.steps[0] if ran.steps else None
    steady = next((cost.steady_step_ns for cost in ran.trace.cost), None)
    peak = ran.trace.memory.device_peak_bytes
    cells = [
        program.name,
        _ms(first.wall_ns if first is not None else None),
        _ms(steady),
        str(len(ran.trace.compiles)),
        _ms(first.inside.get("device.kernel") if first is not None else None),
        f"{peak / 2**20:.0f}" if peak else NONE,
    ]
    return Row(cells, [text for expect in program.expect for text in expect(ran)])


def marks(out: Path, until: float) -> str:
    """What a trace costs a steady step on the GPU: watched and not in turns, a process each, the best of three."""
    from gpu.programs import Program

    def step_us(watched: str) -> float:
        program = Program("marks", "marks.py", "torch", [], {"WATCHED": watched})
        return float(program.done(out / "marks", "cuda", max(1.0, until - time.monotonic())).stdout)

    print("marks …", file=sys.stderr, flush=True)
    try:
        rounds = [(step_us(""), step_us("1"), step_us("")) for _ in range(3)]
    except RuntimeError as error:
        return f"What a trace costs a steady step was not measured: {error}."
    off, on, again = (min(each) for each in zip(*rounds, strict=True))
    return (
        f"A steady step takes {off:.0f} µs, and {on:.0f} µs within a trace: {on / off:.3f} of it. "
        f"Without a trace again, it takes {again / off:.3f}."
    )


def _ms(ns: int | None) -> str:
    return f"{ns / 1e6:,.1f}" if ns is not None else NONE


def table(rows: list[Row], seen: dict[str, str]) -> str:
    """The page that is written: what it ran on, and a row per program."""
    saw = "; ".join(f"{name} {text}" for name, text in seen.items())
    head = [*HEAD, "as expected"]
    lines = [f"Python {platform.python_version()}, {datetime.date.today()}. {saw}", ""]
    lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(each.text() for each in rows)]
    return "\n".join(lines) + "\n"


def main(out: Path) -> int:
    """Run all programs whose framework sees the GPU."""
    if lacking := missing():
        wheels = " ".join(lacking)
        print(
            f"make gpu: {sys.executable} lacks {wheels}: carry their wheels here (pip download {wheels})",
            file=sys.stderr,
        )
        return 2
    seen = {name: text for name in SEES if (text := seen_by(name)) is not None}
    if not seen:
        print("make gpu: neither PyTorch nor JAX sees a GPU of NVIDIA's here, so nothing was run", file=sys.stderr)
        return 2
    from gpu.programs import PROGRAMS

    rows: list[Row] = []
    until = time.monotonic() + ALL_S
    for program in PROGRAMS:
        if program.framework in seen:
            print(f"{program.name} …", file=sys.stderr, flush=True)
            folder = out / program.name.replace(",", "").replace(" ", "-")
            rows.append(tried(program, folder, "cuda", max(1.0, until - time.monotonic())))
            print(rows[-1].text(), file=sys.stderr, flush=True)  # what is known if the rest is cut off
        else:
            rows.append(Row([program.name], verdict=f"not run: {program.framework} sees no GPU"))
    page = table(rows, seen)
    if "torch" in seen:
        page += f"\n{marks(out, until)}\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(page)
    print(page, end="")
    return 1 if any(each.failures for each in rows) else 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1] / name) for name in ("tracer", "collectors", "viewers")]
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "gpu-run")))
