"""A trace in a notebook: magics that record cells, and what a run or a loaded trace looks like as a cell's result."""

from __future__ import annotations

import ast
import atexit
import os
import re
import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

import coldstep
from coldstep._util.stderr import say
from coldstep.session import Session

_DEFAULT = "notebook.pftrace"
_STEP = "cell"
# IPython: "run.pftrace  # the first try"
_COMMENT = re.compile(r"(?:^|\s)#.*")  # IPython gives a magic its whole line


def register(shell: InteractiveShell) -> None:
    """What `%load_ext coldstep` does: the magics, and the name that the marks in the cells need."""
    shell.register_magics(ColdstepMagics(shell))
    if "coldstep" not in shell.user_ns:
        shell.push({"coldstep": coldstep})  # type: ignore[no-untyped-call]


@magics_class
class ColdstepMagics(Magics):
    """`%%coldstep` and `%coldstep_steps`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell: Any = shell
        self._trace: coldstep.trace | None = None
        self._run: Session | None = None
        self._step: Any = None

    @cell_magic
    def coldstep(self, line: str, cell: str) -> Any:
        """Run the cell under a trace, and show its report: `%%coldstep [FILE]`."""
        path = _path("%%coldstep", line)
        tree = self._shell.compile.ast_parse(self._shell.transform_cell(cell))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        number = len(self._shell.user_ns["In"]) - 1  # this cell's own, which IPython counts on before it runs or behind
        name = self._shell.compile.cache(cell, number)  # the source lines, for the report
        names = self._shell.user_ns
        run = None
        try:
            with coldstep.trace(path) as run:
                exec(self._shell.compile(tree, name, "exec"), names)
                if isinstance(last, ast.Expr):
                    return eval(self._shell.compile(ast.Expression(last.value), name, "eval"), names)
        finally:
            if run is not None:
                _display(run)
        return None

    @line_magic
    def coldstep_steps(self, line: str) -> None:
        """Make each further cell a step: `%coldstep_steps on [FILE]`, until `%coldstep_steps off` shows the trace."""
        word, _, rest = _COMMENT.sub("", line).strip().partition(" ")
        if word == "on":
            self._begin(_path("%coldstep_steps on", rest))
        elif word == "off" and not rest:
            run = self._end()
            if run is not None:
                _display(run)
        else:
            raise UsageError("%coldstep_steps on [FILE], or %coldstep_steps off")

    def _begin(self, path: str) -> None:
        if self._trace is not None:
            raise UsageError("each cell is a step already: %coldstep_steps off ends that")
        self._trace = coldstep.trace(path)
        self._run = self._trace.__enter__()
        atexit.register(self._end)
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)

    def _end(self) -> Session | None:
        trace, self._trace = self._trace, None
        if trace is None:
            return None
        atexit.unregister(self._end)
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)
        trace.__exit__(None, None, None)
        return self._run

    def _before(self, info: Any) -> None:
        if not info.raw_cell.lstrip().startswith("%coldstep_steps"):
            self._step = coldstep.step(_STEP)
            self._step.__enter__()

    def _after(self, result: Any) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, result.error_in_exec, None)


def _display(run: Session) -> None:
    display(run)  # type: ignore[no-untyped-call]


def _path(magic: str, line: str) -> str:
    try:
        words = shlex.split(_COMMENT.sub("", line))
    except ValueError as error:
        raise UsageError(f"{magic}: {error}") from None
    if len(words) > 1 or line.lstrip().startswith("-"):
        raise UsageError(f"{magic} takes at most the file to write: {magic} run.pftrace")
    path = words[0] if words else _DEFAULT
    if os.path.isfile(path):
        say(f"{path} is replaced: give {magic} another name to keep it")
    return path
