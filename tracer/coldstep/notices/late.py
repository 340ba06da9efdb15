"""A compile after `coldstep.ready()`, as coldstep reports it to the program: at the next mark of the thread that
compiled."""

from __future__ import annotations

from types import FrameType

from coldstep._util.figures import duration
from coldstep._util.slotted import slotted
from coldstep.errors import ColdstepError, contained, first_line
from coldstep.events import Args
from coldstep.model import Location, Trace
from coldstep.notices.replay import read_back, where_in
from coldstep.recording.compiles_so_far import Late
from coldstep.rows.variants import LOADED


@slotted
class LateCompile:
    """The argument of the function given to `ready`: a late compile, and the call that the warm-up lacks."""

    ready: str
    """What the program calls it."""
    function: str
    """The function's name."""
    location: Location | None
    """Where the function is defined; files are relative to the repository's top, as in the report."""
    caller: Location | None
    """The line that called it."""
    step: int | None
    """The ordinal of the step; None outside of steps."""
    cause: str
    """One of `vocabulary.causes`, or `first`."""
    argument: str | None
    """The path of what differs first from the nearest call of the warm-up."""
    differs: str
    """All that differs, in words."""
    cost_ns: int
    """How long it took, from `ready()` on."""
    code: str | None
    """The call that the warm-up lacks; None where it cannot be made up."""
    why: str
    """Why there is none."""
    frame: FrameType | None
    """The frame of the mark that reports this, with all its variables; None once the callback has returned."""
    loaded: bool = False
    """Whether it came from a disk's cache, and took as long as a compile."""

    def __str__(self) -> str:
        step = f" in step {self.step}" if self.step is not None else ""
        cure = f"the warm-up lacks: {self.code}" if self.code is not None else f"no call can be made up: {self.why}"
        took = duration(self.cost_ns)
        how = "loaded from a disk cache" if self.loaded else "compiled"
        head = f"{where_in(self)} was {how} after {self.ready}{step} ({self.cause}, {took}): {self.differs}"
        return f"{head}\n    {cure}"


class NotReadyError(ColdstepError, RuntimeError):
    """Something was compiled after `coldstep.ready(action="raise")`. `late` lists the compiles."""

    def __init__(self, late: list[LateCompile]) -> None:
        self.late = late
        """In the order in which they ended."""
        super().__init__("\n".join(map(str, late)))


def explain(late: Late, root: str, frame: FrameType | None, words: Args) -> LateCompile:
    """The notice of a compile."""
    about = late.compile.args
    known: Args = {"ready": late.ready.name, "step": late.step, "cost_ns": late.took_ns, "frame": frame}
    known |= {"function": str(about.get("function", "")), "loaded": about.get("outcome") == LOADED}
    unknown: Args = dict.fromkeys(("location", "caller", "argument", "code"))
    compile_ = LateCompile(**known, **unknown, cause="unknown", differs="", why="")

    def unexplained(error: Exception) -> None:  # the program must not end because we cannot say why it compiled
        compile_.why = f"it could not be explained: {first_line(error)}"

    with contained(unexplained):
        _fill(compile_, read_back([*late.warm, late.compile], root, words, (len(late.warm), late.ready)))
    return compile_


def _fill(late: LateCompile, trace: Trace) -> None:
    compile_, row = trace.compiles[-1], trace.readiness[-1]
    violation, call = row.violations[-1], row.calls[-1]
    late.function, late.location, late.caller = compile_.function, compile_.location, compile_.caller
    late.cause, late.argument, late.differs = violation.cause, violation.argument, violation.differs
    late.code, late.why = call.code, call.why
