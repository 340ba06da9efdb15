"""The console script: `run`, and no word at all, go to their modules with nothing imported on the way, all else to the
command line."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any


def main() -> Any:
    """Run the command line; its exit code."""
    # By name, and only now: the core knows no viewer, and `run` must not bring click into the user's process.
    if sys.argv[1:2] == ["run"]:
        return import_module("coldstep_viewers.commands.record.run").main(sys.argv[2:])
    if not sys.argv[1:] and "_COLDSTEP_COMPLETE" not in os.environ:
        return import_module("coldstep_viewers.commands.next_step").main()
    return import_module("coldstep_viewers.commands.cli").main(prog_name="coldstep")


if __name__ == "__main__":
    sys.exit(main())
