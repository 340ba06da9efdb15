"""Whether autotuning pays: N, as the report gives it, held against 2 N calls of each program.

Each program is one Linear on one thread, in a process of its own: its max-autotune is traced, and then as many calls
are run of what was tuned and of what Inductor makes without tuning, in turn, and their processor time compared.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coldstep
from coldstep_viewers.report.terminal import render

# inputs, outputs, batch
PROGRAMS = (
    (2048, 2048, 4), (1536, 2048, 4), (1024, 4096, 4), (2048, 2048, 2), (192, 256, 64), (512, 512, 32), (768, 768, 128),
    (2048, 1024, 8),
)  # fmt: skip
_MOST, _WHERE_IT_DOES_NOT_PAY, _BLOCK = 40_000, 4_000, 100


def main() -> None:
    """Run all in turn, and print the table."""
    for program in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, folder, *map(str, program)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        # PyTorch: "AUTOTUNE benchmarking takes 0.2441 seconds and 3.6204 seconds precompiling for 2 choices"
        printed = re.search(r"takes ([\d.]+) seconds and ([\d.]+) seconds precompiling", done.stderr)
        found["printed_s"] = sum(map(float, printed.groups())) if printed else None
        print(json.dumps(found), flush=True)


def run(folder: Path, inputs: int, outputs: int, batch: int) -> dict[str, Any]:
    """What coldstep has of one program's tuning, and what its calls then take."""
    import torch
    import torch._inductor.config as config

    config.max_autotune_gemm_backends = "ATEN,CPP"
    config.freezing = True
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(inputs, outputs).eval(), torch.randn(batch, inputs)
    with config.patch(fx_graph_cache=False), torch.no_grad():
        tuned = torch.compile(lambda x: layer(x), mode="max-autotune")
        with coldstep.trace(folder / "run.pftrace"):
            for _ in range(3):
                with coldstep.step():
                    tuned(x)
        trace = coldstep.load(folder / "run.pftrace")
        [row] = trace.autotuning
        other = torch.nn.Linear(inputs, outputs).eval()
        untuned = torch.compile(lambda x: other(x))  # of a code of its own: each then has one variant to look up
        untuned(x)
        calls = min(2 * row.pays_after_calls, _MOST) if row.pays_after_calls else _WHERE_IT_DOES_NOT_PAY
        spent = in_turn([lambda: untuned(x), lambda: tuned(x)], calls)
    whole = row.compile_ns + row.timing_ns
    ledger = sum(interval.phases.get("autotune", 0) for interval in trace.intervals)
    gain = (spent[0] - spent[1]) / calls
    [words] = [line.strip() for line in render(trace, 300).splitlines() if " won of " in line]
    return {
        "program": [inputs, outputs, batch], "tuning_s": whole / 1e9, "ledger_s": ledger / 1e9,
        "gain_us": row.gain_ns and row.gain_ns / 1e3, "n": row.pays_after_calls, "calls": calls,
        "held_up": (row.held_up_ns or 0) / row.timing_ns, "gain_measured_us": gain / 1e3,
        "paid_after": round(whole / gain) if gain > 0 else None, "paid": spent[0] - spent[1] >= whole, "report": words,
    }  # fmt: skip


def in_turn(each: list[Callable[[], object]], calls: int) -> list[int]:
    """The processor time, in nanoseconds, of so many calls of each."""
    spent = [0] * len(each)
    for _ in range(-(-calls // _BLOCK)):
        for at, call in enumerate(each):
            before = time.process_time_ns()
            for _ in range(min(_BLOCK, calls)):
                call()
            spent[at] += time.process_time_ns() - before
    return spent


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(run(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
    else:
        main()
