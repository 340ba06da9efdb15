"""Reads the operations of a graph as the user wrote them: where each comes from, below the line that had it traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coldstep.events import Args
from coldstep.places import absolute
from coldstep_collectors.unrolled import MOST, Line, Operation

_INPUT = "Placeholder"


def written(graph: Any, caller: Args | None, is_users: Callable[[str], bool]) -> list[Operation]:
    """The first operations of a graph, with the lines of the user's that each comes from, below `caller`; none where
    TensorFlow does not show them."""
    operations = []
    for each in graph.get_operations()[:MOST]:
        frames = getattr(each.traceback, "get_user_frames", None)
        if frames is None:
            return []
        lines = [(absolute(at.filename), at.lineno, at.name) for at in frames() if is_users(absolute(at.filename))]
        read = [tensor.op.name for tensor in each.inputs if tensor.op.type == _INPUT]
        shape = str(each.outputs[0].shape) if each.outputs else ""
        operations.append(Operation(each.type, _below(caller, lines), read, shape))
    return operations


def _below(caller: Args | None, lines: list[Line]) -> list[Line]:
    """Of the lines that lead to an operation, those within the traced function."""
    called = [
        at for at, (file, line, _) in enumerate(lines) if caller and (caller["file"], caller["line"]) == (file, line)
    ]
    return lines[called[-1] + 1 :] if called else []
