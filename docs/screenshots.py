"""`make screenshots`: the pictures in this folder, taken of the demo's trace in a real browser.

.venv/bin/python docs/screenshots.py [demo.pftrace]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("tests", "tests/helpers")]

import browser as tools  # noqa: E402
import in_perfetto  # noqa: E402
import in_tensorboard  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402

HERE = Path(__file__).parent
_TALL = {"light": 2950, "dark": 1500, "narrow": 1500}  # so much of the page, from its top
_COLDSTEP = [sys.executable, "-m", "coldstep"]


def page(browser: Browser, trace: Path, folder: Path) -> None:
    """The HTML page: light, dark, and on a telephone, with its most expensive finding open."""
    file = folder / "page.html"
    subprocess.run([*_COLDSTEP, "report", trace, "--html", file], check=True, stdout=subprocess.DEVNULL)
    for name, width, dark in (("light", 1200, False), ("dark", 1200, True), ("narrow", 400, False)):
        with tools.opened(browser, file, width=width, dark=dark) as seen:
            seen.page.locator("details.finding > summary").first.click()
            seen.page.evaluate("scrollTo(0, 0)")
            clip = {"x": 0, "y": 0, "width": width, "height": _TALL[name]}
            seen.page.screenshot(path=HERE / f"page-{name}.png", full_page=True, clip=clip)


def tensorboard(browser: Browser, trace: Path, folder: Path) -> None:
    """XProf's trace viewer."""
    subprocess.run([*_COLDSTEP, "export", trace, "--to", "tensorboard", folder], check=True, stdout=subprocess.DEVNULL)
    with in_tensorboard.serving(folder) as address:
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        in_tensorboard.trace_viewer(tab, address)
        tab.wait_for_timeout(3_000)  # it draws when it likes
        tab.screenshot(path=HERE / "tensorboard.png")
        tab.close()


def perfetto(browser: Browser, trace: Path) -> None:
    """Perfetto's UI, as `coldstep open` opens it."""
    with in_perfetto.opened(browser, trace) as tab:
        tab.screenshot(path=HERE / "timeline.png")


def main() -> None:
    trace = Path(sys.argv[1] if len(sys.argv) > 1 else "demo.pftrace")
    if not trace.exists():
        demo = [sys.executable, str(HERE.parent / "examples" / "demo.py")]
        subprocess.run([*map(os.path.relpath, demo)], check=True)  # these words are in the pictures
    with tools.launched() as browser, tempfile.TemporaryDirectory() as name:
        page(browser, trace, Path(name))
        tensorboard(browser, trace, Path(name) / "logs")
        perfetto(browser, trace)


if __name__ == "__main__":
    main()
