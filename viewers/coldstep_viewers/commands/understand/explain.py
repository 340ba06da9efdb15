"""`coldstep explain`: what a cause means, with a program that provokes it, its report, and what to change."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from difflib import get_close_matches

import click

from coldstep_viewers.catalogue.page_text import as_markdown, as_text, listed
from coldstep_viewers.catalogue.pages import TITLES, meanings, pages
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.output import echo, echo_json, fail


@click.command("explain", short_help="What a cause means, with an example and what to change.")
@click.argument("words", metavar="[CAUSE]...", nargs=-1)
@click.option("--stack", type=click.Choice([*TITLES]), help="Only this framework.")
@findings("text", "json", "markdown")
def command(words: tuple[str, ...], stack: str | None, wanted: Wanted) -> None:
    """Explain a cause of recompiles, a kind of graph break or a kind of finding. Without one, list the causes.

    \b
    Example:
      coldstep explain
      coldstep explain weak_type
      coldstep explain shape --stack jax
    """
    known = meanings()
    for word in words:
        if word not in known:
            near = get_close_matches(word, known, 1)
            fail(f"no cause {word!r}{f': did you mean {near[0]}?' if near else ''} (coldstep explain lists them)")
    if wanted.format == "json":
        names = words or {page.name for page in pages()}
        shown = [page for page in pages() if page.name in names and stack in (None, page.stack)]
        echo_json({"schema": "coldstep-explain/1", "meanings": {name: known[name] for name in known if name in names},
                   "pages": [asdict(page) for page in shown]})  # fmt: skip
    elif not words:
        echo(listed())
    else:
        width = min(100, max(60, shutil.get_terminal_size((100, 24)).columns))
        for word in words:
            shown = [page for page in pages(word) if stack in (None, page.stack)]
            text = as_text(word, shown, width)
            echo(text if wanted.format == "text" else f"# {word}\n\n{known[word]}\n\n{as_markdown(shown)}")
