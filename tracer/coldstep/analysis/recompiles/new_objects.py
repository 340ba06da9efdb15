"""Objects that the user's code makes anew for each call, and that a framework knows by identity."""

from __future__ import annotations

import re

from coldstep.analysis.advice import NEW_OBJECT
from coldstep.analysis.remedies.blocks import Written, block_around
from coldstep.analysis.remedies.edits import called, keyword_of, makes
from coldstep.analysis.remedies.made_once import made_once
from coldstep.analysis.remedies.table import Place
from coldstep.model import Change, Compile, Location, Trace

_BACKEND = "backend"


def made_anew(trace: Trace, compile_: Compile, change: Change, place: Place) -> Written | None:
    """The lines that make a new object each time, written so that it is made once; None where it is no such object, or
    the trace does not show where it is made. `place`: the call."""
    at = trace.details[compile_.id].cause_at
    if (change.mechanism, change.argument) == ("identity", _BACKEND) and at is not None:
        line = trace.code.get((at.file, at.line), "")
        return _once(trace, at, _BACKEND, keyword_of(line, _BACKEND))
    if place.location is None:
        return None
    if change.mechanism == "new_function":
        made, function = makes(place.line), called(place.line)
        return _once(trace, place.location, compile_.function, made) or _once(trace, place.location, function, function)
    object_ = NEW_OBJECT.match(change.after or "")
    if change.mechanism != "static_argument" or object_ is None or change.argument is None or place.call is None:
        return None
    # an argument that is compiled in is one that nobody changes; of one that is not, a part may be
    has_arrays = any(re.match(rf"{re.escape(change.argument)}\b", each.argument) for each in compile_.inputs or ())
    part_of = object_["class"] if has_arrays or not change.argument.isidentifier() else None
    return _once(trace, place.location, change.argument, place.call.expression, part_of)


def _once(trace: Trace, at: Location, argument: str, given: str, part_of: str | None = None) -> Written | None:
    block = block_around(trace.blocks, at) if given else None
    return made_once(block, at.line, argument, given, part_of) if block is not None else None
