"""What each Python of a job has before coldstep itself: the variables that say of which job it is."""

from __future__ import annotations

FILE, JOB, CHILDREN = "COLDSTEP", "COLDSTEP_JOB", "COLDSTEP_CHILDREN"
"""The variables: the file of the job; which job, `<hex>:<pid of its root>:<rank that a child inherits>`; 0 where the
processes below are not followed."""
MOST_ANCESTORS = 64
"""Processes above one that are looked at."""
inherited_rank = ""
"""The RANK that the process above this one had: one that a launcher started as a rank has another."""


def parent_of(pid: int) -> tuple[int, int]:
    """A process's parent, and when it was started itself, in the system's ticks. Raises OSError where it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # the name, in parentheses, may itself hold spaces and parentheses
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[1]), int(fields[19])
