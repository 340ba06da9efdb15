"""Reads JAX's lines under jax_explain_cache_misses and jax_log_compiles: each compile, how long each phase took, and
what had differed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import ClassVar

from coldstep import context as forms
from coldstep._util.gathered import gathered
from coldstep._util.slotted import field, slotted, slotted_object
from coldstep.blind_spots import BEGUN, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, End, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep.places import location, origin_elsewhere
from coldstep_collectors.jax.cache_lines import CacheLines
from coldstep_collectors.log_definitions import Parameters, parameters
from coldstep_collectors.values import dtype_text

# a search begins anew at every letter of a line, which may have a million: nothing below goes on without a bound
# JAX 0.10: "TRACING CACHE MISS at /repo/train.py:20:12 (<module>):"
# JAX 0.4.28: "TRACING CACHE MISS at /repo/train.py:20:12 (main) because:"
_MISS = re.compile(
    r"TRACING CACHE MISS at (?:(?P<file>.{1,1000}?):(?P<line>\d+)(?::\d+)? \((?P<function>.{1,1000}?)\))?"
    r"(?P<late>.{0,99} because:)?"
)
# JAX 0.10: "    train_step id=140506122650784 defined at /repo/train.py:8"
# JAX 0.10: "  for train_step defined at /repo/train.py:8"
_DEFINED = re.compile(r"(?:for |  )(?P<name>\S+)(?: id=(?P<id>\d+))? defined at (?P<file>.+):(?P<line>\d+)$")
# JAX 0.10: "Finished tracing train_step for jit in 0.000798464 sec"
# JAX 0.4: "Finished tracing + transforming train_step for pjit in 0.000798464 sec"
# JAX 0.4.13: "Finished tracing + transforming spread for pmap in 0.0022292137145996094 sec"
_TRACED = re.compile(
    r"Finished tracing (?:\+ transforming )?(?P<name>.{1,1000}) for (?:p?jit|pmap) in (?P<s>[\d.e+-]{1,99}) sec"
)
# JAX 0.10: "Compiling jit(f) with global shapes and types (ShapedArray(int32[2,3]),). Argument mapping:
# (UnspecifiedValue,)."
# JAX 0.4.13: "Compiling train_step for with global shapes and types [ShapedArray(float32[3,4])]. Argument mapping:
# (GSPMDSharding({replicated}),)."
# JAX 0.4.31: "Compiling train_step with global shapes and types [ShapedArray(float32[3,4])]. Argument mapping:
# [UnspecifiedValue]."
_COMPILING = re.compile(
    r"Compiling (?:jit\()?(?P<name>.{1,1000}?)\)?(?: for)? with global shapes and types (?P<types>.+)\. "
    r"Argument mapping: [(\[](?P<places>.*)[)\]]\."
)
# JAX 0.4.13: "Compiling spread (140052730283328) for 2 devices with args (ShapedArray(float32[2]),). (num_replicas=2)"
# JAX 0.3: "Compiling f (140417529333056) for args (ShapedArray(float32[], weak_type=True),)."
# JAX 0.2: "Compiling f for args (ShapedArray(float32[]),)."
_COMPILING_PMAP = re.compile(
    r"Compiling (?P<name>.{1,1000}?)(?: \(\d{1,30}\) for (?:\d{1,9} devices with )?args | for args (?=\(\w+\())"
    r"(?P<types>.+)\."
)
# JAX 0.7: "Compiling jit(train_step) with global s"
# JAX 0.1: "Compiling run_epoch for args (ArgSpec(aval=ShapedArray(uint32[2]), lazy_expr=LazyExpr(input=Arr"
_COMPILING_CUT = re.compile(
    r"Compiling (?:jit\()?(?P<name>[\w<>.]{1,200})\)?(?:(?: for)? with global s[\w ]{0,20}$| for args \(\w{1,99}\()"
)
# JAX 0.10: "Finished jaxpr to MLIR module conversion jit(train_step) in 0.004027128 sec"
# JAX 0.4.13: "Finished jaxpr to MLIR module conversion pmap(spread) in 0.002109527587890625 sec"
_LOWERED = re.compile(
    r"Finished jaxpr to MLIR module conversion (?:(?:jit|pmap)\()?(?P<name>.{1,1000}?)\)? in (?P<s>[\d.e+-]{1,99}) sec"
)
# JAX 0.10: "Finished XLA compilation of jit(train_step) in 0.025208235 sec"
# JAX 0.4.13: "Finished XLA compilation of spread in 0.012786388397216797 sec"
_COMPILED = re.compile(
    r"Finished XLA compilation of (?:(?:jit|pmap)\()?(?P<name>.{1,1000}?)\)? in (?P<s>[\d.e+-]{1,99}) sec"
)
# JAX 0.10: "ShapedArray(float32[], weak_type=True)"
# JAX 0.10: "ShapedArray(float32[2@x,3])"
_TYPE = re.compile(r"\b\w{1,60}\((?P<dtype>[\w<>]{1,60})\[(?P<dims>[^\]]{0,1000})\](?P<weak>, weak_type=True)?")
# JAX 0.10: "NamedSharding(mesh=Mesh('x': 1, axis_types=(Explicit,)), spec=P('x',), memory_kind=device)"
_PLACE = re.compile(r"UnspecifiedValue|\b(\w{1,60})\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
# JAX 0.10: "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
_DEVICE_ID = re.compile(r"\b(\w{1,60}?)Device\(id=(\d+)")
# JAX 0.10: "Mesh('x': 1, axis_types=(Explicit,))"
_MESH = re.compile(r"'(\w+)': (\d+)")
# JAX 0.10: "Mesh('x': 1, axis_types=(Explicit,))"
_AXIS_TYPES = re.compile(r"axis_types=\(([^)]{0,1000})\)")
# JAX 0.10: "spec=P(None, 'x'), memory_kind=device"
_SPEC = re.compile(r"spec=(P\([^)]{0,1000}?),?\)")
# JAX 0.10: "    <unknown> id=140506122650784"
_UNDEFINED = re.compile(r"  <unknown> id=(?P<id>\d+)$")
_UNNAMED = "<unnamed function>"
# JAX 0.10: "  * jax_default_matmul_precision differs: now float32 and before None"
_CONTEXT = re.compile(r"\* (\w{1,200}) differs: now (.{1,2000}) and before (.{1,2000})$")
# JAX 0.10: "  * at x, now f32[4,3] and before f32[2,3]"
_ARGUMENT = re.compile(
    r"\* at (?P<name>.{1,1000}?), now (?P<now>\w{1,60}\[[^\]]{0,1000}\])\S{0,1000} "
    r"and before (?P<before>\w{1,60}\[[^\]]{0,1000}\])"
)
# JAX 0.5: "    * at x, seen f32[4], but now given f32[6]"
_ARGUMENT_GIVEN = re.compile(
    r"\* at (?P<name>.{1,1000}?), seen (?P<before>\w{1,60}\[[^\]]{0,1000}\])\S{0,1000},? "
    r"but now given (?P<now>\w{1,60}\[[^\]]{0,1000}\])"
)
_MAX_WORD_CHARS = 1 << 13  # of a line of an explanation
_MAX_DURATION_S = 1e9  # what is longer is no time
# JAX 0.10: "f32[2@x,3]"
_AXIS = re.compile(r"@\w+")
# JAX 0.10: "  * at input path [0][1], now <class 'dict'> and before <class 'list'>, so their Python types differ"
_POSITION = re.compile(r"input path \[0\]\[(\d+)\]")
_NEVER_SEEN = "never seen function"
# JAX 0.10: "  but seen another function defined on the same line; maybe the function is"
# JAX 0.6: "  all previously seen cache keys are different. Closest previous key:"
# JAX 0.5: "    * at x, seen f32[4], but now given f32[6]"
# JAX 0.5: "  never seen passing 1 positional args and 1 keyword args with keys:"
# JAX 0.5: "    'rate'"
# JAX 0.8: "      now 3 and before 2"
_WORD = re.compile(
    rf"\* .+ now .+ and before |\* at .+, seen .+ but now given |{_NEVER_SEEN}:|but seen another function"
    r"|being re-defined repeatedly|all previously seen cache keys (?:differ|are different)|different input "
    r"|[Tt]racing context doesn't match|info doesn't match|explanation unavailable|key with different "
    r"|closest seen |never seen (?:passing|input)|(?<=     )now .+ and before |(?:now|before) \d+ args and kwargs with"
    r"|\[\d+\]: now .+ and before |'\w+'(?:, '\w+')*$"
)
# JAX 0.10: "  for train_step defined at /repo/train.py:8"
# JAX 0.10: "  all previously seen cache keys differ. For the closest previous key:"
# JAX 0.10: "  * at x, now f32[4,3] and before f32[2,3]"
# JAX 0.5: "    * at x, seen f32[4], but now given f32[6]"
_REST = re.compile(
    r"\s*(?:for \S+ defined at .+:\d+$|all previously seen cache keys "
    r"|\* at .+, (?:now .+ and before|seen .+ but now) )"
)
_EAGER = ("jax", "jaxlib")
_NOWHERE = ("", 0)
_MAX_LINES = 200
_MAX_LEAVES = 256
_MAX_UNTIMED = 5_000

_Place = tuple[str, int]
_Names = dict[tuple[_Place, int], dict[int, str]]
"""What leaves are called, by where their function is defined and how many it takes."""

_ALWAYS = Unseen("what ran, and what had been compiled before the log began")
_UNEXPLAINED = Unseen(
    "which compiles are the user's own, and why they happened (no line of JAX_EXPLAIN_CACHE_MISSES=1: with it, the "
    "report shows them)",
    COMPILES,
    RECOMPILES,
)
_UNTIMED = Unseen(
    "programs lowered and compiled without being traced again, and their times (JAX_LOG_COMPILES=1 shows them)",
    COMPILES,
    RECOMPILES,
    PHASES,
)
_LOST = Unseen(
    "a compile that JAX explains, as one of a function that it had traced before, and of which the log has no more",
    COMPILES,
    RECOMPILES,
)
_MAPPED = Unseen("which functions jax.pmap compiled, and which of them again", RECOMPILES)
_NAME_OF_MAPPED = "_fun"  # that JAX 0.9 and later has for each of them
_HELD = Unseen("what a function holds beyond its arguments, and whether a new one is the same code")


@slotted
class _Miss:
    """JAX's explanation of a tracing-cache miss."""

    caller: Args | None
    ns: int
    late: bool
    """JAX 0.4.24 to 0.8 explain a miss once the function has been traced, not before."""
    lines: list[str] = field(default_factory=list)
    name: str = ""
    place: _Place | None = None
    id: str = ""

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """The settings that differ: their values now and before."""
        for match in filter(None, map(_CONTEXT.search, self.lines)):
            yield "mesh" if match[1] == "abstract_mesh_context_manager" else match[1], match[2], match[3]

    def arguments(self) -> dict[tuple[str, str], list[str]]:
        """The arguments that differ, in the order of the call, by their shapes now and before."""
        return gathered(
            ((_AXIS.sub("", match["now"]), _AXIS.sub("", match["before"])), match["name"])
            for line in self.lines
            if (match := _ARGUMENT.search(line) or _ARGUMENT_GIVEN.search(line))
        )

    @property
    def again(self) -> bool:
        """Whether JAX had traced the function before: of a new one it writes that it has never seen it."""
        return self.name != "" and not any(line.startswith(_NEVER_SEEN) for line in self.lines)

    @property
    def is_nameless(self) -> bool:
        """Whether the line with the function's name is lost: those that are left speak of an earlier trace."""
        return not self.name and any(map(_REST.match, self.lines))


@slotted
class _Traced:
    """A function that was traced, and perhaps is lowered and compiled next."""

    name: str
    begin: Begin
    end_ns: int
    miss: _Miss | None


@slotted_object
class _Compile:
    name: str
    begin: Begin
    end: End
    """Of the whole; its time is known when it comes."""
    miss: _Miss | None
    types: list[str]
    finished: bool = False


class JaxLogs:
    """Reads the lines of one process."""

    name: ClassVar[str] = "jax"
    marks: ClassVar[tuple[bytes, ...]] = (b"TRACING CACHE MISS at", b"Finished tracing ", b"Compiling ",
                                          b"Finished jaxpr to MLIR", b"Finished XLA compilation of",
                                          b" defined at ", b"previously seen cache key", b" and before ",
                                          b"but now given ", *CacheLines.MARKS)  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._miss: _Miss | None = None
        self._misses: list[_Miss] = []
        self._untimed: list[_Miss] = []
        self._traced: _Traced | None = None
        self._open: list[_Compile] = []
        self._known: list[_Compile] = []
        self._settings: dict[_Place, dict[str, str]] = defaultdict(dict)
        self._caches = CacheLines()
        self._ns = self._last_end = 0
        self._since = 0  # lines since an explanation began
        self._explained = self._timed = self._tells_ends = False
        self._begins_inside = False
        """Whether the log's first line of a compile is not the first that JAX says of one."""
        self.goes_on = False

    def read(self, line: Line) -> bool:
        """Take in a line."""
        text = line.text
        self._ns = max(self._ns, line.ns)
        if match := _MISS.search(text):
            caller = location(match["file"], int(match["line"]), match["function"]) if match["file"] else None
            self._begin_miss(_Miss(caller, self._ns, match["late"] is not None))
        elif match := _TRACED.search(text):
            self._timed = True
            self._end_miss()
            self._on_traced(match["name"], _seconds(match["s"]))
        elif match := _compiling(text):
            self._timed = True
            self._end_miss()
            self._on_compiling(match["name"], _types(*map(match.groupdict().get, ("types", "places"), ("", ""))))
        elif match := _LOWERED.search(text):
            self._phase(match["name"], "jax.lower", "lower", _seconds(match["s"]))
        elif match := _COMPILED.search(text):
            self._phase(match["name"], "xla.compile", "compile", _seconds(match["s"]))
        elif self._caches.read(text, self._ns):
            pass
        elif self._miss is None and _REST.match(text):
            self._begin_miss(miss := _Miss(None, self._ns, False))
            return self._on_word(miss, text)
        elif self._miss is not None:
            self._since += 1
            if self._since > _MAX_LINES:
                self._end_miss()
                return False
            return self._on_word(self._miss, text)
        else:
            return False
        return True

    def end(self) -> Seen | None:
        """Emit all compiles."""
        self._end_miss()
        unfinished = [self._traced.miss] if self._traced is not None and self._traced.miss is not None else []
        self._drop_traced()
        self._end_untimed()
        self._end_caches()
        self._end_untold()
        if not self._known:
            return None
        places: dict[str, set[_Place]] = defaultdict(set)
        for each in self._known:
            if each.miss is None and each.name not in places:
                places[each.name].add(_NOWHERE)  # an operation of JAX's own has that name, too
            elif each.miss is not None and each.miss.place is not None:
                places[each.name].add(each.miss.place)
                for name, _, before in each.miss.settings():
                    usual = {forms.CONFIG.key(name): before, forms.USUAL.key(name): before}
                    self._settings[each.miss.place] = usual | self._settings[each.miss.place]
        ids: dict[_Place, str] = {}
        names = self._names()
        for each in self._known:
            each.begin.args = (each.begin.args or {}) | self._about(each, places, ids, names)
            each.begin.name = each.begin.args["function"]
        missing: list[str] = [_ALWAYS, _HELD]
        if begun := self._is_begun():
            missing.insert(0, BEGUN)
        if lost := self._timed and any(miss.again or miss.is_nameless for miss in (*self._misses, *unfinished)):
            missing.insert(0, _LOST)
        if not self._explained:
            missing.insert(0, _UNEXPLAINED)
        if not self._timed:
            missing.insert(0, _UNTIMED)
        if mapped := sum(each.name == _NAME_OF_MAPPED and each.miss is None for each in self._known) > 1:
            missing.insert(0, _MAPPED)
        cut = not self._known[-1].finished
        whole = self._explained and self._timed and not (begun or lost or mapped)
        return Seen("attached" if whole else "partial", None, missing, cut=cut)

    def _is_begun(self) -> bool:
        """Whether the log begins after the first compile of a function, or in the middle of one."""
        places: set[_Place | None] = set()
        for each in self._known:
            if each.miss is not None and each.miss.again and each.miss.place not in places:
                return True
            places.add(each.miss.place if each.miss is not None else None)
        return self._begins_inside

    # --- explanations -----------------------------------------------------------------------------------------

    def _begin_miss(self, miss: _Miss) -> None:
        self._explained = True
        self._end_miss()
        self._miss = miss
        self._misses = [*self._misses[:_MAX_LINES], miss]
        self.goes_on, self._since = True, 0

    def _on_word(self, miss: _Miss, text: str) -> bool:
        """A line of an explanation; others may stand between its lines."""
        text = text[:_MAX_WORD_CHARS]
        match = _DEFINED.search(text)
        if match and not miss.name:
            miss.name, miss.place, miss.id = match["name"], (match["file"], int(match["line"])), match["id"] or ""
        elif (match := _UNDEFINED.search(text)) and miss.caller is not None:
            miss.name, miss.id = _UNNAMED, match["id"]
            miss.place = miss.caller["file"], miss.caller["line"]
        elif not (match := _WORD.search(text)):
            return False
        miss.lines.append(text[match.start() :].strip())
        return True

    def _end_miss(self) -> None:
        miss, self._miss = self._miss, None
        self.goes_on = False
        traced = self._traced
        if miss is not None and miss.late and traced is not None and _last(miss.name) == _last(traced.name):
            traced.miss = self._explanation(traced.name)
        elif miss is not None and not self._timed and miss.name and len(self._untimed) < _MAX_UNTIMED:
            self._untimed.append(miss)

    def _end_untimed(self) -> None:
        """Without lines on compiles, each explanation stands for one."""
        for miss in self._untimed if not self._timed else ():
            self._ns = max(self._ns, miss.ns)
            traced = _Traced(miss.name, Begin(miss.ns, "trace", "jax", "jax.trace"), miss.ns, miss)
            if compile := self._compile(traced, miss.name, []):
                compile.finished, compile.end.args = True, {"outcome": "compiled"}
                self._log.emit(compile.end)

    def _end_caches(self) -> None:
        """Without any other line, those of the persistent cache stand for compiles, too."""
        for answer in [] if self._known or self._timed else self._caches.finish():
            self._ns = max(self._ns, answer.ns)
            start, end = max(1, answer.ns - answer.took_ns), answer.ns
            name = answer.module.removeprefix("jit_")
            if compile := self._compile(None, name, []):
                compile.begin.ns, compile.end.ns, compile.finished = start, end, True
                if answer.took_ns:
                    emit_whole(self._log.emit, Begin(start, "compile", "jax", "xla.compile"), end)
                outcome = "cache_hit" if answer.row["state"] == "hit" else "compiled"
                compile.end.args = {"outcome": outcome, "caches": [answer.row]}
                self._log.emit(compile.end)

    def _end_untold(self) -> None:
        """JAX before 0.3 logs no end of a compile: where the next one begins, it is over."""
        ends: dict[int, End] = {}
        for compile, after in pairwise(self._known) if not self._tells_ends else ():
            if not compile.finished:
                compile.finished, compile.end.args = True, {"outcome": "compiled"}
                ends[id(after.begin)] = compile.end
        events, self._log.events = self._log.events, []
        for event in events:  # at equal times the order counts
            if (end := ends.get(id(event))) is not None:
                self._log.emit(end)
            self._log.emit(event)

    # --- compiles ---------------------------------------------------------------------------------------------

    def _on_traced(self, name: str, ns: int) -> None:
        self._drop_traced()
        start, end = self._span(ns)
        self._traced = _Traced(name, Begin(start, "trace", "jax", "jax.trace"), end, self._explanation(name))

    def _explanation(self, name: str) -> _Miss | None:
        """The one for a function that was traced: the outermost of that name, for the others are of what it calls. Of
        two of one function, the first attempt has failed."""
        named = [miss for miss in self._misses if _last(miss.name) == _last(name)]
        if not named:
            rest = next((miss for miss in self._misses if miss.is_nameless), None)
            if rest is not None:
                rest.name, self._misses = name, []
            return rest
        self._misses = []
        return next(miss for miss in reversed(named) if miss.place == named[0].place)

    def _drop_traced(self) -> None:
        """What was traced was not compiled: it was traced only."""
        traced, self._traced = self._traced, None
        if traced is not None and traced.miss is not None and (compile := self._compile(traced, traced.name, [])):
            compile.finished = True
            compile.end.args = {"outcome": "traced_only"}
            compile.end.ns = traced.end_ns
            self._log.emit(compile.end)

    def _on_compiling(self, name: str, types: list[str]) -> None:
        traced, self._traced = self._traced, None
        self._begins_inside |= traced is None and not self._known
        if traced is not None and traced.name != name:
            self._traced = traced
            self._drop_traced()
            traced = None
        if compile := self._compile(traced, name, types):
            self._open = [each for each in self._open if not each.finished][-9:]
            self._open.append(compile)

    def _compile(self, traced: _Traced | None, name: str, types: list[str]) -> _Compile | None:
        if (id := self._log.new_compile()) is None:
            return None
        start = traced.begin.ns if traced is not None else self._ns
        begin = Begin(start, "", "jax", None, id, {"part": "forward"})
        compile = _Compile(name, begin, End(start, begin), traced.miss if traced is not None else None, types)
        self._known.append(compile)
        self._log.emit(begin)
        if traced is not None:
            emit_whole(self._log.emit, traced.begin, traced.end_ns)
        return compile

    def _phase(self, name: str, phase: str, title: str, ns: int) -> None:
        self._timed = self._tells_ends = True
        compile = next((each for each in reversed(self._open) if each.name == name and not each.finished), None)
        before = next((each for each in reversed(self._known) if each.name == name), None)
        if compile is None and phase == "xla.compile":  # neither traced nor lowered again, or the log begins inside
            self._begins_inside |= not self._known
            compile = self._compile(None, name, before.types if before is not None else [])
        if compile is None:
            self._begins_inside |= not self._known
            return
        start, end = self._span(ns)
        compile.begin.ns = min(compile.begin.ns, start)
        emit_whole(self._log.emit, Begin(start, title, "jax", phase), end)
        if phase == "xla.compile":
            self._finish(compile)

    def _finish(self, compile: _Compile) -> None:
        compile.finished = True
        compile.end.ns, compile.end.args = self._ns, {"outcome": "compiled"}
        if (answer := self._caches.take(compile.name)) is not None:
            hit = answer["state"] == "hit"
            compile.end.args = {"outcome": "cache_hit" if hit else "compiled", "caches": [answer]}
        self._log.emit(compile.end)

    def _span(self, ns: int) -> tuple[int, int]:
        """When something that has taken so long began and ended, by the line that says so."""
        start = max(self._ns - ns, self._last_end)  # where the lines have no times, one after the other
        self._ns = self._last_end = max(self._ns, start + ns)
        return start, self._ns

    # --- what is said of them ---------------------------------------------------------------------------------

    def _names(self) -> _Names:
        """The names of leaves: an explanation tells only those that differ, and of one compile."""
        names: _Names = defaultdict(dict)
        before: dict[tuple[_Place, int, int, str], set[str]] = defaultdict(set)  # each leaf's types, by their shapes
        for each in self._known:
            if each.miss is None or each.miss.place is None:
                continue
            key = each.miss.place, len(each.types)
            for (now, was), paths in each.miss.arguments().items():
                leaves = [
                    leaf
                    for leaf, type_ in enumerate(each.types)
                    if _shape(type_) == now and before.get((*key, leaf, was), set()) - {type_}
                ]
                if len(leaves) == len(paths) and not {*paths} & {*names[key].values()}:
                    names[key] = dict(zip(leaves, paths, strict=True)) | names[key]
            for leaf, type_ in enumerate(each.types):
                before[*key, leaf, _shape(type_)].add(type_)
        return names

    def _about(self, compile: _Compile, places: dict[str, set[_Place]], ids: dict[_Place, str], names: _Names) -> Args:
        """The arguments of a compile; `ids` are the latest of each function's, by where it is defined."""
        miss = compile.miss
        place = miss.place if miss is not None else None
        if place is None and len(places[compile.name]) == 1:  # lowered and compiled again, not explained
            (place,) = places[compile.name]
            place = place if place != _NOWHERE else None
        file, line = place or ("", 0)
        # what is explained nowhere can be anything: of that, nothing is claimed
        unknown = place is not None or not self._explained
        origin = "library" if unknown else "eager"
        if place is not None or (miss is not None and miss.again):
            origin = "eager" if origin_elsewhere(file, _EAGER) == "eager" else "user"
        is_mapped = place is None and compile.name == _NAME_OF_MAPPED
        known = names.get((place, len(compile.types)), {}) if place is not None else {}
        about: Args = {
            "function": _last(compile.name),
            "origin": "user" if is_mapped else origin,
            "key": f"jax:{file}:{compile.name}",
            "identity": f"{file}:{line}:{compile.name}" if place is not None else "" if is_mapped else compile.name,
            "location": location(file, line, compile.name) if place is not None else None,
            "caller": miss.caller if miss is not None else None,
            "inputs": [{"argument": known.get(n, f"leaf {n}"), "type": type_} for n, type_ in enumerate(compile.types)],
        }
        if miss is not None and (miss.again or place in ids):
            about["guard_failures"] = ["\n".join(miss.lines)]
        if miss is not None and miss.again:
            about["earlier"] = True  # whether the log tells of the first one or begins after it
        if place is not None:
            if miss is not None and miss.id:
                ids[place] = miss.id
            function = f"{compile.name} id {ids.get(place, '')}"
            about["context"] = {forms.FUNCTION.key(): function} | self._config(miss, place)
            if miss is not None and (signature := parameters(file, line, compile.name)) is not None:
                about["guarded"] = _named(miss, signature)
        return about

    def _config(self, miss: _Miss | None, place: _Place) -> dict[str, str]:
        """The settings that JAX ever names as different for a function, as they were for this compile."""
        settings = self._settings[place]
        settings |= forms.CONFIG.at({name: now for name, now, _ in (miss.settings() if miss is not None else ())})
        return dict(settings)


def _named(miss: _Miss, signature: Parameters) -> dict[str, Args]:
    """The names of the arguments that an explanation speaks of by position."""
    positions = {int(at) for line in miss.lines for at in _POSITION.findall(line)}
    names = {f"[0][{at}]": signature.positional[at] for at in sorted(positions) if at < len(signature.positional)}
    if signature.rest is not None:
        names["[0]"] = signature.rest
    return {path: {"argument": name} for path, name in names.items()}


def _last(name: str) -> str:
    """A function's own name: before 0.6 an explanation has "fit.<locals>.step" where JAX's other lines have "step"."""
    return name.rpartition(".")[2]


def _seconds(text: str) -> int:
    return round(max(0.0, min(float(text), _MAX_DURATION_S)) * 1e9)


def _compiling(text: str) -> re.Match[str] | None:
    """The line on what is compiled, which may be as long as a program has arguments: looked for in one place only."""
    at = max(0, text.find("Compiling "))
    end = max(text.rfind(")."), text.rfind("].")) + 2
    return _COMPILING.match(text, at, end) or _COMPILING_PMAP.match(text, at) or _COMPILING_CUT.match(text, at)


def _types(types: str, places: str) -> list[str]:
    """Abstract values, from what JAX prints of shapes and of where each array lies."""
    where = [_place(match[1], match[2] or "") for match in _PLACE.finditer(places)]
    matches = list(islice(_TYPE.finditer(types), _MAX_LEAVES))
    where = where[:_MAX_LEAVES]
    if len(where) != len(matches):
        where = [""] * len(matches)
    return [f"{_type(match)}{place}" for match, place in zip(matches, where, strict=True)]


def _shape(type_: str) -> str:
    return type_.partition(" ")[0]


def _type(match: re.Match[str]) -> str:
    """ "float32[8@x,4]" with its weak type; the axes of a mesh are told with the place."""
    dims = ",".join(size.partition("@")[0] for size in match["dims"].split(","))
    return f"{dtype_text(match['dtype'])}[{dims}]{' weak' if match['weak'] else ''}"


def _place(kind: str | None, inside: str) -> str:
    """Where an array is pinned to, as the collector says it; nothing for one that is not. JAX 0.4.23 and older write
    `GSPMDSharding({replicated})` of both."""
    if kind is None or (kind, inside) == ("GSPMDSharding", "{replicated}"):
        return ""
    if kind == "NamedSharding":
        types = _AXIS_TYPES.search(inside)
        kinds = [word.strip() for word in types[1].split(",")] if types else []
        axes = [
            f"{name}={size}{':auto' if n < len(kinds) and kinds[n] == 'Auto' else ''}"
            for n, (name, size) in enumerate(_MESH.findall(inside))
        ]
        spec = _SPEC.search(inside)
        return f" @{(spec[1] if spec else 'P(').replace(' ', '')})/mesh({','.join(axes)}) committed"
    device = _DEVICE_ID.search(inside)
    at = f" @{device[1].lower()}:{device[2]}" if device and device[2] != "0" else ""
    return f"{at} committed"
