"""A recompile, as coldstep reports it to the program: at its next mark, with the user's frame at hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

from coldstep._util.slotted import slotted
from coldstep.errors import first_line, our_errors
from coldstep.events import Args
from coldstep.model import Location
from coldstep.notices.replay import explained_by, read_back, where_in
from coldstep.recording.compiles_so_far import Retold


@slotted
class Recompiled:
    """The argument of `on_recompile`: the recompile with its cause, as in the report."""

    function: str
    """The function's name."""
    location: Location | None
    """Where the function is defined; files are relative to the repository's top, as in the report."""
    caller: Location | None
    """The line that called it."""
    step: int | None
    """The ordinal of the step; None outside of steps."""
    cause: str
    """One of `vocabulary.causes`."""
    argument: str | None
    """The path of what differs first."""
    before: str | None
    """As it was."""
    after: str | None
    """As it is."""
    evidence: list[str]
    """What shows it."""
    confidence: str
    """proven | inferred"""
    advice: str
    """What to change."""
    frame: FrameType | None
    """The frame of the mark that reports this, with all its variables; None once the callback has returned."""

    def __str__(self) -> str:
        step = f" in step {self.step}" if self.step is not None else ""
        change = f": {self.argument} was {self.before}, now {self.after}" if self.argument else ""
        # where nothing could be shown, the framework's own words are the advice
        words = "\n".join(self.evidence) if self.cause == "unknown" else self.advice
        more = "".join(f"\n    {line}" for line in words.splitlines())
        return f"{where_in(self)} recompiled{step} ({self.cause}){change}{more}"


def explain(
    variants: Sequence[Retold], root: str, step: int | None, frame: FrameType | None, words: Args
) -> Recompiled:
    """Why the last of `variants` was compiled, after all the others of its identity."""
    try:
        trace = read_back(variants, root, words)
        compiled, why = trace.compiles[-1], trace.recompiles[-1]
    except our_errors() as error:  # the program must not end because we cannot say why it compiled
        failure = f"it could not be explained: {first_line(error)}"
        function = str(variants[-1].args.get("function", ""))
        return Recompiled(function, None, None, step, "unknown", None, None, None, [failure], "inferred", "", frame)
    return Recompiled(**explained_by(compiled, why), step=step, confidence=why.confidence, frame=frame)
