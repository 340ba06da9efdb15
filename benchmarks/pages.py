"""Pages of docs that several commands write: each the part below its own heading, and when and where it was made."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
_MOST_CELL_CHARS = 400
_FOLDED = re.compile(r"<details><summary>(.*?)</summary>\n(.*?)\n</details>\n*", re.DOTALL)
# <details><summary>gemm</summary>
COSTS = HERE.parent / "docs" / "evidence" / "costs.md"
"""What coldstep costs: the output of `make bench`."""


def made() -> str:
    """Of which commit, when, and on what machine."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=HERE, capture_output=True, text=True).stdout.strip()
    return f"at {commit}, {datetime.date.today()}, {os.cpu_count()} cores at a load of {os.getloadavg()[2]:.0f}"


def show(lines: Iterable[str], keep: str | None) -> None:
    """Print them; where they are to be kept, they go below that heading of what coldstep costs, too."""
    text = "\n".join(line.rstrip() for line in lines)
    print(text)
    if keep is not None:
        write(COSTS, keep, f"Measured {made()}.\n\n```text\n{text.strip()}\n```")


def write(page: Path, heading: str, text: str) -> None:
    """Put `text` below `## heading`, in the place of what is there, or at the end."""
    old = page.read_text() if page.exists() else ""
    part = f"## {heading}\n\n{text.strip()}\n"
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
    if found is None:
        page.write_text(f"{old.rstrip()}\n\n{part}")
    else:
        after = old[found.end() :]
        page.write_text(f"{old[: found.start()]}{part}{f'{chr(10)}{after}' if after else ''}")


def set_apart(page: Path, part: str, text: str) -> str:
    """The text without what it has folded: that goes into the JSON file beside the page, by part and title."""
    folded = {title: [line for line in body.split("\n") if line] for title, body in _FOLDED.findall(text)}
    if folded:
        rows = page.with_suffix(".json")
        kept = json.loads(rows.read_text()) if rows.exists() else {}
        rows.write_text(f"{json.dumps(kept | {part: folded}, indent=1, ensure_ascii=False)}\n")
    return _FOLDED.sub("", text)


def cell(text: str, most: int | None = _MOST_CELL_CHARS) -> str:
    """Text as Markdown that stays text, also in a table; of at most so many characters."""
    text = f"{text[:most]}…" if most is not None and len(text) > most else text
    return re.sub(r"[|<>*_`\[\]]", lambda mark: f"\\{mark[0]}", " ".join(text.split()))
