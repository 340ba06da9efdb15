"""What installed distributions offer under coldstep's groups of entry points, at the cost of a look into each folder.

`importlib.metadata` takes as long to import as all of coldstep's core, and parses what every distribution offers to
anybody. It is asked where a distribution may lie anywhere but in a folder on the path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from io import FileIO
from typing import Any

from coldstep._util.slotted import slotted

_GROUPS = tuple(f"coldstep.{name}" for name in ("collectors", "foresight", "logs", "viewers"))
_KINDS = (".dist-info", ".egg-info")


@slotted
class Offer:
    """An entry point."""

    group: str
    name: str
    value: str
    """Module and object: "package.module:Class"."""

    def load(self) -> Any:
        """The object, imported if need be."""
        module, _, object_ = self.value.partition("[")[0].partition(":")
        return reduce(getattr, filter(None, object_.strip().split(".")), import_module(module.strip()))


def offers() -> list[Offer]:
    """All entry points of coldstep's groups; of distributions of one name the first on the path counts."""
    return list(_offers())


def offered(group: str, name: str) -> Any:
    """The object that is offered in a group by that name. Raises LookupError where none is."""
    for offer in _offers():
        if (offer.group, offer.name) == (group, name):
            return offer.load()
    raise LookupError(f"nothing installed provides {name} (the entry points {group})")


def _offers() -> Iterator[Offer]:
    """The same, each as it is found: whoever wants one need not wait for all."""
    folders = [each or "." for each in sys.path if isinstance(each, str)]  # as Python passes over a Path
    others = any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path)
    if others or not all(map(_is_plain, folders)):
        yield from _of_metadata()
        return
    before: list[str] = []
    for folder in folders:
        for entry in _distributions(folder):
            file = f"{folder}/{entry}/entry_points.txt"
            # most have none: to ask costs half of what a failed open does
            if os.access(file, os.R_OK) and (text := _offered_text(file)) and _name(entry) not in map(_name, before):
                yield from _parsed(text)
            before.append(entry)


def _is_plain(folder: str) -> bool:
    """Whether distributions lie in that place of the path as files in folders, or none do."""
    return not folder.endswith(".egg") and (os.path.isdir(folder) or not os.path.exists(folder))


def _distributions(folder: str) -> list[str]:
    """What a folder says of each distribution that it holds, a folder in it; coldstep's own first."""
    try:
        entries = [entry for entry in os.listdir(folder) if entry[-5:].lower() == "-info"]
    except OSError:
        return []
    entries.sort(key=lambda entry: not entry.startswith("coldstep"))
    return [entry for entry in entries if entry.lower().endswith(_KINDS)]


def _name(entry: str) -> str:
    return entry.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")


def _offered_text(path: str) -> str:
    """What a distribution's file offers, where something of it is for coldstep."""
    try:
        # of a hundred files one is of interest: to read them as text takes three times as long
        # (through a file object: a signal's handler that raises between two calls would lose a bare descriptor)
        with FileIO(path) as file:
            read = file.read()
        return read.decode() if b"[coldstep." in read else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _parsed(text: str) -> Iterator[Offer]:
    group = ""
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("["):
            group = row.strip("[]")
        elif group in _GROUPS and "=" in row and not row.startswith("#"):
            name, _, value = row.partition("=")
            yield Offer(group, name.strip(), value.strip())


def _of_metadata() -> list[Offer]:
    from importlib.metadata import entry_points

    return [Offer(group, each.name, each.value) for group in _GROUPS for each in entry_points(group=group)]


def cell_of(file: str) -> str | None:
    """What IPython calls the cell that code of this file is of ("In[8]"); None where it is no cell's."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)  # since IPython 8
    words = named(file) if named is not None else None
    return words[1] if words is not None else None


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this process."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False
