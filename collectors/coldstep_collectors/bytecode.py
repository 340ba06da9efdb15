"""Reads Python's code: the variables that an instruction touches (since Python 3.13 two), whether it is in a loop, and
the code within a function's."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dis import Instruction
from functools import cache, lru_cache
from itertools import pairwise
from types import CodeType

from coldstep.named_tuple import NamedTuple

_VERBS = ("LOAD", "STORE", "DELETE")
_SCOPES = ("FAST", "NAME", "GLOBAL", "DEREF")
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_ENDS = (
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
    "RETURN_VALUE",
    "RETURN_CONST",
    "RAISE_VARARGS",
    "RERAISE",
)  # behind which the next is not reached


class Access(NamedTuple):
    """What an instruction does with a variable."""

    verb: str
    """LOAD, STORE or DELETE."""
    scope: str
    """FAST, NAME, GLOBAL or DEREF."""
    name: str


def accesses(step: Instruction) -> Iterator[Access]:
    """The variables that an instruction loads, stores or deletes, in this order."""
    if kinds := _kinds(step.opname):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for (verb, scope), name in zip(kinds, names, strict=False):
            yield Access(verb, scope, name)


@cache
def _kinds(opname: str) -> list[tuple[str, str]]:
    """What an instruction does with each variable, and of which scope: of Python 3.11's LOAD_FAST and LOAD_CLASSDEREF,
    of 3.12's LOAD_FROM_DICT_OR_DEREF, of 3.13's STORE_FAST_LOAD_FAST."""
    words = opname.replace("CLASSDEREF", "DEREF").replace("FROM_DICT_OR_", "").split("_")
    pairs = ((verb, scope) for verb, scope in pairwise(words) if verb in _VERBS)
    return [(verb, each) for verb, scope in pairs for each in _SCOPES if scope.startswith(each)]


@lru_cache(maxsize=256)
def _backward(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Where the loops of a code object are: the offset to which each jumps back, and from which."""
    instructions = [*dis.get_instructions(code)]
    reached = _without_exceptions(instructions)
    return tuple(
        (int(each.argval), each.offset)
        for each in instructions
        # NO_INTERRUPT waits, for a coroutine
        if "BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname and each.offset in reached
    )


def _without_exceptions(instructions: Sequence[dis.Instruction]) -> set[int]:
    """The offsets that a call reaches where nothing raises. Python 3.12 goes back from a handler at the function's end
    into the loop that a `with` stands in: that is no loop around all between."""
    at = {each.offset: number for number, each in enumerate(instructions)}
    reached, left = set[int](), [0]
    while left:
        number = left.pop()
        while number < len(instructions) and instructions[number].offset not in reached:
            each = instructions[number]
            reached.add(each.offset)
            if each.opcode in _JUMPS and (target := at.get(each.argval)) is not None:
                left.append(target)
            if each.opname.startswith(_ENDS):
                break
            number += 1
    return reached


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of each function in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from with_nested(each)


def loops(code: CodeType, at: int) -> bool:
    """Whether the instruction at that offset stands in a loop."""
    return any(first <= at <= last for first, last in _backward(code))
