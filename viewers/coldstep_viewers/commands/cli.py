"""The group of all commands; each is imported only when it is asked for."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click

from coldstep.errors import first_line
from coldstep_viewers.commands.output import echo, fail

_MODULES = {
    **{"run": "record.run"},
    **{"report": "understand.report", "open": "understand.open", "log": "understand.log", "sql": "understand.sql"},
    **{"diff": "compare.diff", "compare": "compare.compare", "cache": "compare.cache", "forecast": "compare.forecast"},
    **{"check": "check.check", "lock": "check.lock"},
    **{"merge": "jobs.merge", "fleet": "jobs.fleet_load", "fleet-report": "jobs.fleet_report"},
    **{"strip": "hand_over.strip", "export": "hand_over.export"},
    **{"doctor": "machine.doctor"},
}
_COMMANDS = tuple(_MODULES)


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
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(at.filename)}:{at.lineno}"
            fail(f"cannot go on ({place}: {first_line(error)}): what was read is damaged, or coldstep has a defect")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with what was meant by a word that is no command."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            near = get_close_matches(name, _COMMANDS, 1)
            meant = f"run {name}" if name.endswith(".py") else f"report {name}" if name.endswith(".pftrace") else ""
            meant = meant or (near[0] if near else "")
            ctx.fail(f"No such command {name!r}" + (f": did you mean coldstep {meant}?" if meant else ""))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in _COMMANDS:
            module = import_module(f"coldstep_viewers.commands.{_MODULES[cmd_name]}")
            self.add_command(_help_option(module.command))
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
    sys.exit(import_module("coldstep_viewers.commands.record.run").main(list(arguments)))
