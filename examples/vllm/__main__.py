"""`make vllm`: a tiny model in vLLM, offline and served, with and without coldstep; the traces stay in `vllm-run/`.

Exit 1 where a traced run answers, logs or ends otherwise than one without, or counts other compiles than vLLM does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
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
_SKIPPED = re.compile(r"%\||it/s\]|Route: ")  # bars of progress, and sets in no order
_COMPILING = "Warming up model for the compilation"
_REQUESTS: tuple[dict[str, Any], ...] = (
    {"prompt": "w1 w2 w3"},
    {"prompt": "w7 w8", "logprobs": 2},
    {"prompt": ["w1 w2 w3", "w5 w6"], "logprobs": 2},
)


@dataclass(slots=True)
class Run:
    """What one start gave: what it answered, the seconds until it could, the CPU of all its processes until then."""

    name: str
    answers: object = None
    seconds: float = 0.0
    cpu: float = 0.0
    ending: float = 0.0
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


def logged(path: Path) -> list[str]:
    """The lines that a run wrote until it was ended, without what differs from run to run: how processes are killed,
    too, is such."""
    lines = path.read_text(errors="replace").partition(_ANSWERS)[0].splitlines()
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
    print(f"{name}: {run.seconds:.1f} s until the engine was there; exit {run.exit_code}")
    return run


def serve(folder: Path, name: str, cache: str, *, traced: bool, kill_compiling: bool = False) -> Run:
    """`vllm serve`, requests, SIGTERM; or SIGKILL of the process that compiles, in the middle of it."""
    run, log = Run(name), folder / f"{name}.log"
    options = f"--dtype float32 --max-model-len 256 --max-num-seqs 8 --port {PORT} --worker-extension-cls marks.Marks"
    command = f"{f'coldstep run -o {name}.pftrace ' if traced else ''}vllm serve model {options}".split()
    with log.open("w") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder, cache), stdout=output, stderr=output, start_new_session=True
        )
        try:
            while process.poll() is None and not answers() and time.monotonic() - began < _LIMIT_S:
                time.sleep(0.2)
                if kill_compiling and _COMPILING in log.read_text(errors="replace"):
                    time.sleep(8)
                    next(each for each in below(process.pid) if "Worker" in " ".join(each.cmdline())).kill()
                    kill_compiling = False
            run.seconds = time.monotonic() - began
            run.cpu = sum(sum(each.cpu_times()[:4]) for each in below(process.pid))
            if process.poll() is None:
                ask("/collective_rpc", {"method": "coldstep_ready"})
                wanted = {"model": "model", "temperature": 0, "max_tokens": 8, "ignore_eos": True}
                answered = (ask("/v1/completions", wanted | request)["choices"] for request in _REQUESTS)
                run.answers = [[each["text"] for each in choices] for choices in answered]
                run.counted = ask("/collective_rpc", {"method": "graphs_counted"})["results"]
                run.log = logged(log)
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
    print(f"{name}: {run.seconds:.1f} s, {run.cpu:.1f} s of CPU; SIGTERM {run.ending:.2f} s; exit {run.exit_code}")
    return run


def below(pid: int) -> list[psutil.Process]:
    """A process and all below it that live."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def answers() -> bool:
    """Whether the server does."""
    try:
        return ask("/health") is None
    except OSError:
        return False


def ask(path: str, body: dict[str, Any] | None = None) -> Any:
    """A request, and what came back."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read()
    return json.loads(text) if text else None


def differences(folder: Path, plain: Run, traced: Run) -> Iterator[str]:
    """In what the traced run differs from the other, and its trace from what the worker counted."""
    if plain.answers is None or plain.answers != traced.answers:
        yield f"answers {plain.answers} without coldstep, {traced.answers} with it"
    if plain.exit_code != traced.exit_code:
        yield f"exit {plain.exit_code} without coldstep, {traced.exit_code} with it"
    yield from (f"only without coldstep: {line[:200]}" for line in sorted(set(plain.log) - set(traced.log)))
    yield from (f"only with coldstep: {line[:200]}" for line in sorted(set(traced.log) - set(plain.log)))
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
    """Run all of it, the warm server as often as is asked for; 1 where anything differs."""
    folder, warm = Path("vllm-run").absolute(), int(sys.argv[1]) if sys.argv[1:] else 1
    folder.mkdir(exist_ok=True)
    for cache in folder.glob("cache-*"):  # of an earlier run: its next start would be no cold one
        shutil.rmtree(cache)
    subprocess.run([sys.executable, str(HERE / "model.py"), "model"], cwd=folder, check=True)
    name_vllm(folder)
    starts = [("offline", offline, each) for each in ("cold", "warm")]
    starts += [("serve", serve, each) for each in ("cold", *(f"warm{n}" for n in range(1, warm + 1)))]
    wrong = []
    for how, start, cache in starts:
        plain, traced = (
            start(folder, f"{kind}-{how}-{cache}", f"{kind}-{how}", traced=kind == "traced")
            for kind in ("plain", "traced")
        )
        wrong += [f"{traced.name}: {text}" for text in differences(folder, plain, traced)]
    serve(folder, "traced-killed", "killed", traced=True, kill_compiling=True)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
