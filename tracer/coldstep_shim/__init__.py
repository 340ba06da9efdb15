"""What each Python of a job has before coldstep itself: the variables that say of which job it is."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FILE, JOB, CHILDREN, WAITS = "COLDSTEP", "COLDSTEP_JOB", "COLDSTEP_CHILDREN", "COLDSTEP_WAITS"
"""The variables: the file of the job; which job, `<hex>:<pid of its root>:<rank that a child inherits>`; 0 where the
processes below are not followed; 0 where nobody is to look at what a process waits for."""
MOST_ANCESTORS = 64
"""Processes above one that are looked at."""
RAYS_HELPERS = (
    "/ray/_private/log_monitor.py", "/ray/autoscaler/_private/monitor.py", "/ray/dashboard/dashboard.py",
    "/ray/dashboard/agent.py", "/ray/_private/runtime_env/agent/main.py",
)  # fmt: skip
"""In the command of a Python of Ray's own: it runs no code of the program's."""
inherited_rank = ""
"""The RANK that the process above this one had: one that a launcher started as a rank has another."""


def parent_of(pid: int) -> tuple[int, int]:
    """A process's parent, and when it was started itself, in the system's ticks. Raises OSError where it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # the name, in parentheses, may itself hold spaces and parentheses
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[1]), int(fields[19])


def found_after(finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """What the finders after one of `sys.meta_path` find."""
    finders = iter(tuple(sys.meta_path))
    for each in finders:
        if each is finder:
            break
    for each in finders:
        find = getattr(each, "find_spec", None)
        if find is None:  # a finder of the old protocol: up to Python 3.11 the import system asks it, in its turn
            if sys.version_info < (3, 12):
                return None
            continue
        spec: ModuleSpec | None = find(name, path, target)
        if spec is not None:
            return spec
    return None
