"""Compares two programs of one function, in any form that a trace keeps: inputs, operations, constants, and a diff.

The two are aligned by the text of their lines without the names of values, which every compiler numbers anew; the
diff is of the lines as they read once aligned values have one name. Programs of two stacks are not compared line by
line: `structure` looks at their dataflow.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import count
from operator import eq

from coldstep._util.gathered import gathered
from coldstep._util.slotted import field, slotted
from coldstep.analysis.programs import alignment, stablehlo
from coldstep.analysis.programs.operations import (
    INSTRUCTION,
    UNKNOWN,
    Differing,
    Place,
    by_place,
    differing,
    operation,
    places,
)
from coldstep.analysis.programs.sources import plain
from coldstep.model import IR_FORMS, Compile, Trace

_LARGE_LINES = 4_000
"""Lines beyond which the alignment may take frequent lines for noise; exact, it would take minutes."""
_CONTEXT_LINES = 2
_MAX_CANDIDATES = 12
"""Programs of one trace, the largest, among which the counterpart of another stack's is looked for."""

# PyTorch 2.13: "torch.ops.aten.mul.Tensor(primals_1, 0.5)"
_FLOAT = re.compile(r"(?<![\w.])(?P<value>-?\d+\.\d*(?:e[+-]?\d+)?)(?!\w)(?P<type>)")
"""Only numbers with a point: in a call, others are dimensions as often as not."""
_CONSTANT = {
    # JAX 0.10: "    %cst_0 = stablehlo.constant dense<1.000000e+01> : tensor<f32> loc(#loc37)"
    "stablehlo": re.compile(r"constant (?P<value>dense\S*<.*>|dense_resource\S*) : (?P<type>\S+)"),
    # JAX 0.10: "    g:f32[] = mul 0.10000000149011612:f32[] f"
    "jaxpr": re.compile(r"(?<![\w.:\[])(?P<value>-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)):(?P<type>\w+\[\S*?\])"),
    "fx": _FLOAT,
    "aot_joint_graph": _FLOAT,
    "aot_inference_graph": _FLOAT,
    # JAX 0.10: "  %constant.10 = f32[] constant(0.0200000014)"
    "optimized_hlo": re.compile(r"= (?P<type>\S+) constant\((?P<value>.*?)\)"),
    # torch_xla 2.9: "  %0 = f32[] prim::Constant(), xla_shape=f32[], value=2"
    "lazy_ir": re.compile(r"= (?P<type>\S+) prim::Constant\(\).*?value=(?P<value>[^,\s]+)"),
}
# JAX 0.10: "func.func public @main(%arg0: tensor<4xf32> loc("x")) -> (tensor<f32> {jax.result_info = "result"}) {"
# JAX 0.10: "{ lambda ; a:f32[4] b:f32[8,4] c:f32[4,2]. let"
# JAX 0.10: "ENTRY %main.2 (x.1: f32[4]) -> f32[] {"
_HEAD = re.compile(
    r"(?<=@main)\(.*(?= \{$)|(?<=def forward)\(.*(?=:$)|(?<=^ENTRY).*(?= \{$)|(?<=^\{ lambda ;).*(?= let$)"
)
"""A program's inputs, where it begins: the comparison of inputs has them."""
# JAX 0.10: "  ROOT %multiply.9 = f32[2,3]{1,0} multiply(%Arg_0.1, %broadcast.7), metadata={op_name="jit(f)/mul"}"
_NOISE = re.compile(r",? ?metadata=\{[^}]*\}|;  [^;\n]* = None$|(?<!\s)\s+# .*$|^# AOT ID: .*$", re.MULTILINE)
# JAX 0.10: "    %6 = stablehlo.subtract %arg0, %5 : tensor<4xf32> loc(#loc48)"
# PyTorch 2.13: "        mul: "f32[4, 3][3, 1]cpu" = l_x_ * 0;  l_x_ = None"
_TYPE = re.compile(r"tensor<[^>]*>|\b(?:bf16|f8\w+|[sufibc]\d+|pred|bool)\[[^\]]*\](?:\[[^\]]*\]\w*|\{[\d,:A-Z()]*\})?")
# JAX 0.10: "    %6 = stablehlo.subtract %arg0, %5 : tensor<4xf32> loc(#loc48)"
_TOKEN = re.compile(r"%?[A-Za-z_][\w.-]*|%\d+")
# PyTorch 2.13: "        mul: "f32[4, 3][3, 1]cpu" = l_x_ * 0;  l_x_ = None"
_PYTHON_TOKEN = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@slotted
class Diff:
    """How a function's second program differs from its first, in one form."""

    form: str
    lines: tuple[int, int]
    operations: dict[str, tuple[int, int]]
    """How often each operation occurs, where that differs."""
    constants: dict[str, tuple[int, int]]
    types: dict[tuple[str, str], int]
    """How many aligned operations have another type for nothing else that changed."""
    changes: list[str] = field(default_factory=list)
    """A diff of the two, values renamed; what differs in types only is left out."""
    places: list[Place] = field(default_factory=list)
    """Of each row of `changes` its line of code."""
    by_place: list[Differing] = field(default_factory=list)
    """The operations that one of the two has and the other has not, by line of code."""


@slotted
class Inputs:
    """What a second compile takes, against the first: by argument where there are names, else by type."""

    added: list[str]
    removed: list[str]
    changed: list[tuple[str, str, str]]
    """Argument, type before, type after."""


@slotted
class Pair:
    """Two compiles to be compared, and what came of it."""

    before: Compile
    after: Compile
    inputs: Inputs
    diffs: list[Diff]
    """One per form that both were kept in, for compiles of one stack."""
    names: tuple[str, str]
    """What to call the two: their stacks, or the difference between two of one stack."""
    structure: alignment.Comparison | None = None
    """For compiles of two stacks."""


def pairs(old: Trace, new: Trace, first: str | None = None, second: str | None = None) -> list[tuple[Compile, Compile]]:
    """The compiles to compare, among those named (see `named`): of one trace, every recompile with what it replaces,
    or the two of different names that are most alike; of two traces, the compiles of one function in both, or else the
    two most alike.

    Raises stablehlo.ParserError.
    """
    rows = named(old, first), named(new, second)
    if old is new and first == second:
        by_id = {row.id: row for row in rows[0]}
        replaced = ((by_id.get(new.details[row.id].previous or ""), row) for row in rows[1])
        return [(before, row) for before, row in replaced if before is not None]
    known = gathered(((row.stack, row.function, row.variant.n), row) for row in reversed(rows[0]) if old is not new)
    both = [(alike.pop(), row) for row in rows[1] if (alike := known[row.stack, row.function, row.variant.n])]
    return both or _most_alike(old, rows[0], new, rows[1])


def named(trace: Trace, wanted: str | None) -> list[Compile]:
    """The compiles of this id, function or stack whose programs were kept; with None, all of them."""
    kept = (row for row in trace.compiles if trace.details[row.id].programs)
    return [row for row in kept if wanted in (None, row.id, row.function, row.stack)]


def _most_alike(old: Trace, before: list[Compile], new: Trace, after: list[Compile]) -> list[tuple[Compile, Compile]]:
    """Of two stacks' programs, those with most contractions and the like in common; of one stack's, the largest."""
    stacks = [{row.stack for row in rows} for rows in (before, after)]
    if len(before) * len(after) > 1 and not stacks[0] & stacks[1]:
        sides = [_graphs(trace, rows) for trace, rows in ((old, before), (new, after))]
        scored = [(alignment.likeness(a, b), row, other) for row, a in sides[0] for other, b in sides[1]]
        if scored:
            _, one, two = max(scored, key=lambda score: score[0])
            return [(one, two)]
    largest = [
        max(rows, key=lambda row: max(map(len, trace.details[row.id].programs.values())), default=None)
        for trace, rows in ((old, before), (new, after))
    ]
    return [(largest[0], largest[1])] if largest[0] is not None and largest[1] is not None else []


def _graphs(trace: Trace, rows: list[Compile]) -> list[tuple[Compile, stablehlo.Graph]]:
    texts = [(row, text) for row in rows if (text := trace.details[row.id].programs.get("stablehlo")) is not None]
    texts.sort(key=lambda item: -len(item[1]))
    graphs, errors = [], []
    for row, text in texts[:_MAX_CANDIDATES]:
        try:
            graphs.append((row, stablehlo.parse(text)))
        except stablehlo.ParserError as error:
            errors.append(error)
    if errors and not graphs:
        raise errors[0]
    return graphs


def check_stablehlo(trace: Trace) -> None:
    """Raises stablehlo.ParserError where no StableHLO that a trace kept can be read."""
    _graphs(trace, trace.compiles)


def compare(old: Trace, before: Compile, new: Trace, after: Compile, names: tuple[str, str] | None = None) -> Pair:
    """The two programs, side by side, called by `names`, else by their stacks. Raises stablehlo.ParserError where two
    stacks have none that can be compared."""
    names = names or (before.stack, after.stack)
    texts = old.details[before.id].programs, new.details[after.id].programs
    if before.stack == after.stack:
        forms = [form for form in IR_FORMS if form in texts[0] and form in texts[1]]
        roots = old.run.root, new.run.root
        in_forms = [diff(form, texts[0][form], texts[1][form], roots) for form in forms]
        rows = [{row.argument: row.type for row in side.inputs or ()} for side in (before, after)]
        return Pair(before, after, _named(*rows), in_forms, names)
    modules = [text.get("stablehlo") for text in texts]
    if modules[0] is None or modules[1] is None:
        which = before if modules[0] is None else after
        raise stablehlo.ParserError(f"{which.function} ({which.stack}) was not kept as StableHLO")
    graphs = stablehlo.parse(modules[0], old.run.root), stablehlo.parse(modules[1], new.run.root)
    operations = _differing(*(_operations(graph) for graph in graphs))
    constants = _differing(*(Counter(_constants("stablehlo", text)) for text in modules if text is not None))
    lines = plain(modules[0]).rstrip().count("\n") + 1, plain(modules[1]).rstrip().count("\n") + 1
    in_forms = [Diff("stablehlo", lines, operations, constants, {})]
    types = [Counter(str(node.type) for node in graph.inputs) for graph in graphs]
    return Pair(before, after, _typed(*types), in_forms, names, alignment.compare(*graphs, names))


def _operations(graph: stablehlo.Graph) -> Counter[str]:
    values = (stablehlo.INPUT, stablehlo.OUTPUT, stablehlo.CONSTANT)
    return Counter(node.op for node in graph.nodes if node.op not in values)


def _named(was: dict[str, str], now: dict[str, str]) -> Inputs:
    return Inputs(
        [f"{name}: {type_}" for name, type_ in now.items() if name not in was],
        [f"{name}: {type_}" for name, type_ in was.items() if name not in now],
        [(name, was[name], type_) for name, type_ in now.items() if name in was and was[name] != type_],
    )


def _typed(was: Counter[str], now: Counter[str]) -> Inputs:
    added, removed = now - was, was - now
    return Inputs([_times(name, count) for name, count in added.items()],
                  [_times(name, count) for name, count in removed.items()], [])  # fmt: skip


def _times(name: str, count: int) -> str:
    return name if count == 1 else f"{name}, {count} times"


def _differing(was: Counter[str], now: Counter[str]) -> dict[str, tuple[int, int]]:
    names = sorted({*was, *now}, key=lambda name: (-abs(now[name] - was[name]), name))
    return {name: (was[name], now[name]) for name in names if was[name] != now[name]}


# --- one form, line by line -----------------------------------------------------------------------------------


@slotted
class _Line:
    op: str | None
    tokens: list[str]
    """The names of values in it, in order."""
    shape: str
    """Its text without those names."""
    bare: str
    """And without types."""
    types: list[str]
    place: Place


def diff(form: str, before: str, after: str, roots: tuple[str, str] = ("", "")) -> Diff:
    """How the text of a program differs from an earlier one in the same form; `roots` are the folders of the two."""
    texts = before, after
    known = [by_place(form, text, root) for text, root in zip(texts, roots, strict=True)]
    operations = [sum(side.values(), Counter[str]()) for side in known]
    old, new = (_read(form, text, root) for text, root in zip(texts, roots, strict=True))
    before, after = (plain(text).rstrip() if form == "stablehlo" else text for text in texts)
    constants = [Counter(_constants(form, _NOISE.sub("", text))) for text in (before, after)]
    types: dict[tuple[str, str], int] = {}
    changes = _changes(old, new, types)
    lines = before.count("\n") + 1, after.count("\n") + 1
    of_changes = [text for text, _ in changes], [place for _, place in changes]
    counted = _differing(*operations), _differing(*constants)
    return Diff(form, lines, *counted, types, *of_changes, differing(*known))


def _constants(form: str, text: str) -> Iterator[str]:
    pattern = _CONSTANT.get(form)
    for match in pattern.finditer(text) if pattern is not None else ():
        yield f"{match['value'][:60]} {match['type']}".rstrip()


def _read(form: str, text: str, root: str) -> list[_Line]:
    plain_text = plain(text) if form == "stablehlo" else text
    lines = [_NOISE.sub("", line).rstrip() for line in plain_text.replace("\0", " ").split("\n")]
    rows = list(zip(lines, places(form, text, root), strict=True))
    if form == "optimized_hlo":  # begins with tables of files and lines
        rows = rows[next((at for at, (line, _) in enumerate(rows) if line.endswith("{")), 0) :]
    rows = [(line, place) for line, place in rows if line.strip() and not line.startswith("module ")]
    pattern = INSTRUCTION.get(form)
    matches = [pattern.match(line) if pattern is not None else None for line, _ in rows]
    token = _PYTHON_TOKEN if pattern is INSTRUCTION["fx"] else _TOKEN
    names: set[str] = set()
    for (line, _), match in zip(rows, matches, strict=True):
        if match is not None and match["names"] is not None:
            names.update(name.partition(":")[0] for name in re.split(r"[, ]+", match["names"].strip()))
        elif match is None:  # inputs are named where a function begins
            names.update(re.findall(r"(?<![\w.%-])(%?[\w.-]+): ?(?:\"|tensor|\w+\[)", line))
    return [
        _line(_HEAD.sub("", line), None, UNKNOWN, names, token) if match is None
        else _line(line, operation(match), place, names, token)
        for (line, place), match in zip(rows, matches, strict=True)
    ]  # fmt: skip


def _line(text: str, op: str | None, place: Place, names: set[str], token: re.Pattern[str]) -> _Line:
    tokens: list[str] = []

    def blank(match: re.Match[str]) -> str:
        name = match[0]
        if name not in names or (name == op and text[: match.start()].endswith("= ")):
            return name
        tokens.append(name)
        return "\0"

    shape = token.sub(blank, text)
    return _Line(op, tokens, shape, _TYPE.sub("\1", shape), _TYPE.findall(shape), place)


def _changes(before: list[_Line], after: list[_Line], types: dict[tuple[str, str], int]) -> list[tuple[str, Place]]:
    """The diff, each row with its line of code, and in `types` what differs in types only."""
    names = _Names()
    rows: list[tuple[str, str, Place]] = []
    aligned = list(_aligned(before, after))
    for left, right in aligned:
        if left is not None and right is not None and (left.op is not None or left.bare == right.bare):
            names.meet(left, right)
    for left, right in aligned:
        was = names.of(left, 0) if left is not None else None
        now = names.of(right, 1) if right is not None else None
        alike = left is not None and right is not None and left.bare == right.bare and names.same(left, right)
        if left is not None and right is not None and alike:
            for pair in zip(left.types, right.types, strict=False):
                if pair[0] != pair[1]:
                    types[pair] = types.get(pair, 0) + 1
        if right is not None and now is not None and (alike or was == now):
            rows.append((" ", now, right.place))
            continue
        for sign, text, line in (("-", was, left), ("+", now, right)):
            if text is not None and line is not None:
                rows.append((sign, text, line.place))
    return list(_around(rows))


class _Names:
    """One name for what is aligned: the values of either program get theirs as they are met."""

    def __init__(self) -> None:
        self._numbers = count()
        self._known = defaultdict[str, str](self._new), defaultdict[str, str](self._new)

    def meet(self, left: _Line, right: _Line) -> None:
        for one, other in zip(left.tokens, right.tokens, strict=False):
            if one not in self._known[0] and other not in self._known[1]:
                self._known[0][one] = self._known[1][other] = self._new()

    def same(self, left: _Line, right: _Line) -> bool:
        names = [[self._known[side].get(token) for token in line.tokens] for side, line in ((0, left), (1, right))]
        return names[0] == names[1]

    def of(self, line: _Line, side: int) -> str:
        named = [self._known[side][token] for token in line.tokens]
        parts = line.shape.split("\0")
        return "".join(part + name for part, name in zip(parts, [*named, ""], strict=True))

    def _new(self) -> str:
        return f"%{next(self._numbers)}"


def _aligned(before: list[_Line], after: list[_Line]) -> Iterator[tuple[_Line | None, _Line | None]]:
    """Lines that say the same together, within what is left those that do but for their types, others alone."""
    for one, other in _blocks(before, after, [[line.shape for line in side] for side in (before, after)]):
        if len(one) == len(other) and all(a.shape == b.shape for a, b in zip(one, other, strict=True)):
            yield from zip(one, other, strict=True)
            continue
        for left, right in _blocks(one, other, [[line.bare for line in side] for side in (one, other)]):
            if len(left) == len(right) and all(a.op == b.op for a, b in zip(left, right, strict=True)):
                yield from zip(left, right, strict=True)
            else:
                yield from ((line, None) for line in left)
                yield from ((None, line) for line in right)


def _blocks(
    before: list[_Line], after: list[_Line], keys: list[list[str]]
) -> Iterator[tuple[list[_Line], list[_Line]]]:
    start = [*map(eq, *keys), False].index(False)
    end = [*map(eq, *(side[start:][::-1] for side in keys)), False].index(False)
    inner_a, inner_b = (side[start : len(side) - end] for side in keys)
    matcher = SequenceMatcher(None, inner_a, inner_b, autojunk=max(len(inner_a), len(inner_b)) > _LARGE_LINES)
    yield before[:start], after[:start]
    for _, a, b, c, d in matcher.get_opcodes():
        yield before[start + a : start + b], after[start + c : start + d]
    yield before[len(before) - end :], after[len(after) - end :]


def _around(rows: list[tuple[str, str, Place]]) -> Iterator[tuple[str, Place]]:
    """The changed rows and what stands around them; "…" where rows are left out."""
    changed = [at for at, (sign, _, _) in enumerate(rows) if sign != " "]
    shown = sorted(
        {n for at in changed for n in range(at - _CONTEXT_LINES, at + _CONTEXT_LINES + 1) if 0 <= n < len(rows)}
    )
    last = -1
    for at in shown:
        if at != last + 1:
            yield "…", UNKNOWN
        sign, text, place = rows[at]
        yield f"{sign} {text.strip()}", place
        last = at
