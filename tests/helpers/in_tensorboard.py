"""The real TensorBoard with its profile plugin: what it reads in an export, and its trace viewer in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import FrameLocator, Page

_PATIENCE_MS = 60_000
_SERVES = re.compile(r"http://\S+:\d+/")


@dataclass(slots=True)
class Shown:
    """An event of the trace viewer; times in nanoseconds."""

    line: str
    name: str
    start_ns: int
    wall_ns: int
    args: dict[str, Any]


def events(file: Path) -> list[Shown]:
    """What the plugin makes of an exported file for its trace viewer, line by line in the order shown."""
    from xprof.convert import raw_to_tool_data

    text, _ = raw_to_tool_data.xspace_to_tool_data([str(file)], "trace_viewer", {})
    rows = json.loads(text)["traceEvents"]
    names = {(row["pid"], row["tid"]): row["args"]["name"] for row in rows if row.get("name") == "thread_name"}
    found = [
        (
            (row["pid"], row["tid"]),
            Shown(
                names[row["pid"], row["tid"]],
                row["name"],
                round(row["ts"] * 1_000),
                round(row["dur"] * 1_000),
                row.get("args", {}),
            ),
        )
        for row in rows
        if row.get("ph") == "X"
    ]
    return [shown for _, shown in sorted(found, key=lambda pair: (pair[0], pair[1].start_ns))]


@contextmanager
def serving(logdir: Path) -> Iterator[str]:
    """The address of a TensorBoard on `logdir`, until the block ends."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", "0", "--load_fast", "false"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        said = []
        for line in server.stderr:
            said.append(line)
            if found := _SERVES.search(line):
                yield found[0]
                return
        raise AssertionError("".join(said))
    finally:
        server.kill()
        server.wait()


def trace_viewer(page: Page, address: str) -> FrameLocator:
    """Open the plugin's trace viewer on the one run there is, as a user does."""
    page.goto(f"{address}#profile")
    plugin = page.frame_locator("iframe")
    plugin.locator("mat-select").filter(has_text="Overview Page").click(timeout=_PATIENCE_MS)
    plugin.locator("mat-option").filter(has_text="Trace Viewer").click()
    viewer = plugin.frame_locator("iframe")
    viewer.get_by_text("Steps", exact=True).wait_for(timeout=_PATIENCE_MS)
    return viewer
