"""How a command prints its findings: `--format NAME` chooses, `-o FILE` writes; alike on every command.

`--json` and `--html FILE` are older names for the same; `--help` does not show them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

import click

from coldstep._util.installed import offers
from coldstep_viewers.commands.inputs import protect
from coldstep_viewers.commands.output import echo, fail, or_fail

SUFFIXES = {".json": "json", ".html": "html", ".xml": "junit", ".md": "markdown", ".txt": "text"}
"""The format that the name of a file asks for."""

VIEWERS = "coldstep.viewers"
"""The group of entry points."""
_OURS = ("headline", "html", "live", "magics", "summary", "terminal")  # which we offer there ourselves

Command = Callable[..., None]


@dataclass(slots=True, frozen=True)
class Wanted:
    """The format and the file that the command line asks for."""

    format: str
    """One of the command's formats."""
    path: str | None
    """The file to write; None where the output is to be printed."""

    def keep(self, inputs: Iterable[str]) -> None:
        """Refuse to write over one of the files that are read: one line, and exit code 2."""
        if self.path is not None:
            protect(inputs, self.path)


class _Formats(click.Choice[str]):
    """The command's own formats, and those by name that installed packages offer for a trace."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if any((offer.group, offer.name) == (VIEWERS, value) for offer in offers() if value not in _OURS):
            return value
        return super().convert(value, param, ctx)


def findings(*formats: str, writes: bool = True, others: bool = False) -> Callable[[Command], Command]:
    """Give a command the two options and, as its argument `wanted`, what they ask for. What it prints goes to the file.

    `writes` is false where `-o` already names something else that the command writes; with `others`, a format may be
    one that an installed package offers in the group `VIEWERS`: a function that makes a text of a `Trace`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapper(
            *args: Any,
            format_: str | None,
            to: str | None = None,
            as_json: bool = False,
            html: str | None = None,
            **options: Any,
        ) -> None:
            wanted = _wanted(formats, format_, to, as_json, html)
            with _written(wanted.path):
                command(*args, wanted=wanted, **options)

        choice = _Formats(formats) if others else click.Choice(formats)
        default = "text" if not writes else "text, or what the name of FILE ends in"
        options = [click.option("--format", "format_", type=choice, help=f"Default: {default}.")]
        options += [
            click.option("-o", "--output", "to", metavar="FILE", help="Write there, and print the name.")
        ] * writes
        options += [click.option("--json", "as_json", is_flag=True, hidden=True)] * ("json" in formats)
        options += [click.option("--html", metavar="FILE", hidden=True)] * ("html" in formats)
        for option in reversed(options):
            wrapper = option(wrapper)
        return wrapper

    return decorate


def _wanted(formats: tuple[str, ...], format_: str | None, to: str | None, as_json: bool, html: str | None) -> Wanted:
    asked = [name for name, given in ((format_, format_), ("json", as_json), ("html", html is not None)) if given]
    if len(set(asked)) > 1:
        fail(f"give {_option(asked[0], format_)} or {_option(asked[1], None)}, not both")
    if html is not None and to is not None:
        fail("give -o or --html, not both")
    path = to if to is not None else html
    if asked:
        return Wanted(str(asked[0]), path)
    by_name = SUFFIXES.get(Path(path).suffix, "text") if path is not None else "text"
    if by_name not in formats:
        fail(f"cannot write {path}: this command writes {', '.join(formats)}; --format chooses one")
    return Wanted(by_name, path)


def _option(name: str | None, format_: str | None) -> str:
    return f"--format {format_}" if format_ is not None else f"--{name}"


@contextmanager
def _written(path: str | None) -> Iterator[None]:
    """Take what is printed for the file at `path`, which changes only when all of it is there."""
    if path is None:
        yield
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="", errors="replace") as kept:
        try:
            with redirect_stdout(kept):
                yield
        finally:
            if kept.tell():
                _put(kept, path)


def _put(kept: TextIO, path: str) -> None:
    kept.seek(0)
    with or_fail(f"cannot write {path}"), open(path, "w", encoding="utf-8", newline="", errors="replace") as file:
        while piece := kept.read(1 << 20):
            file.write(piece)
    echo(os.fspath(path))
