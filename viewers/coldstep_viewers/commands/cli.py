"""The group of all commands; each is imported only when it is asked for."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click

from coldstep.errors import TraceError, refuse_to_replace
from coldstep.loader import load
from coldstep.model import Trace
from coldstep.say import say
from coldstep_viewers.words import plain

_COMMANDS = ("run", "report", "open", "check", "lock", "diff", "merge", "log", "strip", "export", "sql")


class _Commands(click.Group):
    def main(self, *args: Any, **options: Any) -> NoReturn:
        """As click's, but whatever is wrong is one line and exit code 2: 1 is a verdict of `coldstep check`."""
        if sys.stdout is None:  # closed: who does that wants no output
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        try:
            sys.exit(super().main(*args, **options | {"standalone_mode": False}) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "coldstep"
            fail(f"{' '.join(error.format_message().split()).removesuffix('.')} (see {where} --help)")
        except click.Abort:
            sys.exit(128 + signal.SIGINT)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in _COMMANDS:
            self.add_command(_help_option(import_module(f"coldstep_viewers.commands.{cmd_name}").command))
        return self.commands.get(cmd_name)


# click's own two options do not know what a full disk is


def _show_help(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        echo(context.get_help())
        context.exit()


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        echo(f"coldstep {version('coldstep')}")
        context.exit()


_eager_flag = partial(click.option, is_flag=True, is_eager=True, expose_value=False)
_help_option = _eager_flag("-h", "--help", callback=_show_help, help="Show this message and exit.")


@_help_option
@click.command(cls=_Commands, context_settings={"help_option_names": []})
@_eager_flag("--version", callback=_show_version, help="Show the version and exit.")
def main() -> None:
    """The profiler for a training step that is slow before it is fast.

    \b
    Example:
      coldstep run train.py
      coldstep report train.pftrace
      coldstep open train.pftrace
    """


@main.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _run(arguments: tuple[str, ...]) -> None:
    """Run a script under a trace, unchanged."""
    # `coldstep run` itself never comes here: `coldstep.__main__` hands it over before click is imported
    sys.exit(import_module("coldstep_viewers.commands.run").main(list(arguments)))


def loaded(path: str) -> Trace:
    """The trace at `path`; a file that is none becomes one line on stderr and exit code 2."""
    gc.disable()  # of a trace's millions of objects none is garbage: to look for some takes a fourth of the time
    try:
        return load(path)
    except TraceError as error:
        fail(str(error))
    finally:
        gc.freeze()  # nor is any while it is shown
        gc.enable()


def protect(inputs: Iterable[str], out: str) -> None:
    """Refuse to write `out` over one of the files that are read."""
    try:
        refuse_to_replace(inputs, out)
    except TraceError as error:
        fail(str(error))


def echo(text: str, colour: bool = False) -> bool:
    """Print `text`, as far as the output's encoding has it. Returns whether anybody still reads."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        click.echo(text.encode(encoding, "replace").decode(encoding), color=colour)
    except OSError as error:
        # what is left in the buffer goes nowhere, or Python would complain at its end, and with an exit code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that has seen enough is no error
            fail(f"cannot write the output: {error.strerror}")
        return False
    return True


def echo_json(document: Any) -> None:
    """Print a document, indented where a person reads it."""
    echo(json.dumps(document, indent=2 if sys.stdout.isatty() else None))


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of what only `pip install coldstep[extra]` brings: one line that says so, and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"this needs {error.name}, which is not installed: pip install 'coldstep[{extra}]'")


def fail(text: str) -> NoReturn:
    """Say on stderr what is wrong, and exit with 2."""
    say(plain(text))
    sys.exit(2)
