"""The site builds without a warning, each link of it leads somewhere, and no page asks another server for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_LINES = 4_500
# <script src="https://…">, <link rel="stylesheet" href="https://…">, <img src="https://…">, url(https://…)
ASKS = re.compile(r"<(?:script|img|iframe|link(?! rel=.canonical))[^>]*(?:src|href)=.?https?:[^>]*>|url\(.?https?:")


@pytest.fixture(scope="module")
def build() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        import build

        return build


def mkdocs(config: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=quiet, timeout=300)


@pytest.fixture(scope="module")
def site(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = build.assemble(tmp_path_factory.mktemp("site"))
    done = mkdocs(config)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return Path(config).parent / "site"


def test_every_page_is_built_and_can_be_searched(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    made = {Path("reference") / f"{name}.html" for name in ("commands", "python", "causes", "words")}
    missing = [page for page in pages | made | {Path("example/report.html")} if not (site / page).is_file()]
    assert missing == []
    assert "weak_type" in (site / "search/search_index.json").read_text()
    assert "coldstep explain" in (site / "reference/commands.html").read_text()


def test_no_page_asks_another_server(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 40
    assert {path.name: found for path in files if (found := ASKS.findall(path.read_text()))} == {}
    assert ASKS.search('<script src="https://elsewhere/a.js"></script>')


def test_each_link_that_leads_nowhere_is_named_and_fails_the_build(build: ModuleType, tmp_path: Path) -> None:
    config = build.assemble(tmp_path)
    page = config.parent / "docs/index.md"
    page.write_text(f"{page.read_text()}\n[gone](nowhere.md), [gone](faq.md#nowhere)\n")
    done = mkdocs(config)
    assert done.returncode != 0
    fails = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]  # each of which is enough
    named = [[name in line for name in ("'faq.md#nowhere'", "'nowhere.md'")] for line in sorted(fails)]
    assert named == [[True, False], [False, True]]


def test_what_leads_out_of_the_site_has_an_address_or_is_no_link(build: ModuleType, tmp_path: Path) -> None:
    pages = build.assemble(tmp_path).parent / "docs"
    assert "[tests/serving]" in (DOCS / "how-to/serving.md").read_text()
    assert "`tests/serving`" in (pages / "how-to/serving.md").read_text()
    assert "repo_url" not in (tmp_path / "mkdocs.yml").read_text()


def test_a_model_is_given_every_page(build: ModuleType, tmp_path: Path) -> None:
    pages = build.assemble(tmp_path).parent / "docs"
    listed = re.findall(r"\]\((.*)\)", (pages / "llms.txt").read_text())
    assert sorted(listed) == sorted(str(path.relative_to(pages)) for path in pages.rglob("*.md"))


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_each_how_to_has_a_picture_that_no_other_has(page: Path) -> None:
    def pictures(of: Path) -> set[Path]:
        return {(of.parent / name).resolve() for name in re.findall(r"!\[[^\]]+\]\((\S+\.png)\)", of.read_text())}

    own = pictures(page) - set().union(*(pictures(other) for other in page.parent.glob("*.md") if other != page))
    assert own
    assert all(picture.stat().st_size < 250_000 for picture in own)


def test_the_pages_stay_few() -> None:
    assert sum(len(path.read_text().splitlines()) for path in DOCS.rglob("*.md")) <= MOST_LINES


def test_every_link_between_pages_in_git_leads_somewhere_or_is_built() -> None:
    built = {"reference/commands.md", "reference/python.md", "reference/causes.md", "reference/words.md",
             "example/report.html", "example/train.pftrace"}  # fmt: skip
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if not re.match(r"\w+:", link):
                target = (page.parent / link).resolve()
                known = target.exists() or (target.is_relative_to(DOCS) and str(target.relative_to(DOCS)) in built)
                assert known, f"{page.name}: {link}"
