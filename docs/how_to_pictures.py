"""The picture of each how-to: what its commands print of real runs, a notebook, a forecast's page, TensorBoard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import in_tensorboard
import nbclient
import nbformat
from playwright.sync_api import Browser

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
_FENCED = re.compile(r"```python\n(import jax\n.*?)```", re.DOTALL)
# ```python … ```, the first of getting-started.md
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
_TERMINAL = """<body style="margin:0"><pre style="margin:0;padding:16px;display:inline-block;background:#1f2530;
color:#e3e7ee;font:15px/1.35 'DejaVu Sans Mono',monospace">"""
_NOTEBOOK = """<body style="margin:0;padding:16px;width:900px;font:15px sans-serif">"""
_CELL = """<div style="color:#456;margin:8px 0 2px">In [{number}]:</div><pre style="margin:0 0 8px;padding:10px;
background:#f2f4f7;border:1px solid #d5dae1;font:15px/1.35 'DejaVu Sans Mono',monospace">{source}</pre>"""
_STREAM = """<pre style="margin:0 10px;white-space:pre-wrap;font:14px/1.3 'DejaVu Sans Mono',monospace">"""
_FORECAST = """import jax
import numpy as np


@jax.jit
def classify(tokens):
    return (tokens * 2).sum(1)


def requests():
    return [(np.zeros((4, length), np.int32),) for length in range(16, 80, 4)]
"""
_KERAS = """import keras
import numpy as np

import coldstep

{watched}

model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
with coldstep.trace("keras.pftrace") as run:
    callbacks = [Watched(), keras.callbacks.TensorBoard("logs")]
    for epoch, rows in enumerate((640, 640, 640, 640, 600, 600, 600, 600)):
        x, y = np.ones((rows, 32)), np.ones(rows)
        model.fit(x, y, batch_size=32, verbose=0, initial_epoch=epoch, epochs=epoch + 1, callbacks=callbacks)
"""
_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Shot:
    """Of a how-to, commands as a terminal shows them; of the last one's lines `most`, from the one that begins so."""

    name: str
    commands: tuple[str, ...]
    most: int = 99
    begins: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


SHOTS = (
    Shot("unchanged-script", ("coldstep run train.py", "coldstep report train.pftrace"), most=18),
    Shot("ci", ("coldstep check train.pftrace --max-recompiles 0 --settle-by 1",)),
    Shot("agents", ("coldstep report train.pftrace --format json | jq '.answers[] | {cost_ns, text, location}'",)),
    Shot("slow-start", ("coldstep report train.pftrace",), 14, "Where the time went"),
    Shot("logs", ("JAX_EXPLAIN_CACHE_MISSES=1 JAX_LOG_COMPILES=1 python train.py 2> train.log",
                  "coldstep log train.log"), most=26),
    Shot("caches", ("coldstep run -o monday.pftrace train.py 2> monday.log",
                    "XLA_FLAGS=--xla_cpu_enable_fast_math=true coldstep run -o tuesday.pftrace train.py 2> tuesday.log",
                    "coldstep cache monday.pftrace tuesday.pftrace"),
         variables={"JAX_COMPILATION_CACHE_DIR": "cache", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}),
    Shot("serving", ("python warm_server.py", "coldstep report warm_server.pftrace"), 12, "After coldstep.ready()"),
    Shot("jobs", ("coldstep report torchrun.pftrace",), 10, "Ranks"),
)  # fmt: skip


def take(browser: Browser, folder: Path) -> Iterator[Path]:
    """Take all, of runs in `folder`, where a job's torchrun.pftrace lies; their files."""
    [program] = _FENCED.findall((DOCS / "getting-started.md").read_text())[:1]
    (folder / "train.py").write_text(program)
    (folder / "warm_server.py").write_text((EXAMPLES / "warm_server.py").read_text())
    for shot in SHOTS:
        yield _seen(browser, shot.name, f"{_TERMINAL}{escape(chr(10).join(_lines(shot, folder)))}</pre>", "pre")
    yield _seen(browser, "notebooks", _notebook(folder), "body")
    yield _forecast(browser, folder)
    yield _scalars(browser, folder)


def _run(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    env = os.environ | {"PATH": PATH, "COLUMNS": str(_COLUMNS), "PYTHONWARNINGS": "ignore"} | variables
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, shell=True, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode()


def _lines(shot: Shot, folder: Path) -> Iterator[str]:
    for command in shot.commands:
        printed = _run(command, folder, shot.variables).splitlines()
        yield f"$ {command}"
        if command == shot.commands[-1]:
            first = next(number for number, line in enumerate(printed) if line.startswith(shot.begins))
            rest = printed[first : first + shot.most]
            printed = [*(["…"] if first else []), *rest, *(["…"] if len(printed) > first + shot.most else [])]
        for line in printed:
            yield from re.findall(rf".{{1,{_COLUMNS}}}", line) or [""]  # as a terminal breaks it


def _seen(browser: Browser, name: str, html: str, element: str, width: int = 1300, most: int = 5_000) -> Path:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.set_content(html)
    file = DOCS / "how-to" / f"{name}.png"
    box = tab.locator(element).first.bounding_box() or {}
    clip = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], most)}
    tab.screenshot(path=file, full_page=True, clip=clip)
    tab.close()
    return file


def _notebook(folder: Path) -> str:
    """A notebook's cells, and what the kernel gave to show below them."""
    program = (folder / "train.py").read_text()
    setup, _, loop = program.partition("for start in")
    cells = ["%load_ext coldstep", setup.strip(), f"%%coldstep run.pftrace\nfor start in{loop}".strip()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    shown = [_NOTEBOOK]
    for cell in notebook.cells[::2]:  # between them stands the program's beginning
        shown.append(_CELL.format(number=cell.execution_count, source=escape(cell.source)))
        for output in cell.outputs:
            shown.append(output.get("data", {}).get("text/html") or f"{_STREAM}{escape(output.get('text', ''))}</pre>")
    return "".join(shown)


def _forecast(browser: Browser, folder: Path) -> Path:
    (folder / "serve.py").write_text(_FORECAST)
    _run("coldstep forecast serve.py:classify serve.py:requests -o forecast.html", folder, {})
    return _seen(browser, "forecasts", (folder / "forecast.html").read_text(), "body", 900, 1_260)


def _scalars(browser: Browser, folder: Path) -> Path:
    """The counters that the callback of trainers.md gives to TensorBoard, in its own page."""
    [watched] = re.findall(r"```python\n(class Watched\(keras.*?)```", (DOCS / "how-to/trainers.md").read_text(), re.S)
    (folder / "keras_train.py").write_text(_KERAS.format(watched=watched))
    _run("python keras_train.py", folder, {})
    file = DOCS / "how-to/trainers.png"
    with in_tensorboard.serving(folder / "logs") as address:
        tab = browser.new_page(viewport={"width": 1300, "height": 960})
        tab.goto(f"{address}?darkMode=false&smoothing=0&tagFilter=coldstep/(re)?compile#timeseries")
        tab.get_by_text("epoch_coldstep/compiles").first.wait_for(timeout=60_000)
        tab.get_by_role("button", name="Settings").last.click()  # which closes them
        tab.wait_for_timeout(3_000)  # it draws when it likes
        tab.screenshot(path=file)
        tab.close()
    return file
