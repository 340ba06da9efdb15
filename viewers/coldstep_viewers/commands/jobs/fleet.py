"""`coldstep fleet`: many traces as tables, and what these show."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import click

from coldstep_viewers.commands.help import help_option

_MODULES = {"load": "fleet_load", "report": "fleet_report"}


class _Fleet(click.Group):
    """Its commands are imported when they are asked for; `fleet SOURCE… -o TABLES` is an older name for `load`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        if cmd_name not in self.commands:
            module = import_module(f"coldstep_viewers.commands.jobs.{_MODULES[cmd_name]}")
            self.add_command(help_option(module.command), cmd_name)
        return self.commands[cmd_name]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # options of `load` may stand before its sources
        if args and args[0] not in (*_MODULES, "-h", "--help") and (args[0].startswith("-") or self._is_source(args)):
            args = ["load", *args]
        return super().parse_args(ctx, args)

    @staticmethod
    def _is_source(args: list[str]) -> bool:
        """Whether the first word is no misspelt command."""
        return Path(args[0]).exists() or not get_close_matches(args[0], _MODULES, 1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _MODULES:
            near = get_close_matches(args[0], _MODULES, 1)
            ctx.fail(f"No such command {args[0]!r}" + (f": did you mean coldstep fleet {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.command("fleet", cls=_Fleet, short_help="Thousands of traces as tables, and a report on them.")
def command() -> None:
    """Read thousands of traces into tables, and show what they have in common. A source called load or report is
    written ./load or ./report.

    \b
    Example:
      coldstep fleet load 'ci/**/*.pftrace' -o tables
      coldstep fleet report tables --by commit
    """
