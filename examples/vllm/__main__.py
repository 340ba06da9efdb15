"""`make vllm`: a tiny model in vLLM, offline and served, with and without coldstep; the traces stay in `vllm-run/`.

Exit 1 where a traced run answers, logs or ends otherwise than one without, or counts other compiles than vLLM does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

import coldstep

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PORT = 8765
_LIMIT_S = 600
_CHANGES = re.compile(r"/\S+|\d[\d.:-]*")
_ANSWERS = '{"tokens"'
_SKIPPED = re.compile(rf"%\||it/s\]|{_ANSWERS}|Route: | - leaked |resource_tracker")
"""Bars of progress; what is compared by itself; sets in no order; what of a killed process's is left depends on when."""
_COMPILING = "Warming up model for the compilation"
_REQUESTS: tuple[dict[str, Any], ...] = (
    {"prompt": "w1 w2 w3"},
    {"prompt": "w7 w8", "logprobs": 2},
    {"prompt": ["w1 w2 w3", "w5 w6"], "logprobs": 2},
)


@dataclass(slots=True)
class Run:
    """What one start gave."""

    name: str
    answers: object = None
    seconds: float = 0.0
    """Until the engine could answer."""
    cpu: float = 0.0
    """Of all its processes, until then."""
    ending: float = 0.0
    """From SIGTERM to the end."""
    exit_code: int | None = None
    log: list[str] = field(default_factory=list)
    counted: list[dict[str, int]] = field(default_factory=list)


def environment(folder: Path, cache: str) -> dict[str, str]:
    """Nothing is downloaded, and vLLM's and PyTorch's caches are this example's own."""
    return os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}:{folder / 'names'}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CACHE_ROOT": str(folder / f"cache-{cache}"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"cache-{cache}" / "inductor"),
    }


def name_vllm(folder: Path) -> None:
    """`vllm serve` asks for the version of a package `vllm`, which vllm-cpu does not install: a name beside it."""
    named = folder / "names" / "vllm-0+cpu.dist-info"
    named.mkdir(parents=True, exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n")


def tell(text: str) -> None:
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


def logged(path: Path) -> list[str]:
    """The lines that a run wrote, without what differs from run to run: numbers, folders, bars of progress."""
    lines = path.read_text(errors="replace").splitlines()
    return [_CHANGES.sub("#", line) for line in lines if line.strip() and not _SKIPPED.search(line)]


def offline(folder: Path, name: str, cache: str, *, traced: bool) -> Run:
    """`LLM(…)` in a script."""
    run, log = Run(name), folder / f"{name}.log"
    program = ["coldstep", "run", "-o", f"{name}.pftrace"] if traced else ["python"]
    with log.open("w") as output:
        done = subprocess.run(
            [*program, str(HERE / "offline.py"), "model"],
            cwd=folder, env=environment(folder, cache), stdout=output, stderr=output, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    run.exit_code, run.log = done.returncode, logged(log)
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith(_ANSWERS):
            said = json.loads(line)
            run.answers, run.seconds, run.counted = said["tokens"], said["started"], said["counted"]
    tell(f"{name}: {run.seconds:.1f} s until the engine was there, exit {run.exit_code}")
    return run


def serve(folder: Path, name: str, cache: str, *, traced: bool, kill_compiling: bool = False) -> Run:
    """`vllm serve`, requests, SIGTERM; or SIGKILL of the process that compiles, in the middle of it."""
    run, log = Run(name), folder / f"{name}.log"
    command = ["vllm", "serve", "model", "--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "8",
               "--port", str(PORT), "--worker-extension-cls", "marks.Marks"]  # fmt: skip
    command = ["coldstep", "run", "-o", f"{name}.pftrace", *command] if traced else command
    with log.open("w") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder, cache), stdout=output, stderr=output, start_new_session=True
        )
        try:
            while process.poll() is None and not answers("/health") and time.monotonic() - began < _LIMIT_S:
                if kill_compiling and _COMPILING in log.read_text(errors="replace"):
                    time.sleep(8)
                    worker = next(each for each in below(process.pid) if "Worker" in " ".join(each.cmdline()))
                    worker.kill()
                    kill_compiling = False
                time.sleep(0.2)
            run.seconds = time.monotonic() - began
            run.cpu = sum(sum(each.cpu_times()[:2]) for each in below(process.pid))
            if process.poll() is None:
                ask("/collective_rpc", {"method": "coldstep_ready"})
                wanted = {"model": "model", "temperature": 0, "max_tokens": 8, "ignore_eos": True}
                run.answers = [
                    [each["text"] for each in ask("/v1/completions", wanted | request)["choices"]]
                    for request in _REQUESTS
                ]
                run.counted = ask("/collective_rpc", {"method": "graphs_counted"})["results"]
                time.sleep(1)  # what a process wrote is whole up to a quarter of a second before it is killed
                ended = time.monotonic()
                process.send_signal(signal.SIGTERM)
                process.wait(60)
                run.ending = time.monotonic() - ended
            run.exit_code = process.wait(60)
        finally:
            for each in below(process.pid):
                each.kill()
            process.wait()
    run.log = logged(log)
    tell(f"{name}: /health after {run.seconds:.1f} s, {run.cpu:.1f} s of CPU; SIGTERM took {run.ending:.2f} s; "
         f"exit {run.exit_code}")  # fmt: skip
    return run


def below(pid: int) -> list[psutil.Process]:
    """A process and all below it that live."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def answers(path: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def ask(path: str, body: dict[str, Any]) -> Any:
    """A request, and what came back."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read()
    return json.loads(text) if text else None


def differences(folder: Path, plain: Run, traced: Run) -> Iterator[str]:
    """In what the traced run differs from the other, and its trace from what the worker counted."""
    if plain.answers is None or plain.answers != traced.answers:
        yield f"answers {plain.answers} without coldstep, {traced.answers} with it"
    if plain.exit_code != traced.exit_code:
        yield f"exit {plain.exit_code} without coldstep, {traced.exit_code} with it"
    own = [line for line in traced.log if line.startswith("coldstep: ")]
    yield from (f"only without coldstep: {line[:200]}" for line in sorted(set(plain.log) - set(traced.log)))
    yield from (f"only with coldstep: {line[:200]}" for line in sorted(set(traced.log) - {*plain.log, *own}))
    trace = coldstep.load(folder / f"{traced.name}.pftrace")
    for each in traced.counted:
        worker = next((row.index for row in trace.processes if row.pid == each["pid"]), None)
        rows = [row for row in trace.compiles if row.process == worker and row.origin != "eager"]
        compiled = sum(row.segments[0].part != "load" for row in rows)  # what is loaded whole is no graph of Dynamo's
        if compiled != each["graphs"]:
            yield f"{each['graphs']} graphs in Dynamo's counters, {compiled} compiles in the trace"
    yield from (
        f"collector {row.name} is {row.state}" for row in trace.collectors if row.state not in ("attached", "absent")
    )


def main() -> int:
    """Run all of it; 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m examples.vllm", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("vllm-run"))
    parser.add_argument("--pairs", type=int, default=1, help="how often the server starts warm, with and without")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, str(HERE / "model.py"), "model"], cwd=folder, check=True)
    name_vllm(folder)
    wrong = []
    for temperature in ("cold", "warm"):
        pair = [offline(folder, f"{kind}-offline-{temperature}", f"{kind}-offline", traced=kind == "traced")
                for kind in ("plain", "traced")]  # fmt: skip
        wrong += [f"{pair[1].name}: {text}" for text in differences(folder, *pair)]
    for temperature in ("cold", *(f"warm{n}" for n in range(1, options.pairs + 1))):
        pair = [serve(folder, f"{kind}-serve-{temperature}", f"{kind}-serve", traced=kind == "traced")
                for kind in ("plain", "traced")]  # fmt: skip
        wrong += [f"{pair[1].name}: {text}" for text in differences(folder, *pair)]
    serve(folder, "traced-killed", "killed", traced=True, kill_compiling=True)
    for text in wrong:
        tell(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
