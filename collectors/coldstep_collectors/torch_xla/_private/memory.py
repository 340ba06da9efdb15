"""torch_xla's own figures of a program's memory: of a step that is traced on tensors without contents, and never run.

Written for torch_xla 2.9. It prints them as text on a compile, and nowhere else.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from coldstep.named_tuple import NamedTuple
from coldstep_collectors.compile_memory import left
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch_xla._private import names
from coldstep_collectors.torch_xla._private.hooks import Reports

# torch_xla 2.9: "Post Compilation Analysis: Graph input size: 1.548000 GB"
_SIZE = re.compile(r"Post Compilation Analysis: (\w+ \w+) size: (\S+)")
# torch_xla 2.9: "  %6 = f32[3,4]{0,1} aten::permute(%5), xla_shape=f32[3,4]{0,1}, ROOT=0"
_NODE = re.compile(r"^ *%(\d+) = ([a-z]+)(\d*)\S*\[([\d,]*)\]\S* (\S+?)\((?:%(\d+))?.*?(ROOT=\d+)?$", re.MULTILINE)
_VIEWS, _INPUT = ("aten::permute", "aten::view"), "xla::device_data"
_SIZES = ("Graph input", "Graph output", "Aliased Input", "Intermediate tensor")
_GIB = 1 << 30
_LATE = (
    "torch_xla reads once whether to report a program's memory, at its first sync: ask before that, in a process "
    "without a trace"
)


class Sizes(NamedTuple):
    """Bytes, to about a thousand; what compiling left as it was measured."""

    arguments: int
    results: int
    reused: int
    temporaries: int
    left: int


_KNOWN: dict[bytes, Sizes] = {}
"""The reported sizes, by the hash of a graph."""


class Programs:
    """The steps of torch_xla that are compiled, `on_cpu` or not, to be asked for their memory. Raises ValueError where
    its names are not known."""

    def __init__(self, *, on_cpu: bool) -> None:
        self._on_cpu = on_cpu
        if any(hook.is_missed for hook in names.FITTING):
            raise ValueError("this torch_xla does not report a program's memory before it runs")

    def placeholder(self, like: Any) -> Any:
        """A tensor of that shape and type on the device, which holds nothing."""
        return names.PLACEHOLDER.find()(tuple(like.shape), like.dtype)

    @contextmanager
    def unsynced(self) -> Iterator[list[None]]:
        """In here a sync is none; one is counted for each."""
        syncs: list[None] = []
        form = names.SYNC.form()
        assert form is not None
        patch = Patch(sys.modules["torch_xla"]._XLAC, form.name, lambda *_args, **_kwargs: syncs.append(None))
        try:
            yield syncs
        finally:
            patch.undo()

    def donate(self, inputs: Sequence[Any]) -> None:
        """Let results take the place of these, as in a step that updates them."""
        for tensor in inputs:
            names.DONATE.find()(tensor, True)

    def base_bytes(self, roots: Sequence[Any]) -> int:
        """What the tensors hold of which some of these are views (a gradient is the transpose of another tensor): they
        live as long, and torch_xla computes all that is live."""
        find = names.LAZY_IR.find()
        nodes = {each[1]: each for each in _NODE.finditer(str(find(list(roots))))} if find is not None else {}
        bases: dict[str, int] = {}
        for node in nodes.values():
            base = node
            while base[5] in _VIEWS and base[6] in nodes:
                base = nodes[base[6]]
            if node[7] and not base[7] and base[5] != _INPUT:
                bases[base[1]] = math.prod(map(int, filter(None, base[4].split(",")))) * max(1, int(base[3] or 8) // 8)
        return sum(bases.values())

    def compiled(self, roots: Sequence[Any]) -> Sizes:
        """What the program of these pending tensors holds; it is compiled and not run. Raises ValueError where
        torch_xla does not report it any more."""
        aliased = names.ALIASED.find()
        aliased(True)  # for the hash, too: else it does not tell what is donated
        try:
            key = bytes(names.GRAPH_HASH.find()(list(roots)))
            if key not in _KNOWN:  # for torch_xla has words on a program's first compile only
                _KNOWN[key] = self._asked(roots)
            return _KNOWN[key]
        finally:
            aliased(False)

    def _asked(self, roots: Sequence[Any]) -> Sizes:
        if Reports.taken():
            raise ValueError(_LATE)
        reports = Reports()
        try:
            with left(on_cpu=self._on_cpu) as more:
                names.COMPILE_ONLY.find()(list(roots), [])
            figures = dict(_SIZE.findall(reports.text()))
        finally:
            reports.stop()
        if not all(what in figures for what in _SIZES):
            raise ValueError(_LATE)
        arguments, results, reused, temporaries = (round(float(figures[what]) * _GIB) for what in _SIZES)
        return Sizes(arguments, results, reused, temporaries, more.bytes)
