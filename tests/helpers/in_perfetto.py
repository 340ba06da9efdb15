"""Perfetto's own UI, as `coldstep open --offline` serves it, in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

_PATIENCE_MS = 120_000


@contextmanager
def opened(browser: Browser, trace: Path) -> Iterator[Page]:
    """What `coldstep open` shows of the trace, once the UI has nothing more to do."""
    command = [sys.executable, "-m", "coldstep", "open", str(trace), "--offline", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    try:
        page.goto(server.stdout.readline().strip())
        page.wait_for_function("window.waitForPerfettoIdle", timeout=_PATIENCE_MS)
        page.get_by_text("Step phases").first.wait_for(timeout=_PATIENCE_MS)
        page.evaluate("window.waitForPerfettoIdle()")
        yield page
    finally:
        page.close()
        server.kill()
        server.wait()
