"""Compares one model's programs from two stacks: aligns their dataflow and reports how each aligned stretch differs.

Nothing here knows a layer. The operations that no compiler can express otherwise (contractions, gathers, the outputs)
are the anchors; they are paired by what they compute and where they stand. Every other operation belongs to the first
anchor that needs it, so that paired anchors pair the stretches between them. Within such a stretch equal operations are
paired, and the rest, joined where it hangs together, is a difference.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from math import prod
from operator import attrgetter

from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.analysis.programs.sources import Spot
from coldstep.analysis.programs.stablehlo import CONSTANT, INPUT, OUTPUT, Graph, Node

_MOVES = {"reshape", "broadcast_in_dim", "transpose", "convert", "copy", "optimization_barrier"}
"""What puts the same values elsewhere: the dataflow is looked at through these."""
_ANCHORS = {
    "dot_general", "dot", "convolution", "gather", "dynamic_gather", "scatter", "sort", "fft", "cholesky",
    "triangular_solve", "custom_call", OUTPUT,
}  # fmt: skip
# StableHLO: "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0],
# lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>"
_LISTED = re.compile(r"(\w+) = \[([\d, ]*)\]")
# StableHLO: "array<i64: 1, 8>"
_SLICES = re.compile(r"array<i64: ([\d, ]+)>")

Dims = tuple[int, ...]


@slotted
class Place:
    """Where a difference shows: the operations concerned, in either module."""

    a: list[Spot]
    b: list[Spot]


@slotted
class Difference:
    """One way in which the two programs differ, and everywhere that it does.

    `kind`: shape (one flattens dimensions that the other keeps), operations, constant (a literal against a
    computation), layout (one transposes an input).
    """

    kind: str
    text: str
    places: list[Place]


@slotted
class Comparison:
    """How two programs differ; `aligned` counts the pairs of anchors that this rests on, of `anchors` in either."""

    aligned: int
    anchors: tuple[int, int]
    differences: list[Difference]


def compare(a: Graph, b: Graph, names: tuple[str, str]) -> Comparison:
    """The differences between two programs of one model; `names` is what to call them."""
    aligned = _Alignment(_Program(a), _Program(b))
    differing = [*aligned.shapes(names), *aligned.operations(names), *aligned.constants(names), *aligned.layouts(names)]
    counts = tuple(sum(node.op != OUTPUT for node in side.anchors) for side in (aligned.a, aligned.b))
    pairs = sum(left.op != OUTPUT for left, _ in aligned.pairs)
    return Comparison(pairs, (counts[0], counts[1]), differing)


def likeness(a: Graph, b: Graph) -> tuple[int, float]:
    """How many anchors two programs have in common, and how many of all that is."""
    one, other = (
        Counter(_signature(node) for node in graph.nodes if _is_anchor(node) and node.op != OUTPUT) for graph in (a, b)
    )
    common = (one & other).total()
    return common, common / max(1, (one | other).total())


# --- one program ----------------------------------------------------------------------------------------------


class _Program:
    """A graph as the alignment sees it: moves are looked through."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operands: dict[Node, list[Node]] = {}
        self.users: dict[Node, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            if node.op not in _MOVES:
                self.operands[node] = [_source(*operand) for operand in node.operands]
                for operand in self.operands[node]:
                    self.users[operand].append(node)
        live = self._live()
        self.operands = {node: operands for node, operands in self.operands.items() if node in live}
        self.anchors = [node for node in self.operands if _is_anchor(node)]
        self._bits = {node: 1 << at for at, node in enumerate(self.anchors)}
        self.before = self._nearest(self.operands, self.operands)
        self.after = self._nearest(reversed(self.operands), self.users)
        depth = self._depth(self.operands, self.operands)
        height = self._depth(reversed(self.operands), self.users)
        self.anchors.sort(key=lambda node: (depth[node], -height[node], str(_signature(node)), node.order))
        self.wrapped = self._find_wrapped()

    def _find_wrapped(self) -> dict[Node, Node]:
        """For what was inlined from a function around a single anchor, that anchor."""
        anchors = gathered(
            (anchor.calls[: depth + 1], anchor) for anchor in self.anchors for depth in range(len(anchor.calls))
        )
        return {
            node: alone[0]
            for node in self.operands
            if (alone := next((f for d in range(len(node.calls)) if len(f := anchors[node.calls[: d + 1]]) == 1), None))
        }

    def _live(self) -> set[Node]:
        live = set(self.graph.outputs)
        for node in reversed(self.operands):
            if node in live:
                live.update(self.operands[node])
        return live

    def _nearest(self, order: Iterable[Node], edges: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
        """The anchors next to each node, as bits, following `edges`."""
        by_node: dict[Node, int] = {}
        for node in order:
            bits = 0
            for other in edges.get(node, ()):
                bits |= self._bits.get(other) or by_node.get(other, 0)
            by_node[node] = bits
        return by_node

    def _depth(self, order: Iterable[Node], edges: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
        """How many anchors lie at most on a way to each node, following `edges`."""
        depths: dict[Node, int] = {}
        for node in order:
            others = (other for other in edges.get(node, ()) if other in depths)
            depths[node] = max((depths[other] + (other in self._bits) for other in others), default=0)
        return depths

    def neighbours(self, anchor: Node, known: dict[Node, int]) -> set[tuple[str, int]]:
        """The pairs that are next to an anchor, on either side; `known` numbers them."""
        return {
            (way, pair)
            for way, bits in (("before", self.before[anchor]), ("after", self.after[anchor]))
            for node, pair in known.items()
            if bits & self._bits[node]
        }


_order = attrgetter("order")


def _way(node: Node, number: int) -> Iterator[Node]:
    """A node, and behind each that moves values what it moves."""
    yield node
    while node.op in _MOVES:
        node, number = node.operands[number if node.op == "optimization_barrier" else 0]
        yield node


def _source(node: Node, number: int) -> Node:
    *_, source = _way(node, number)
    return source


def _is_anchor(node: Node) -> bool:
    return node.op.partition(" ")[0] in _ANCHORS


def _is_value(node: Node) -> bool:
    """Whether a node stands for values that are just there, and computes nothing from others."""
    return node.op in (INPUT, CONSTANT, "iota")


def _signature(node: Node) -> tuple[object, ...]:
    """What an anchor computes, whatever shape it is in."""
    op = node.op.partition(" ")[0]
    if op == "dot_general":
        batch, left, right, inner = (prod(dims) for dims in _roles(node))
        return op, batch, *sorted((left, right)), inner
    if op == "gather":
        return op, node.operands[0][0].types[node.operands[0][1]].elements, prod(_slice_sizes(node))
    return node.op, node.type.elements


def _roles(dot: Node) -> tuple[Dims, Dims, Dims, Dims]:
    """A contraction's dimensions: batch, left, right, contracted; those of size 1 left out."""
    dimensions = {
        name: [int(at) for at in numbers.split(",") if at.strip()]
        for name, numbers in _LISTED.findall(dot.attributes.get("dot_dimension_numbers", ""))
    }
    (left, number), (right, other) = dot.operands
    left_dims, right_dims = left.types[number].dims, right.types[other].dims
    batch = dimensions.get("lhs_batching_dimensions", []), dimensions.get("rhs_batching_dimensions", [])
    inner = dimensions.get("lhs_contracting_dimensions", []), dimensions.get("rhs_contracting_dimensions", [])
    return (
        _without_ones(left_dims[at] for at in batch[0]),
        _without_ones(size for at, size in enumerate(left_dims) if at not in batch[0] and at not in inner[0]),
        _without_ones(size for at, size in enumerate(right_dims) if at not in batch[1] and at not in inner[1]),
        _without_ones(left_dims[at] for at in inner[0]),
    )


def _slice_sizes(gather: Node) -> Dims:
    match = _SLICES.search(gather.attributes.get("slice_sizes", ""))
    return tuple(int(size) for size in match[1].split(",")) if match else ()


def _without_ones(dims: Iterable[int]) -> Dims:
    return tuple(size for size in dims if size != 1)


# --- two programs ---------------------------------------------------------------------------------------------


class _Alignment:
    """The pairs of anchors, and, in the stretches between them, the pairs of other operations."""

    def __init__(self, a: _Program, b: _Program) -> None:
        self.a, self.b = a, b
        self.pairs = self._pair_anchors()
        self.number: dict[Node, int] = {}
        for at, pair in enumerate(self.pairs):
            self.number.update(dict.fromkeys(pair, at))
        regions_a, regions_b = (self._regions(side, at) for at, side in enumerate((a, b)))
        self.regions = list(zip(regions_a, regions_b, strict=True))
        self.matched: list[tuple[Node, Node]] = list(self.pairs)
        for left, right in self.regions:
            self._match(left, right)

    def _pair_anchors(self) -> list[tuple[Node, Node]]:
        left, right = self.a.anchors, self.b.anchors
        old, new = ([_signature(node) for node in side] for side in (left, right))
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        pairs = [(left[i + k], right[j + k]) for i, j, size in blocks for k in range(size)]
        # what the two stacks have in another order: by what it computes, then by what it stands next to
        known_a, known_b = ({pair[side]: at for at, pair in enumerate(pairs)} for side in (0, 1))
        spare = gathered((_signature(node), node) for node in right if node not in known_b)
        for node in left:
            if node in known_a or not (candidates := spare[_signature(node)]):
                continue
            around = self.a.neighbours(node, known_a) if len(candidates) > 1 else set()
            best = max(candidates, key=lambda other: len(around & self.b.neighbours(other, known_b)) if around else 0)
            candidates.remove(best)
            known_a[node] = known_b[best] = len(pairs)
            pairs.append((node, best))
        rank = {node: at for at, node in enumerate(left)}
        return sorted(pairs, key=lambda pair: rank[pair[0]])

    def _regions(self, side: _Program, at: int) -> Iterator[list[Node]]:
        """Per pair of anchors, the operations that it is the first to need."""
        taken: set[Node] = set()
        for pair in self.pairs:
            region: list[Node] = []
            wanted = list(side.operands[pair[at]])
            while wanted:
                node = wanted.pop()
                if node in taken or node in self.number or _is_value(node):
                    continue
                taken.add(node)
                region.append(node)
                wanted += side.operands[node]
            yield sorted(region, key=_order)

    def _match(self, left: list[Node], right: list[Node]) -> None:
        """Pair the equal operations of a stretch, those first that have most around them in common."""
        candidates = gathered(((node.op, node.type.elements), node) for node in right)
        around = {node: self._around(node, side) for side, nodes in ((self.a, left), (self.b, right)) for node in nodes}
        scored = [
            (sum((around[node] & around[other]).values()), -abs(i - j), node, other)
            for i, node in enumerate(left)
            for j, other in enumerate(candidates[node.op, node.type.elements])
        ]
        for _, _, node, other in sorted(scored, key=lambda row: row[:2], reverse=True):
            if node not in self.number and other not in self.number:
                self.number[node] = self.number[other] = len(self.matched)
                self.matched.append((node, other))

    def _around(self, node: Node, side: _Program) -> Counter[object]:
        before = Counter[object](("before", self._label(other)) for other in side.operands[node])
        return before + Counter[object](("after", self._label(other)) for other in side.users[node])

    def _label(self, node: Node) -> object:
        return self.number.get(node, node.op) if _is_anchor(node) else node.op

    # --- what differs -----------------------------------------------------------------------------------------

    def shapes(self, names: tuple[str, str]) -> Iterator[Difference]:
        """Dimensions that one program flattens into one and the other keeps."""
        by_shape = gathered(
            (key, (left, right))
            for left, right in self.matched
            for key in {key for pair in _shapes(left, right) for key in _flattened(*pair)}
        )
        for (who, kept, flat), pairs in sorted(by_shape.items(), key=lambda item: -len(item[1])):
            operations = _listed(Counter(node.op for node, _ in pairs))
            dims = " by ".join(map(str, kept)) + self._data(kept)
            text = f"{names[who]} flattens {dims} into {flat}, where {names[1 - who]} keeps the dimensions apart"
            text += f": {operations}"
            yield Difference("shape", text, [Place([left.spot], [right.spot]) for left, right in pairs])

    def _data(self, dims: Dims) -> str:
        for side in (self.a, self.b):
            for node in side.graph.inputs:
                if node.type.dims == dims and "i" in node.type.dtype:
                    return f" (the dimensions of the input {node.type})"
        return ""

    def operations(self, names: tuple[str, str]) -> Iterator[Difference]:
        """What stands at the same place of the dataflow, and is computed by other operations."""
        left, right = (self._components(side) for side in (self.a, self.b))
        by_text: dict[str, list[Place]] = defaultdict(list)
        for one, other in self._opposite(left, right):
            anchors = self._wrapped(one, self.a, 0) or self._wrapped(other, self.b, 1) or ()
            nodes = [[*one, *anchors[:1]], [*other, *anchors[1:]]]
            spots = [
                _spots(nodes[0]) or self._neighbours(other, self.b, 0),
                _spots(nodes[1]) or self._neighbours(one, self.a, 1),
            ]
            same = {way for way, _ in self._edges(one, self.a) & self._edges(other, self.b)} == {"before", "after"}
            text = _where(nodes[0], nodes[1], names, bool(anchors), same)
            if not one or not other:
                text += self._before_what(*((one, self.a) if one else (other, self.b)))
            by_text[text].append(Place(spots[0], spots[1]))
        for text, places in sorted(by_text.items(), key=lambda item: -len(item[1])):
            yield Difference("operations", text, places)

    def _wrapped(self, nodes: list[Node], side: _Program, at: int) -> tuple[Node, Node] | None:
        """The pair of anchors of which one is what a component's helper function is wrapped around."""
        anchor = next((anchor for node in nodes if (anchor := side.wrapped.get(node)) is not None), None)
        if anchor is None or anchor not in self.number:
            return None
        return self.matched[self.number[anchor]]

    def _before_what(self, nodes: list[Node], side: _Program) -> str:
        """What the result of `nodes` goes to, where that is one kind of operation."""
        at = 0 if side is self.a else 1
        ops = {self.matched[number][at].op for way, number in self._edges(nodes, side) if way == "after"}
        return f", before {ops.pop()}" if len(ops) == 1 else ""

    def _neighbours(self, nodes: list[Node], side: _Program, at: int) -> list[Spot]:
        """Where the other program does without what `nodes` do: at what they stand next to."""
        return _spots(self.matched[number][at] for _, number in self._edges(nodes, side))

    def _components(self, side: _Program) -> list[list[Node]]:
        """The operations without a counterpart: those together that feed each other, or that wrap one anchor."""
        components: list[list[Node]] = []
        wrappers: dict[Node, list[Node]] = {}
        for region in (pair[0 if side is self.a else 1] for pair in self.regions):
            group: dict[Node, list[Node]] = {}
            for node in region:
                if node in self.number:
                    continue
                if (anchor := side.wrapped.get(node)) is not None:
                    wrappers.setdefault(anchor, []).append(node)
                    continue
                component = group[node] = [node]
                for other in [group[operand] for operand in side.operands[node] if operand in group]:
                    if other is not component:
                        other += component
                        group.update(dict.fromkeys(component, other))
                        component = other
            components += {id(nodes): nodes for nodes in group.values()}.values()
        return [*wrappers.values(), *(sorted(nodes, key=_order) for nodes in components)]

    def _opposite(self, left: list[list[Node]], right: list[list[Node]]) -> Iterator[tuple[list[Node], list[Node]]]:
        """Each component with the one of the other program that stands between the same operations."""
        edges_b = [self._edges(nodes, self.b) for nodes in right]
        by_edge = gathered((edge, at) for at, edges in enumerate(edges_b) for edge in edges)
        scored: list[tuple[int, int, int]] = []
        for at, nodes in enumerate(left):
            edges = self._edges(nodes, self.a)
            shared = Counter(other for edge in edges for other in by_edge[edge])
            scored += [(count, at, other) for other, count in shared.items()]
        free_a, free_b = set(range(len(left))), set(range(len(right)))
        for _, at, other in sorted(scored, key=lambda row: -row[0]):
            if at in free_a and other in free_b:
                free_a.remove(at)
                free_b.remove(other)
                yield left[at], right[other]
        yield from ((left[at], []) for at in sorted(free_a))
        yield from (([], right[other]) for other in sorted(free_b))

    def _edges(self, nodes: list[Node], side: _Program) -> set[tuple[str, int]]:
        inside = set(nodes)
        return {
            (way, self.number[other])
            for node in nodes
            for way, others in (("before", side.operands[node]), ("after", side.users[node]))
            for other in others
            if other not in inside and other in self.number
        }

    def constants(self, names: tuple[str, str]) -> Iterator[Difference]:
        """What one program holds as a literal table and the other computes, or lacks."""
        by_table: dict[tuple[int, str, str], list[tuple[list[Node], list[Node]]]] = defaultdict(list)
        for pair, (left, right) in zip(self.pairs, self.regions, strict=True):
            values = [_values(side, [*nodes, anchor]) for side, nodes, anchor in
                      ((self.a, left, pair[0]), (self.b, right, pair[1]))]  # fmt: skip
            counters = [[node for node in nodes if node.op == "iota"] for nodes in values]
            for who in (0, 1):
                theirs = {node.table for node in values[1 - who]}
                computed = [] if counters[who] else counters[1 - who]
                for table in (node for node in values[who] if node.table and node.table not in theirs):
                    place = ([table], computed) if who == 0 else (computed, [table])
                    by_table[who, f"{table.table} ({table.type})", "iota" if computed else ""].append(place)
        for (who, table_words, how), places in by_table.items():
            other = f"{names[1 - who]} computes it with {how}" if how else f"{names[1 - who]} has no such table"
            text = f"{names[who]} holds the literal table {table_words}; {other}"
            yield Difference("constant", text, [Place(_spots(one), _spots(two)) for one, two in places])

    def layouts(self, names: tuple[str, str]) -> Iterator[Difference]:
        """Inputs that one program transposes before it uses them."""
        by_operation: dict[tuple[int, str], list[Place]] = defaultdict(list)
        for left, right in self.pairs:
            turned = _transposed_inputs(left), _transposed_inputs(right)
            if turned[0] != turned[1]:
                by_operation[int(turned[0] < turned[1]), left.op].append(Place([left.spot], [right.spot]))
        for (who, op), places in by_operation.items():
            yield Difference("layout", f"{names[who]} transposes an input of {op}, {names[1 - who]} does not", places)


def _where(one: list[Node], other: list[Node], names: tuple[str, str], wrapped: bool, same: bool) -> str:
    """In words, what two programs have at one place; `same` where it takes and gives the same values."""
    lists = [_listed(Counter(node.op for node in sorted(nodes, key=_order))) for nodes in (one, other)]
    if not one or not other:
        at = 0 if one else 1
        return f"only {names[at]} has {lists[at]}"
    at = 0 if len(one) < len(other) or (len(one) == len(other) and wrapped and not one[0].calls) else 1
    verb = "writes out the steps" if same and len((one, other)[at]) == 1 < len((one, other)[1 - at]) else "has"
    if wrapped and (calls := (one, other)[1 - at][0].calls):
        verb = f"calls @{calls[0][0]}:"
    return f"{names[at]} has {lists[at]} where {names[1 - at]} {verb} {lists[1 - at]}"


def _shapes(left: Node, right: Node) -> Iterator[tuple[Dims, Dims]]:
    """Dimensions of two paired operations that hold the same."""
    if left.op == "dot_general":
        roles = _roles(left), _roles(right)
        if prod(roles[0][1]) != prod(roles[1][1]):  # left and right changed places
            roles = roles[0], (roles[1][0], roles[1][2], roles[1][1], roles[1][3])
        yield from zip(*roles, strict=True)
    elif left.op != OUTPUT:
        yield _without_ones(left.type.dims), _without_ones(right.type.dims)


def _flattened(left: Dims, right: Dims) -> Iterator[tuple[int, Dims, int]]:
    """Which of two equally large shapes (0, 1) makes one dimension of several, of which, and how large."""
    if prod(left) != prod(right):
        return
    merged: list[tuple[int, Dims, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        groups = [left[i]], [right[j]]
        while (sizes := (prod(groups[0]), prod(groups[1])))[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                i += 1
                groups[0].append(left[i])
            else:
                j += 1
                groups[1].append(right[j])
        i, j = i + 1, j + 1
        if len(groups[0]) > 1 and len(groups[1]) > 1:
            return  # in another order: no flattening
        if len(groups[0]) != len(groups[1]):
            who = 0 if len(groups[0]) == 1 else 1
            merged.append((who, tuple(groups[1 - who]), groups[who][0]))
    yield from merged


def _values(side: _Program, nodes: list[Node]) -> list[Node]:
    """The literals and counters that these operations read."""
    return list(dict.fromkeys(v for node in nodes for v in side.operands[node] if v.op == "iota" or v.table))


def _transposed_inputs(anchor: Node) -> int:
    """How many operands are an input that is transposed on its way."""
    ways = [[node.op for node in _way(*operand)] for operand in anchor.operands]
    return sum(ops[-1] == INPUT and "transpose" in ops for ops in ways)


def _spots(nodes: Iterable[Node]) -> list[Spot]:
    by_line = {node.spot.line: node.spot for node in nodes}
    return [by_line[line] for line in sorted(by_line)]


def _listed(ops: Counter[str]) -> str:
    return ", ".join(op if count == 1 else f"{count} {op}" for op, count in ops.items())
