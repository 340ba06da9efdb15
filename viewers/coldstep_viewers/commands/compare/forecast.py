"""`coldstep forecast`: which calls of a function will compile, before they do."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import redirect_stdout
from functools import reduce
from pathlib import Path
from typing import Any

import click

from coldstep.ahead.forecast import forecast
from coldstep.errors import first_line, text_of
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import loaded
from coldstep_viewers.commands.output import echo, fail, show
from coldstep_viewers.pages.forecast_text import lines


@click.command("forecast", short_help="Which calls of a function will compile, before they do.")
@click.argument("function", metavar="FILE:FUNCTION")
@click.argument("calls", metavar="FILE:CALLS")
@click.option("--from", "trace", metavar="TRACE", help="An earlier trace, to show how long compiles and steps took.")
@click.option("--feed", "feeds", metavar="RESULT:ARGUMENT", multiple=True, help="A result to pass to the next call: "
              "its path in the result (0, 1.params; empty for the whole), and the argument's name.")  # fmt: skip
@findings("text", "json", "html")
def command(function: str, calls: str, trace: str | None, feeds: tuple[str, ...], wanted: Wanted) -> None:
    """Show which calls of FUNCTION will compile, why, and how long each compile takes, and what to do about a size that
    varies. The forecast compiles nothing, and runs nothing on a device.

    FUNCTION is a function that is compiled, or will be, by jax.jit, torch.compile or tf.function. CALLS is an iterable
    of its calls, or a function without arguments that returns one. Each item is a tuple of arguments by position, or a
    coldstep.call(*args, **kwargs). Anything else is a single argument. The files are imported, not run as scripts.

    \b
    Example:
      coldstep forecast train.py:train_step train.py:loader
      coldstep forecast train.py:train_step train.py:calls --from run.pftrace -o forecast.html
      coldstep forecast train.py:train_step train.py:calls --feed 0:state --format json
    """
    feed = {}
    for text in feeds:
        path, colon, argument = text.rpartition(":")
        if not colon or not argument:
            fail(f"--feed {text}: it is written RESULT:ARGUMENT, as 0:state")
        feed[path] = argument
    wanted.keep([function.rpartition(":")[0], calls.rpartition(":")[0], *([trace] if trace is not None else [])])
    earlier = loaded(trace) if trace is not None else None
    with redirect_stdout(sys.stderr):  # what the user's files print
        found = _of_user(function)
        given = _of_user(calls)
        if not callable(found):
            fail(f"{function} is no function")
        if not callable(given) and not hasattr(given, "__iter__"):
            fail(f"{calls} is neither a function nor an iterable of calls")
        try:
            foretold = forecast(found, given, feed=feed, trace=earlier)
        except (ValueError, LookupError) as error:
            fail(text_of(error) or first_line(error))
        except Exception as error:  # of the user's own loader
            fail(f"{calls} cannot be gone through: {first_line(error)}")
    wanted.keep(_imported())
    if wanted.format == "html":
        from coldstep_viewers.pages.forecast_page import (
            page,  # its template engine takes longer to import than the text
        )

        echo(page(foretold), commands=True)
    else:
        show(foretold.to_json, lambda: lines(foretold), wanted.format)


def _of_user(place: str) -> Any:
    """What stands at FILE:NAME, the file imported once."""
    path, colon, name = place.rpartition(":")
    if not colon or not name or not path:
        fail(f"{place}: it is written FILE:NAME, as train.py:train_step")
    try:
        return reduce(getattr, name.split("."), _module(Path(path)))
    except AttributeError:
        fail(f"{path} has no {name}")


def _module(path: Path) -> Any:
    if not path.is_file():
        fail(f"{path} is no file")
    name, folder = path.stem, str(path.parent.resolve())
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        fail(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        fail(f"{path} cannot be imported: {first_line(error)}")
    return module


def _imported() -> list[str]:
    """The files of all modules, those that the user's files have imported among them."""
    return [file for module in [*sys.modules.values()] if isinstance(file := getattr(module, "__file__", None), str)]
