"""Reads what vLLM prints while it has its model compiled: how long Dynamo took, each graph, and all of it."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import field, slotted
from coldstep.events import Begin, End, emit_whole
from coldstep.logs import Line, Log
from coldstep_collectors.log_definitions import about_unasked

# vLLM 0.9: "Dynamo bytecode transform time: 5.21 s"
# vLLM 0.9: "Dynamo bytecode transform tim"
_TRANSFORM = re.compile(r"Dynamo bytecode transform (?:time: \**(?P<s>[\d.]{1,20}) s|\w{0,4}$)")
# vLLM 0.9: "Compiling a graph for general shape takes 14.73 s"
# vLLM 0.15: "Compiling a graph for compile range (1, 8000) takes 2219.43 s"
# vLLM 0.11: "Cache the graph for dynamic shape for later use"
# vLLM 0.8: "store the 0-th graph for shape None from inductor via handle ("
_GRAPH = re.compile(
    r"Compiling a graph for .{1,100}? (?:takes|took) \**(?P<s>[\d.]{1,20}) s"
    r"|Cache the graph \w{2,3} .{1,100} for later use|[Ss]tore the \d{1,6}-th graph for "
)
# vLLM 0.10: "Directly load the compiled graph(s) for dynamic shape from the cache, took 2.810 s"
# vLLM 0.9: "Directly load the compiled graph for shape None from the cache"
# vLLM 0.7: "Directly lookup the graph for shape None from the cache"
# vLLM 0.10: "Directly load the 24-th graph for dynamic shape from inductor via handle ("
# vLLM 0.20: "Directly load AOT compilation from path .cache/vllm/torch_aot_compile/6a/model"
_LOADED = re.compile(
    r"Directly (?:load AOT compilation from"
    r"|(?:load|lookup) the (?:compiled |\d{1,6}-th )?graph(?:\(s\))? for .{1,100}? from (?:the cache|inductor))"
    r"(?:, took \**(?P<s>[\d.]{1,20}) s)?"
)
# vLLM 0.6: "graph compilation takes 14.73 s in total"
# vLLM 0.9: "torch.compile takes 19.90 s in total"
# vLLM 0.20: "torch.compile took 1.74 s in total"
_TOTAL = re.compile(
    r"(?:torch\.compile|graph compilation) (?:(?P<sums>takes)|took) \**(?P<s>[\d.]{1,20}) s\** in total"
)
_ROUNDED_NS = 50_000_000  # what sums of seconds with two digits are off by
# vLLM 0.8, on TPUs: "Compiling the model with different input shapes."
_BEGUN_ON_TPU = re.compile(r"Compiling \S.{0,60} with different input shapes")
# vLLM 0.8, on TPUs: "Compilation finished in in 44.09 [secs]."
_ENDED_ON_TPU = re.compile(r"Compilation finished in (?:in )?(?P<s>[\d.]{1,20}) \[secs\]")
# vLLM 0.8: "INFO 04-18 08:26:11 [backends.py:431] Dynamo bytecode transform time:"
# vLLM 0.8: "INFO 04-18 08:26:15 [backends.py:120] Directly load the compiled"
_BROKEN = re.compile(
    r"(?:Dynamo bytecode transform|Directly (?:load|lookup)|Compiling a graph|(?:torch\.compile|graph compilation) t)"
    r".{0,200}$"
)
# vLLM 0.9: "torch.compile takes 19."
_CUT = re.compile(r"(?:time:|takes|took) ?[\d.]{0,20}$")
_NAME, _LOAD = "vLLM's model", "inductor.cache"


@slotted
class _Model:
    """A model that is being compiled: what each part took, by phase and in order, and when that was printed."""

    ns: int
    phases: list[tuple[str, str, int]] = field(default_factory=list)
    total_ns: int = 0
    compiled: bool = False
    """Whether a graph of it was, and not all were loaded from a cache."""
    begun: bool = False
    """Whether it has begun, and no line tells that it has ended."""


class VllmLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"Dynamo bytecode transform ", b"torch.compile t", b" graph for ",
                                          b"Cache the graph ", b"graph compilation t", b"Directly lo",
                                          b" with different input shapes", b"Compilation finished in ")  # fmt: skip

    def __init__(self) -> None:
        self._models: list[_Model] = []
        self._is_open = False
        self._broken = ""
        """The begin of a line of which the next one may be the rest."""
        self._sum_ns = 0
        """The last total, where such count the models before."""

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be the rest of one."""
        return self._broken != ""

    def read(self, line: Line) -> bool:
        """Take in a line."""
        begin, self._broken = self._broken, ""
        if self._read(line.text, line.ns) or (begin and self._read(f"{begin} {line.text}", line.ns)):
            return True
        match = _BROKEN.search(line.text)
        self._broken = match[0] if match is not None else ""
        return bool(self._broken and _CUT.search(self._broken))

    def _read(self, text: str, ns: int) -> bool:
        if match := _TRANSFORM.search(text):
            self._is_open = False  # another model, as one that drafts
            self._open(ns).phases.append(("dynamo.trace", "trace", _seconds(match)))
        elif match := _GRAPH.search(text):
            model = self._open(ns)
            model.compiled = True
            model.phases += [("inductor.compile", "compile", _seconds(match))] * bool(match["s"])
        elif match := _LOADED.search(text):
            self._open(ns).phases.append((_LOAD, "load", _seconds(match)))
        elif match := _TOTAL.search(text):
            self._total(self._open(ns), _seconds(match), sums=bool(match["sums"]))
            self._is_open = False
        elif _BEGUN_ON_TPU.search(text):
            self._is_open = False
            self._open(ns).begun = True
        elif self._is_open and self._models[-1].begun and (match := _ENDED_ON_TPU.search(text)):
            self._models[-1].total_ns, self._models[-1].begun = _seconds(match), False
            self._is_open = False
        else:
            return False
        return True

    def _total(self, model: _Model, ns: int, *, sums: bool) -> None:
        """Take in what a model took. The totals of vLLM before 0.20 count the models before it, too."""
        before, self._sum_ns = self._sum_ns, ns if sums else 0
        parts = sum(each for _, _, each in model.phases)
        model.total_ns = ns - before if 0 < parts <= ns - before + _ROUNDED_NS else ns

    def emit(self, log: Log) -> bool:
        """Tell of each model as a compile; whether there are any."""
        end = last = 0
        for model in self._models:
            if (id := log.new_compile()) is not None:
                end = _emit(log, model, id, end if model.ns == last else 0)
                last = model.ns
        return bool(self._models)

    def _open(self, ns: int) -> _Model:
        if not self._is_open:
            self._models.append(_Model(ns))
            self._is_open = True
        self._models[-1].ns = max(self._models[-1].ns, ns)
        return self._models[-1]


def _emit(log: Log, model: _Model, id: str, earliest: int) -> int:
    """Tell of a model, which did not begin before `earliest`; returns when it ended."""
    # vLLM's total leaves out what a cache gave, in some of its versions
    wall = max(model.total_ns, sum(ns for _, _, ns in model.phases))
    at = max(1, earliest, model.ns - wall)
    end = at + wall
    about = about_unasked("dynamo", _NAME) | {"key": f"dynamo:vllm:{id}", "identity": id}  # each is another model
    begin = Begin(at, about["function"], "torch", None, id, about)
    log.emit(begin)
    for name, title, ns in model.phases:
        emit_whole(log.emit, Begin(at, title, "torch", name), at + ns)
        at += ns
    loaded = any(name == _LOAD for name, _, _ in model.phases)
    outcome = "in_progress" if model.begun else "cache_hit" if loaded and not model.compiled else "compiled"
    log.emit(End(end, begin, {"outcome": outcome}))
    return end


def _seconds(match: re.Match[str]) -> int:
    """What a line tells; nothing where it names no time."""
    try:
        return round(float(match["s"] or 0) * 1e9)
    except ValueError:  # dots
        return 0
