"""Names stretches of a thread's time by the call stacks that were sampled in them."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import defaultdict

_STANDARD_LIBRARY = sys.stdlib_module_names


class Samples:
    """The call stacks of all threads, fed as frames begin and end, in the order of time of each thread."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[str]] = defaultdict(list)
        self._since: dict[int, int] = {}
        self._spans: dict[int, list[tuple[int, int, str]]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._spans)

    def begin(self, ns: int, tid: int, module: str) -> None:
        """A function of `module` was called on that thread."""
        self._cut(ns, tid)
        self._stacks[tid].append(module)

    def end(self, ns: int, tid: int) -> None:
        """The innermost one has returned."""
        self._cut(ns, tid)
        if self._stacks[tid]:
            self._stacks[tid].pop()

    def inside(self, tid: int, start: int, end: int) -> dict[str, int]:
        """Nanoseconds by what the thread was seen to do between two times."""
        spans = self._spans.get(tid, [])
        by_function: dict[str, int] = defaultdict(int)
        for at in range(max(0, bisect_right(spans, (start,)) - 1), len(spans)):
            begin, until, what = spans[at]
            if begin >= end:
                break
            if (ns := min(end, until) - max(start, begin)) > 0:
                by_function[what] += ns
        return by_function

    def _cut(self, ns: int, tid: int) -> None:
        stack, since = self._stacks[tid], self._since.get(tid, ns)
        if stack and ns > since:
            self._spans[tid].append((since, ns, _what(stack)))
        self._since[tid] = ns


def _what(stack: list[str]) -> str:
    """What a stack of modules, outermost first, is at: "sympy under torch._inductor.sizevars".

    The standard library, and coldstep, work for whoever calls them. A package under the user's own script needs no such
    "under".
    """
    calling = [module for module in stack if not _is_standard(module)] or stack
    inner = calling[-1]
    outer = next((module for module in reversed(calling) if _package(module) != _package(inner)), None)
    if outer is None or "." not in outer:
        return inner
    return f"{_package(inner)} under {outer}"


def _is_standard(module: str) -> bool:
    package = _package(module)
    return package in _STANDARD_LIBRARY or package.startswith(("<", "coldstep"))


def _package(module: str) -> str:
    return module.partition(".")[0]
