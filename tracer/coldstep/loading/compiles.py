"""What compiled in a process, and where a graph broke."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import cast

from coldstep._util.arguments import flag, number, text
from coldstep._util.gathered import gathered
from coldstep._util.slotted import field, slotted
from coldstep.events import CUDA_GRAPH, NOTHING, UNKNOWN, Args
from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Stretch, Timeline, segment_phases
from coldstep.model import (
    BreakKind,
    Cache,
    CacheState,
    Compile,
    Component,
    CudaGraph,
    CudaGraphKind,
    Details,
    DetailsById,
    Finding,
    GraphBreak,
    Input,
    Memory,
    Origin,
    Outcome,
    Segment,
    Severity,
    Signature,
    Through,
    Unrolled,
    Variant,
    Within,
)
from coldstep.pftrace import layout
from coldstep.rows.intervals import Alike, Intervals
from coldstep.rows.spans import covered
from coldstep.rows.variants import Candidate, Variants, counts_for_step_before, is_variant
from coldstep.signature import nearest, signature_of
from coldstep.vocabulary import OURS, is_of_program

_MEMORY = ("argument_bytes", "output_bytes", "temp_bytes", "reused_bytes")
_SEVERITIES: dict[str, Severity] = {"error": "error", "warning": "warning"}
_MOST_REPORTED = 1_000  # findings of a process's collectors of others


@slotted
class _CompileRows:
    """One compile's segments and all they said, in the order written."""

    slices: list[Slice] = field(default_factory=list)
    args: Args = field(default_factory=dict)


RowsById = dict[str, _CompileRows]


class CompileReader:
    """Reads compiles, graph breaks, CUDA graphs and what collectors of others found, when time is known."""

    def __init__(self, rows: Rows, time: Timeline, locations: Locations) -> None:
        self._rows = rows
        self._time = time
        self._locations = locations
        self._caches = CacheReader()
        self.libraries: dict[str, str] = {}
        """The library module in which a graph broke, by the id of the graph break, or of the compile that failed."""
        self.below: dict[str, str] = {}
        """Where in that library it broke, likewise."""

    def compiles(self, stretches: list[Stretch]) -> tuple[list[Compile], DetailsById]:
        """All compiles, and what else is known of each, by its id; each interval gets the compiles in it."""
        by_id: RowsById = {}
        for piece in self._rows.slices:
            if piece.category == layout.COMPILE:
                entry = by_id.setdefault(str(piece.args.get("compile")), _CompileRows())
                entry.slices.append(piece)
                entry.args |= piece.args
            elif (of := piece.args.get("of")) in by_id and "memory" in piece.args:
                by_id[of].args.setdefault("memory", piece.args["memory"])
        phases = segment_phases(stretches)
        intervals = self._time.intervals
        at_work = {self._time.at(piece.start) for entry in by_id.values() for piece in entry.slices}
        recorded = {graph.interval for graph in self.cuda_graphs()}
        intervals.apart(at_work | {max(0, index - 1) for index in at_work} | recorded)
        names = _names(intervals)
        compiles: list[Compile] = []
        details = DetailsById()
        done: dict[str, Candidate] = {}
        for compile_id, entry in by_id.items():
            compile_ = self._compile(compile_id, entry, phases)
            compiles.append(compile_)
            at = compile_.segments[0].interval
            name = names[at]
            if counts_for_step_before(compile_.stack) and intervals[at].kind == "between":
                at -= 1
            intervals[at].compiles.append(compile_id)
            known = details[compile_id] = self._details(compile_, entry.args)
            if entry.args.get("identity") and is_variant(compile_) and not self._lost(entry):
                done[compile_id] = Candidate(compile_id, compile_.stack, name, known.signature)
        self._caches.complete(compiles, details)
        self._tie({compile_.id: compile_ for compile_ in compiles}, details, done, by_id)
        return compiles, details

    def _lost(self, entry: _CompileRows) -> bool:
        """Whether nobody saw how it ended, though its process went on; a log may leave out the end."""
        watched = self._rows.is_whole and not any(note.startswith(layout.FROM_LOG) for note in self._rows.notes)
        return watched and "outcome" not in entry.args

    def graph_breaks(self, compiles: list[Compile]) -> list[GraphBreak]:
        """One row per compiled identity, user line and kind (of neither one: by the words); each compile gets the one
        that caused it."""
        by_id = {compile_.id: compile_ for compile_ in compiles}
        caused = gathered((compile_.caused_by, compile_) for compile_ in compiles if compile_.caused_by)
        by_place: dict[tuple[object, ...], GraphBreak] = {}
        followers: dict[str, list[Compile]] = defaultdict(list)
        for row in self._rows.breaks:
            args = row.args
            location = self._locations.read(args.get("location"))
            broken = by_id.get(str(args.get("compile")))
            line = (location.file, location.line) if location else None if broken else args.get("reason")
            key = (broken.key if broken else None, line, args.get("kind"))
            if (entry := by_place.get(key)) is None:
                break_id = f"{self._rows.prefix}b{len(by_place)}"
                entry = by_place[key] = self._break(break_id, args, broken, self._time.at(row.ns))
            entry.count += 1
            for follower in caused.pop(str(args.get("break")), []):
                follower.caused_by = entry.id
                entry.compiles.append(follower.id)
                followers[entry.id].append(follower)
        for entry in by_place.values():
            entry.cost_ns = _in_all([segment for follower in followers[entry.id] for segment in follower.segments])
        return list(by_place.values())

    def cuda_graphs(self) -> list[CudaGraph]:
        """The CUDA graphs that were recorded, and the runs that warmed up for them."""
        return [
            CudaGraph(
                kind=cast(CudaGraphKind, str(piece.args[CUDA_GRAPH])),
                compile=text(piece.args.get("of")),
                part=str(piece.args.get("part", "forward")),
                interval=self._time.at(piece.start),
                wall_ns=piece.end - piece.start,
                sizes=[int(size) for size in piece.args.get("sizes") or []],
                reason=text(piece.args.get("reason")),
            )
            for piece in self._rows.slices
            if CUDA_GRAPH in piece.args
        ]

    def findings(self, compiles: list[Compile]) -> Iterator[Finding]:
        """What collectors of others found, of the kinds that they declared."""
        by_id = {compile_.id: compile_ for compile_ in compiles}
        for row in self._rows.reported[:_MOST_REPORTED]:
            ours = OURS.findings.get(row.name)
            if (ours is not None and not ours.reported) or row.name not in self._rows.vocabulary.findings:
                continue
            about = by_id.get(str(row.args.get("compile")))
            interval = self._time.at(row.ns)
            yield Finding(
                id="",
                process=self._rows.process,
                kind=row.name,
                severity=_SEVERITIES.get(str(row.args.get("severity")), "note"),
                interval=interval,
                step=self._time.intervals[interval].step,
                cost_ns=0,
                location=self._locations.read(row.args.get("location"))
                or ((about.caller or about.location) if about else None),
                text=str(row.args.get("text", "")),
                evidence=[str(text) for text in row.args.get("evidence") or []],
                advice=str(row.args.get("advice") or ""),
                refs=[about.id] if about else [],
            )

    def _compile(self, compile_id: str, entry: _CompileRows, phases: dict[int, dict[str, int]]) -> Compile:
        args, start = entry.args, self._rows.start
        segments = [
            Segment(
                part=str(piece.args.get("part", "forward")),
                interval=self._time.at(piece.start),
                thread=piece.track.thread,
                start_ns=piece.start - start,
                wall_ns=piece.end - piece.start,
                phases=phases.get(id(piece), {}),
            )
            for piece in entry.slices
        ]
        limit = args.get("limit")
        unknown = {str(name) for name in args.get(UNKNOWN) or () if name not in args}
        return Compile(
            id=compile_id,
            process=self._rows.process,
            stack=self._rows.vocabulary.stack_of(entry.slices[0].track.kind),
            function=str(args.get("function", entry.slices[0].name)),
            origin=None if "origin" in unknown else cast(Origin, str(args.get("origin", "user"))),
            key=self._locations.key(str(args.get("key", ""))),
            location=self._locations.read(args.get("location")),
            caller=self._locations.read(args.get("caller")),
            parent=text(args.get("parent")),
            caused_by=text(args.get("caused_by")),
            reason="first",
            variant=Variant(1, int(limit) if limit is not None else None),
            outcome=cast(Outcome, str(args.get("outcome", "in_progress"))),
            wall_ns=_in_all(segments),
            segments=segments,
            inputs=None if "inputs" in unknown else _inputs(args.get("inputs")),
            caches=[self._caches.read(row) for row in args.get("caches") or []],
            fingerprint=text(args.get("fingerprint")),
            ir=self._graphs(compile_id, args.get("operations") or {}),
            memory=_memory(args.get("memory")),
            program=text(args.get("program")),
        )

    def _graphs(self, compile_id: str, operations: Args) -> dict[str, dict[str, int]] | None:
        """What is known of a compile's graph in each form: the lines of its text, where that was kept; operations."""
        graphs = {form: {"lines": text.count("\n") + 1} for form, text in self._rows.ir.get(compile_id, {}).items()}
        for form, counted in operations.items():
            graphs.setdefault(str(form), {})["operations"] = int(counted)
        return graphs or None

    def _details(self, compile_: Compile, args: Args) -> Details:
        failure, room = args.get("failure"), args.get("room")
        dynamic = {} if args.get("dynamic") == NOTHING else args.get("dynamic")
        self._locations.read(args.get("failed_in"))  # which has the function's lines
        return Details(
            identity=str(args.get("identity", "")) or compile_.id,
            signature=signature_of(args),
            framework_id=str(args.get("framework_id") or ""),
            error=str(args.get("error") or ""),
            guard_failures=[str(text) for text in args.get("guard_failures") or []],
            guarded={path: dict(looked) for path, looked in (args.get("guarded") or {}).items()},
            programs=self._rows.ir.get(compile_.id, {}),
            given_up=text(args.get("given_up")),
            dynamic={str(name): str(open_) for name, open_ in dynamic.items()} if dynamic is not None else None,
            static=flag(args.get("static")),
            sources=str(args.get("sources") or ""),
            through=_through(args.get("through")),
            within=self._within(args.get("within")),
            entry=bool(args.get("entry")),
            fullgraph=flag(args.get("fullgraph")),
            room=int(room) if room is not None else None,
            fed_back=[str(name) for name in args.get("fed_back") or []],
            effects=[str(name) for name in args.get("effects") or []],
            constants=_bytes(args.get("constants")),
            unrolled=self._unrolled(args.get("unrolled")),
            known_by=str(args.get("known_by") or ""),
            cause_at=self._locations.read(args.get("cause_at")),
            failure=self._break(compile_.id, failure, compile_, compile_.segments[0].interval) if failure else None,
            evidence=[str(text) for text in args.get("evidence") or []],
            variables=[str(name) for name in args.get("variables") or []],
            layout=str(args.get("layout") or ""),
        )

    def _unrolled(self, args: object) -> Unrolled | None:
        if not isinstance(args, dict) or (location := self._locations.read(args.get("location"))) is None:
            return None
        turns, operations, of, called = (int(args.get(key) or 0) for key in ("turns", "operations", "of", "called"))
        return Unrolled(location, turns, operations, of, called, bool(args.get("layers")))

    def _within(self, args: object) -> Within | None:
        if not isinstance(args, dict):
            return None
        location, caller, jittable, made_at, looped_at = (
            self._locations.read(args.get(key)) for key in ("location", "caller", "jittable", "made_at", "looped_at")
        )
        function, made, by = (str(args.get(key) or "") for key in ("function", "made", "by"))
        given = _inputs(args.get("arguments"))
        return Within(function, given, location, caller, jittable, made_at, made, by, looped_at)

    def _tie(
        self, compiles: dict[str, Compile], details: DetailsById, done: dict[str, Candidate], rows: RowsById
    ) -> None:
        """Say of each recompile what it replaces; what a kill left open comes last."""
        variants = Variants()
        before: dict[str, list[Signature]] = defaultdict(list)
        made = self._rows.made
        for compile_id in [*(c for c in made if c in done), *(c for c in done if c not in made)]:
            compile_, known, args = compiles[compile_id], details[compile_id], rows[compile_id].args
            replaced = variants.add(known.identity, done[compile_id])
            compile_.variant.n = len(variants.of(known.identity))
            others = before[known.identity]
            if args.get("earlier"):
                others += [signature_of(each) for each in args.get("before") or [] if isinstance(each, dict)]
            candidates = [*others, *([replaced.signature] if replaced is not None else [])]
            at = nearest(candidates, known.signature) if others else len(others)
            if at < len(others):
                known.before = others[at]
            elif replaced is not None:
                known.previous = replaced.id
            if replaced is not None or args.get("earlier"):
                compile_.reason = "recompile"
            if args.get("earlier"):
                compile_.variant.n = max(compile_.variant.n, int(args.get("variant") or 1))

    def _break(self, id_: str, args: Args, broken: Compile | None, interval: int) -> GraphBreak:
        """A graph break as its arguments tell it, not counted yet."""
        if library := args.get("library"):
            self.libraries[id_] = str(library)
        if isinstance(below := args.get("below"), dict):
            code = f": {below['code']}" if below.get("code") else ""
            function = f" in {below['function']}" if below.get("function") else ""
            self.below[id_] = f"{below.get('module')}:{below.get('line')}{function}{code}"
        return GraphBreak(
            id=id_,
            process=self._rows.process,
            kind=cast(BreakKind, str(args.get("kind", "other"))),
            reason=str(args.get("reason", "")),
            function=str(args.get("function", "")),
            location=self._locations.read(args.get("location")),
            stack=[place for item in args.get("stack") or [] if (place := self._locations.read(item))],
            compile=broken.id if broken else None,
            interval=interval,
            step=self._time.intervals[interval].step,
            count=0,
            compiles=[],
            cost_ns=0,
            hints=[str(hint) for hint in args.get("hints") or []],
            advice="",
        )


def _in_all(segments: list[Segment]) -> int:
    """The time in which any of them went on."""
    return covered((segment.start_ns, segment.start_ns + segment.wall_ns) for segment in segments)


def _bytes(value: object) -> dict[str, int]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(type_): size for type_, size in pairs if isinstance(size, int) and size >= 0}


def _through(args: object) -> Through | None:
    return Through(str(args.get("function", "")), _inputs(args.get("arguments"))) if isinstance(args, dict) else None


def _memory(args: Args | None) -> Memory | None:
    return Memory(**{name: number(args.get(name)) for name in _MEMORY}) if args else None


def _inputs(rows: list[Args] | None) -> list[Input]:
    return [Input(str(row["argument"]), str(row["type"])) for row in rows or []]


def _names(intervals: Intervals) -> dict[int, str | None]:
    """Of each interval that is not alike others: the name of the last step that was marked, itself included."""
    names: dict[int, str | None] = {}
    name = None
    for part in intervals.parts:
        if isinstance(part, Alike):
            name = part.name if part.by is None else name
            continue
        if part.kind == "step" and part.source == "marked":
            name = part.name
        names[part.index] = name
    return names


# --- disk caches' answers to compiles --------------------------------------------------------------------------------


class CacheReader:
    """Reads the cache rows of one process's compiles."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._options: dict[tuple[str, str], dict[str, str]] = {}

    def read(self, row: Args) -> Cache:
        """One row of a compile."""
        state = cast(CacheState, str(row["state"]))
        return Cache(
            layer=str(row["layer"]),
            state=state,
            saved_ns=number(row.get("saved_ns")),
            part=text(row.get("part")),
            count=int(row.get("count", 1)),
            hits=int(row.get("hits", state == "hit")),
            key=text(row.get("key")),
            components=[self._component(component) for component in row.get("components") or []],
            written=flag(row.get("written")),
            why=text(row.get("why")),
            why_text=str(row.get("why_text", "")),
            load_ns=number(row.get("load_ns")),
            self_ns=number(row.get("self_ns")),
        )

    def complete(self, compiles: list[Compile], details: Mapping[str, Details]) -> None:
        """When all are read: give each component its words, and each compile its unusual components."""
        for compile_ in compiles:
            for cache in compile_.caches:
                for component in cache.components:
                    named = component.name, component.hash
                    component.text = self._texts.get(named)
                    if named in self._options:
                        details[compile_.id].options[component.hash] = self._options[named]
        usual = _usual(compiles)
        for compile_ in compiles:
            compile_.components = {
                component.name: component.text
                for cache in compile_.caches
                for component in cache.components
                if usual.get((cache.layer, component.name), component.hash) != component.hash
            }

    def _component(self, row: Args) -> Component:
        component = Component(str(row["name"]), str(row["hash"]), None)
        if "text" in row:
            self._texts.setdefault((component.name, component.hash), str(row["text"]))
        if "options" in row:
            options = {str(name): str(text) for name, text in row["options"].items()}
            self._options.setdefault((component.name, component.hash), options)
        return component


def _usual(compiles: list[Compile]) -> dict[tuple[str, str], str]:
    """By layer and name, the hash that most compiles have of each component that is not the program itself."""
    hashes = gathered(
        ((cache.layer, component.name), component.hash)
        for compile_ in compiles
        for cache in compile_.caches
        for component in cache.components
        if not is_of_program(component.name)
    )
    return {named: Counter(several).most_common(1)[0][0] for named, several in hashes.items()}
