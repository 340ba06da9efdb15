"""The variables that an instruction of Python's touches: since Python 3.13 one may touch two."""

from __future__ import annotations

from collections.abc import Iterator
from dis import Instruction
from typing import NamedTuple

from coldstep._util.expressions import expression

# Python 3.11: "LOAD_FAST"
# Python 3.11: "LOAD_CLASSDEREF"
# Python 3.12: "LOAD_FROM_DICT_OR_DEREF"
# Python 3.13: "STORE_FAST_LOAD_FAST"
_ACCESS = expression(r"(LOAD|STORE|DELETE)_(?:CLASS|FROM_DICT_OR_)?(FAST|NAME|GLOBAL|DEREF)")


class Access(NamedTuple):
    """What an instruction does with a variable."""

    verb: str
    """LOAD, STORE or DELETE."""
    scope: str
    """FAST, NAME, GLOBAL or DEREF."""
    name: str


def accesses(step: Instruction) -> Iterator[Access]:
    """The variables that an instruction loads, stores or deletes, in this order."""
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    for (verb, scope), name in zip(_ACCESS.findall(step.opname), names, strict=False):
        yield Access(verb, scope, name)
