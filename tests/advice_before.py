"""Each text of advice as it was before advice was rows of a table, and now: docs/evidence/advice-before.csv.

`cd tests && python -m advice_before`: takes the earlier texts from Git.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path

from advice_rows import catalogue

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs/evidence/advice-before.csv"
BEFORE = "58d39d60^"
"""The commit before the report began with what to change."""
_ALIKE = 0.5  # of two texts, below which the one is no later form of the other
_PARTS = ("breaks _MAY_FAIL_EAGERLY",)
"""What stands behind a hint of PyTorch's, then and now."""
_PRINTED = """\
import json, sys
from coldstep.analysis import advice, breaks

def within(value):
    if isinstance(value, str):
        yield "", value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from ((f"[{key}]{keys}", text) for keys, text in within(each))
    elif isinstance(value, tuple):
        for each in value:
            if isinstance(each, breaks._Advice):
                yield f"[{each.words.pattern}]", each.own
                yield f"[{each.words.pattern}] in a library", each.library

print(json.dumps({f"{module.__name__.rpartition('.')[2]} {name}{keys}": text for module in (advice, breaks)
    for name, value in vars(module).items() if name.startswith("_") and not name.startswith("__")
    for keys, text in within(value)}))
"""
_STACKS = {f"_ADVICE[{stack}]": f"rules.{stack}" for stack in ("jax", "dynamo", "torch_xla", "tensorflow")}
_STACKS |= {place.replace("_ADVICE", "_BY_PATTERN"): module for place, module in _STACKS.items()}


def texts_before() -> dict[str, str]:
    """The texts by their places, as that commit's own modules have them."""
    packed = subprocess.run(["git", "archive", BEFORE, "tracer"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        words = [sys.executable, "-c", _PRINTED]
        done = subprocess.run(words, env={"PYTHONPATH": f"{folder}/tracer"}, capture_output=True, text=True, check=True)
    texts: dict[str, str] = json.loads(done.stdout)
    parts = [text for text in texts.values() if not text[:1].isupper() and text[:1] != "{"]
    whole = {place: text for place, text in texts.items() if text not in parts and place not in _PARTS}
    others = {place: [each for each in whole.values() if each != text] for place, text in whole.items()}
    return {place: text for place, text in whole.items() if not any(text in each for each in others[place])}


def later(place: str, text: str, now: dict[str, str]) -> str:
    """The place of what a text has become; "" where it was dropped."""
    module, _, name = place.partition(" ")
    for before, of_stack in _STACKS.items():
        if module == "advice" and name.startswith(before):
            place = f"{of_stack} REMEDIES{name.removeprefix(before)}"
    if place in now:
        return place
    of = place.partition(" ")[0]
    among = {each: words for each, words in now.items() if not of.startswith("rules.") or each.startswith(f"{of} ")}
    alike = {each: SequenceMatcher(None, text, words, autojunk=False).ratio() for each, words in among.items()}
    best = max(alike, key=lambda each: alike[each])
    return best if alike[best] >= _ALIKE else ""


def main() -> None:
    """Write the table."""
    now = {place: row.text for place, row in catalogue().items()}
    with OUTPUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("then", "text", "came to", "row now", "text now"))
        for place, text in texts_before().items():
            row = later(place, text, now)
            became = "dropped" if not row else "the same" if now[row] == text else "rewritten"
            writer.writerow((place, text, became, row, now.get(row, "") if became == "rewritten" else ""))


if __name__ == "__main__":
    main()
