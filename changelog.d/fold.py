"""Puts each fragment here, a file with the one line of a change, below CHANGELOG.md's top version, and removes it.

python3 changelog.d/fold.py
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def fold(folder: Path, changelog: Path) -> None:
    """Do so with the fragments of `folder`, in the order of their names."""
    fragments = sorted(folder.glob("*.md"))
    if not fragments:
        return
    lines = changelog.read_text().splitlines(keepends=True)
    top = next(number for number, line in enumerate(lines) if line.startswith("## "))
    if "unreleased" not in lines[top]:
        raise SystemExit(f"{changelog.name} begins with a released version: put the next one above it, (unreleased)")
    top += 2  # and the empty line below
    rows = [f"- {fragment.read_text().strip()}\n" for fragment in fragments]
    joins = lines[top : top + 1] and lines[top].startswith("- ")
    changelog.write_text("".join([*lines[:top], *rows, *([] if joins else ["\n"]), *lines[top:]]))
    for fragment in fragments:
        fragment.unlink()


if __name__ == "__main__":
    fold(HERE, HERE.parent / "CHANGELOG.md")
