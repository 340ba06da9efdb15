"""What a trace is asked to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from coldstep._util.slotted import field, slotted_object
from coldstep.recording.device_window import CHOICES, OFF, UNTIL_SETTLED

if TYPE_CHECKING:
    from coldstep.collector import Collector
    from coldstep.job.job import Job


@slotted_object
class Options:
    """What a trace is asked to do: the arguments of `coldstep.trace`, and what `coldstep run` asks for beyond.

    Raises ValueError for an unknown `device`.
    """

    path: str
    """The file to write."""
    collectors: list[str] | None = None
    """The names of those to attach; None: all that are installed."""
    device: str = UNTIL_SETTLED
    """When the frameworks' own profilers run."""
    stacks: bool = False
    """Whether every thread's Python is sampled."""
    live: bool = True
    """Whether a long compile is shown on stderr."""
    ir: bool = False
    """Whether the programs themselves are kept."""
    waits: bool = True
    """Whether what the program waits for is looked at, unless the environment forbids it."""
    command: list[str] = field(default_factory=lambda: sys.orig_argv)
    """The command line, for the trace."""
    joinable: bool = False
    """Whether a trace inside it joins it. Whoever began such a trace reports how it ended."""
    judged: bool = True
    """Whether its file is read back at its end, for findings and a headline."""
    infer: bool = False
    """Whether steps are inferred where the program marks none."""
    ready_after: int | None = None
    """After how many steps nothing may compile any more; None where only the program decides that."""
    whole_process: bool = False
    """Whether this process was begun for the trace, so that all before it is coldstep's own."""
    labels: dict[str, str] = field(default_factory=dict)
    """The trace's labels, beside those from the environment."""
    job: Job | None = None
    """The job that the process is of; None: the trace is one by itself, and in a fork's child it is inert."""
    part: bool = False
    """Whether the job has come to the process by itself: there is a file once there is something to record, and its
    name is made of the job's FILE."""

    def __post_init__(self) -> None:
        if self.device not in CHOICES:
            raise ValueError(f"device={self.device!r} is none of {', '.join(map(repr, CHOICES))}")

    def ask_for(self, collector: Collector) -> bool:
        """Whether a collector takes part: some do only where they were asked for."""
        asked = {"records_devices": self.device != OFF, "samples_stacks": self.stacks, "infers_steps": self.infer}
        return not any(getattr(collector, what, False) and not is_asked for what, is_asked in asked.items())
