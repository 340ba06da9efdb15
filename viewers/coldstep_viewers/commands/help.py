"""`--help` and `--version` that know what a full disk is, as click's own two options do not."""

from __future__ import annotations

from functools import partial

import click

from coldstep_viewers.commands.output import echo


def _show_help(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        echo(context.get_help())
        context.exit()


eager_flag = partial(click.option, is_flag=True, is_eager=True, expose_value=False)
"""Decorates a command with an option that does something at once, and is the command's only effect."""
help_option = eager_flag("-h", "--help", callback=_show_help, help="Show this message and exit.")
"""Decorates a command with --help."""
