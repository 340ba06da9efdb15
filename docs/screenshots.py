"""`make screenshots`: the pictures in this folder and of the how-tos, taken of real runs in a real browser.

.venv/bin/python docs/screenshots.py [demo.pftrace [torchrun.pftrace]]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("tests", "tests/helpers")]

import browser as tools  # noqa: E402
import how_to_pictures  # noqa: E402
import in_perfetto  # noqa: E402
import in_tensorboard  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
_TALL = {"light": 2950, "dark": 1500, "narrow": 1500}  # so much of the page, from its top
_COLDSTEP = [sys.executable, "-m", "coldstep"]


def page(browser: Browser, trace: Path, folder: Path) -> Iterator[Path]:
    """The HTML page: light, dark, and on a telephone, with its most expensive finding open."""
    file = folder / "page.html"
    subprocess.run([*_COLDSTEP, "report", trace, "--html", file], check=True, stdout=subprocess.DEVNULL)
    for name, width, dark in (("light", 1200, False), ("dark", 1200, True), ("narrow", 400, False)):
        with tools.opened(browser, file, width=width, dark=dark) as seen:
            seen.page.locator("details.finding > summary").first.click()
            seen.page.evaluate("scrollTo(0, 0)")
            clip = {"x": 0, "y": 0, "width": width, "height": _TALL[name]}
            seen.page.screenshot(path=HERE / f"page-{name}.png", full_page=True, clip=clip)
        yield HERE / f"page-{name}.png"


def tensorboard(browser: Browser, trace: Path, folder: Path) -> Path:
    """XProf's trace viewer."""
    subprocess.run([*_COLDSTEP, "export", trace, "--to", "tensorboard", folder], check=True, stdout=subprocess.DEVNULL)
    with in_tensorboard.serving(folder) as address:
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        in_tensorboard.trace_viewer(tab, address)
        tab.wait_for_timeout(3_000)  # it draws when it likes
        tab.screenshot(path=HERE / "tensorboard.png")
        tab.close()
    return HERE / "tensorboard.png"


def perfetto(browser: Browser, trace: Path, file: Path) -> Path:
    """Perfetto's UI, as `coldstep open` opens it."""
    with in_perfetto.opened(browser, trace) as tab:
        tab.screenshot(path=file)
    return file


def job(folder: Path) -> None:
    """Two ranks of a small GPT, which start with no cache: torchrun.pftrace in the folder."""
    for name in ("gpt_ranks.py", "gpt_torch.py"):
        shutil.copy(EXAMPLES / name, folder)
    command = [*_COLDSTEP, "run", "torchrun", "--nproc-per-node", "2", "gpt_ranks.py"]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "PATH": how_to_pictures.PATH}
    subprocess.run(command, check=True, cwd=folder, env=os.environ | cache)


def smaller(picture: Path) -> None:
    """Keep the 256 colours that a picture of such pages needs: a third of the bytes."""
    with Image.open(picture) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]]
    trace = given[0] if given else Path("demo.pftrace")
    if not trace.exists():
        subprocess.run([sys.executable, os.path.relpath(EXAMPLES / "demo.py")], check=True)  # it is in the pictures
    with tools.launched() as browser, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given[1:]:
            for file in given[1].parent.glob(f"{given[1].stem}*.pftrace"):
                shutil.copy(file, folder / file.name.replace(given[1].stem, "torchrun"))
        else:
            job(folder)
        pictures = [
            perfetto(browser, folder / "torchrun.pftrace", HERE / "timeline.png"),
            perfetto(browser, trace, HERE / "how-to/perfetto.png"),
            *page(browser, trace, folder),
            tensorboard(browser, trace, folder / "profile"),
            *how_to_pictures.take(browser, folder),
        ]
    for picture in pictures:
        smaller(picture)


if __name__ == "__main__":
    main()
