"""`make docs`: the site. It is this folder's pages, and what is made of the code: commands, Python, causes, words.

.venv/bin/python docs/build.py [FOLDER]     # FOLDER (build/docs) gets mkdocs.yml and what it is built from
"""

from __future__ import annotations

import inspect
import io
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from configparser import ConfigParser
from contextlib import redirect_stdout, suppress
from pathlib import Path

import click

import coldstep
import coldstep.testing
from coldstep.vocabulary import CAUSES, FINDINGS, PHASES, STACKS
from coldstep_viewers.catalogue.page_text import as_markdown, listed
from coldstep_viewers.catalogue.pages import TITLES, pages
from coldstep_viewers.commands import cli
from coldstep_viewers.commands.record import run
from coldstep_viewers.report.html import page as html

DOCS = Path(__file__).parent
ROOT = DOCS.parent
TRACE = ROOT / "tests/traces/torch_train.pftrace"
"""A real one, small: the page and the file that readers click on."""
_COPIED = ("*.md", "*.png", "*.json", "*.csv")
# [the tests](../tests/scenarios), ![a picture](timeline.png), [a section](#who-is-not)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
# "path          the file to write", "              process is writing it"
_COLUMNS = re.compile(r"(?:\w+ {2,}| {9,})\S")
_KINDS = ("", "how-to", "explanation", "reference", "evidence")


def assemble(folder: Path) -> Path:
    """Write into `folder` all that the site is built from; the path of its mkdocs.yml."""
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "docs"
    for pattern in _COPIED:
        for path in DOCS.rglob(pattern):
            (source / path.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, source / path.relative_to(DOCS))
    reference = source / "reference"
    (reference / "commands.md").write_text("\n".join(_commands()))
    (reference / "python.md").write_text("\n".join(_python()))
    (reference / "causes.md").write_text("\n".join(_causes()))
    (reference / "words.md").write_text("\n".join(words()))
    (source / "example").mkdir()
    (source / "example/report.html").write_text(html(coldstep.load(TRACE)))
    shutil.copy(TRACE, source / "example/train.pftrace")
    addresses = _addresses()
    for path in source.rglob("*.md"):
        path.write_text(_LINK.sub(lambda link, at=path: _kept(link, at, source, addresses), path.read_text()))
    (source / "llms.txt").write_text("\n".join(_for_models(source)))
    config = folder / "mkdocs.yml"
    settings = {"site_url": addresses.get("Documentation"), "repo_url": addresses.get("Source")}
    more = "".join(f"{name}: {address}\n" for name, address in settings.items() if address)
    config.write_text((DOCS / "mkdocs.yml").read_text() + more)
    return config


def _addresses() -> dict[str, str]:
    """Where the project is, by what setup.cfg calls each; the only place that has any."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    rows = (line.partition("=") for line in setup.get("metadata", "project_urls", fallback="").splitlines() if line)
    return {name.strip(): address.strip() for name, _, address in rows}


def _kept(link: re.Match[str], page: Path, source: Path, addresses: dict[str, str]) -> str:
    """A link as it is where it stays within the site; one into the repository leads to its address, if it has one."""
    target = (DOCS / page.relative_to(source).parent / link[3]).resolve()
    if target.is_relative_to(DOCS) or (page.parent / link[3]).exists():
        return link[0]
    address = addresses.get("Source")
    return f"[{link[2]}]({address}/blob/main/{target.relative_to(ROOT)})" if address else f"`{link[2].strip('`')}`"


# --- pages that are made of the code --------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield from ("# Commands", "", "The same as `coldstep COMMAND --help` prints.", "")
    yield from ("## coldstep run", "", "```text", _help_of_run(), "```", "")
    context = click.Context(cli.main, info_name="coldstep", terminal_width=100)
    for name in cli.main.list_commands(context):
        command = cli.main.get_command(context, name)
        if command is not None and name != "run":
            yield from _help(name, command, context)


def _help(name: str, command: click.Command, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=above, terminal_width=100)
    yield from (f"## {context.command_path}", "", "```text", context.get_help(), "```", "")
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None:
                yield from _help(each, inner, context)


def _help_of_run() -> str:
    with redirect_stdout(io.StringIO()) as text, suppress(SystemExit):
        run.main(["--help"])
    return text.getvalue().strip()


def _python() -> Iterator[str]:
    yield from ("# Python", "", "`import coldstep`. Everything here works without any framework installed.", "")
    public = {name: getattr(coldstep, name) for name in coldstep.__all__}
    tests = {f"testing.{name}": value for name, value in vars(coldstep.testing).items()
             if getattr(value, "__module__", "") == "coldstep.testing" and name[0] != "_"}  # fmt: skip
    for name, value in sorted((public | tests).items(), key=lambda row: (row[0][0].isupper(), row[0])):
        yield from (f"## coldstep.{name}", "")
        if not inspect.isclass(value) or name == "trace":
            yield from ("```python", f"coldstep.{name}{_signature(value)}", "```", "")
        yield from map(_paragraph, (inspect.getdoc(value) or "").split("\n\n"))


def _signature(value: Callable[..., object]) -> inspect.Signature:
    """As it is written: annotations without quotes, defaults with theirs; what a class returns is no part of it."""
    signature = inspect.signature(value)
    parameters = [each.replace(annotation=_Unquoted(each.annotation)) for each in signature.parameters.values()]
    returned = signature.empty if inspect.isclass(value) else _Unquoted(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


class _Unquoted(str):
    """An annotation, which `inspect` shows by its `repr`."""

    __repr__ = str.__str__


def _paragraph(text: str) -> str:
    """Of a docstring: one whose lines are all of two columns keeps them."""
    return f"```text\n{text}\n```\n" if all(map(_COLUMNS.match, text.splitlines())) else f"{text}\n"


def _causes() -> Iterator[str]:
    yield from ("# The catalogue of causes", "", "Each cause of a recompile, and each kind of graph break: a program")
    yield from ("that provokes it, coldstep's report on that program, and what to change.", "")
    yield from ("`coldstep explain CAUSE` prints the same.", "", "```text", listed(), "```", "")
    for stack, title in TITLES.items():
        yield from (f"## {title}", "", as_markdown([page for page in pages() if page.stack == stack], level=3), "")


def words() -> Iterator[str]:
    """The words of `--format json`, SQL and budgets, each with its meaning."""
    yield from ("# The words of the report", "", "The words that JSON, SQL and budgets use, and their meanings.", "")
    stacks = {stack.name: stack.words for stack in STACKS}
    yield from _table("stack", stacks.items())
    yield from _table("phase", ((phase.name, phase.words) for phase in PHASES))
    causes = ((row.name, f"{row.meaning} ({', '.join(stacks[name] for name in row.stacks)})") for row in CAUSES)
    yield from _table("cause", causes)
    yield from _table("finding", ((kind.name, kind.meaning) for kind in FINDINGS))


def _table(head: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"| {head} | |\n| --- | --- |"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in rows)
    yield ""


def _for_models(source: Path) -> Iterator[str]:
    """llms.txt: every page with its title, kind by kind."""
    yield from ("# coldstep", "", "> The profiler for slow first training steps: JAX, PyTorch, torch_xla, TensorFlow.")
    for kind in _KINDS:
        yield from ("", f"## {kind.capitalize() or 'Start here'}", "")
        for path in sorted((source / kind).glob("*.md")):
            title = re.search(r"^# (.*)", path.read_text(), re.MULTILINE)
            yield f"- [{title[1] if title else path.stem}]({path.relative_to(source)})"
    yield ""


if __name__ == "__main__":
    print(assemble(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/docs"))
