"""The group of all commands; each is imported only when it is asked for."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click

from coldstep.errors import first_line
from coldstep_viewers.commands.help import eager_flag, help_option
from coldstep_viewers.commands.output import echo, fail

_GROUPS = {
    "Record": {"run": "record.run"},
    "Understand": {"report": "understand.report", "open": "understand.open", "explain": "understand.explain",
                   "log": "understand.log", "sql": "understand.sql"},
    "Compare": {"diff": "compare.diff", "compare": "compare.compare", "cache": "compare.cache",
                "forecast": "compare.forecast"},
    "Check": {"check": "check.check"},
    "Jobs and fleets": {"merge": "jobs.merge", "fleet": "jobs.fleet"},
    "Hand over": {"strip": "hand_over.strip", "export": "hand_over.export"},
    "This machine": {"doctor": "machine.doctor"},
}  # fmt: skip
"""As `--help` shows them; each folder here is one."""
_OLDER = {"lock": "check.lock", "fleet-report": "jobs.fleet_report"}
"""Names that scripts still call: `check --write-baseline`, `fleet report`."""
_COMMANDS = {name: module for group in _GROUPS.values() for name, module in group.items()}
COMPLETING = "_COLDSTEP_COMPLETE"
"""The variable by which a shell asks click what may come next."""
_WIDEST = max(map(len, _COMMANDS))


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
        except MemoryError:
            fail("there is not enough memory for this; try it on a machine with more")
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(at.filename)}:{at.lineno}"
            fail(f"cannot go on ({place}: {first_line(error)}): the input is damaged, or coldstep has a defect")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with a near miss for a word that is no command."""
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
        module = (_COMMANDS | _OLDER).get(cmd_name)
        if cmd_name not in self.commands and module is not None:
            command = help_option(import_module(f"coldstep_viewers.commands.{module}").command)
            if COMPLETING in os.environ:
                _complete_files(command)
            self.add_command(command, cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, by group."""
        for title, names in _GROUPS.items():
            with formatter.section(title):
                rows = [(name, self.get_command(ctx, name)) for name in names]
                width = formatter.width - _WIDEST - 6
                formatter.write_dl(
                    [(f"{name:{_WIDEST}}", command.get_short_help_str(width)) for name, command in rows if command]
                )


def _complete_files(command: click.Command) -> None:
    """Have the shell complete an argument of any text as the name of a file, for most are traces."""
    for argument in command.params:
        if isinstance(argument, click.Argument) and argument.type is click.STRING:
            argument.type = click.Path()


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        echo(f"coldstep {version('coldstep')}")
        context.exit()


@help_option
@click.command(cls=_Commands, context_settings={"help_option_names": []})
@eager_flag("--version", callback=_show_version, help="Show the version and exit.")
def main() -> None:
    """A profiler for slow first training steps.

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
