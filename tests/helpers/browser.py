"""A real browser, headless, to look at what people look at: Debian's or the system's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
MISSING = "needs a browser: apt-get install chromium"
# without a sandbox, for CI runs as root; and it is to ask nobody anything
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser, until the block ends."""
    assert CHROMIUM is not None, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*_QUIET, "--no-first-run"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Seen:
    """A page, with what it said on its console, and what it asked for beyond itself."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Fail if the page complained of anything, or asked anybody for anything."""
        assert self.complaints == []
        assert self.requests == []


@contextmanager
def opened(browser: Browser, path: Path, *, width: int = 1200, dark: bool = False) -> Iterator[Seen]:
    """The page of the file at `path`."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
    seen = Seen(page)

    def said(message: ConsoleMessage) -> None:
        seen.complaints.append(f"{message.type}: {message.text}")

    def asked(request: Request) -> None:
        if request.url.partition("#")[0] != path.as_uri():
            seen.requests.append(request.url)

    page.on("console", said)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", asked)
    try:
        page.goto(path.as_uri())
        yield seen
    finally:
        page.close()
