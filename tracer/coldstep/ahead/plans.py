"""What can be done about a size that varies, each with its price: leave it, mark it dynamic, or pad it to K sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any

from coldstep._util.slotted import field, slotted
from coldstep.ahead.forecast_rows import Foretold, Sizes
from coldstep.ahead.prices import Prices
from coldstep.ahead.work import NotMeasured, by_size, work_of

_MOST_BUCKETS = 16
_MOST_CURVES = 4
_PRICED = ("kind", "buckets", "compiles", "padding_share", "total_ns")
_ENOUGH = 0.1  # of the padded work is padding: what is chosen at most where no price is known


@slotted
class Plan:
    """One thing that can be done about a size, and what it would lead to."""

    kind: str
    """as_it_is | dynamic | longest | buckets"""
    buckets: list[int]
    """The sizes that there would be; empty where the size is left open."""
    compiles: int | None
    """How often the function would compile; None where that is not known."""
    padding_share: float
    """The part of all work that is padding."""
    total_ns: int | None
    """All compiles and all steps; None where no earlier trace shows their price."""
    code: str
    """What to write; empty where nothing is to be done."""


@slotted
class Curve:
    """The plans for one size that varies."""

    places: list[Place]
    """Where it is found: dimensions that always vary together."""
    sizes: list[int]
    """What it is, call by call, where the argument is there."""
    plans: list[Plan]
    """As it is, marked dynamic where that is possible, then with 1, 2 … sizes."""
    chosen: int
    """Which of the plans is the cheapest; where no price is known, the first with little padding."""
    step_ns: dict[int, int] = field(default_factory=dict)
    """By size, the steady step in an earlier trace, as far as it shows that; empty where work grows with the size."""
    why: str = ""
    """Why an earlier trace does not show it."""

    def place(self) -> dict[str, Any]:
        """The first of its places, as the schema has it."""
        return dict(zip(("argument", "dimension"), self.places[0], strict=True))

    def work(self) -> dict[str, Any]:
        """Where its plans' work comes from, likewise."""
        by = "steps" if self.step_ns else "size"
        return {**self.place(), "work_by": by, "why": self.why, "step_ns": self.step_ns}

    def to_json(self) -> list[dict[str, Any]]:
        """A row per plan, likewise."""
        rows = []
        for number, plan in enumerate(self.plans):
            priced = {name: getattr(plan, name) for name in _PRICED}
            rows.append(self.place() | priced | {"chosen": number == self.chosen, "code": plan.code})
        return rows


def curves(foretold: Foretold, prices: Prices) -> list[Curve]:
    """One curve for each size that varies between calls; sizes that always vary together are one."""
    together: dict[tuple[int | None, ...], list[Place]] = {}
    distinct = list({id(row): row for row in foretold.sizes}.values())  # calls that are alike may share a row
    for place in _places(distinct):
        if len({_size(row.shapes, place) for row in distinct}) == 1:
            continue
        series = tuple(_size(row.shapes, place) for row in foretold.sizes)
        if len({size for size in series if size is not None}) > 1:
            together.setdefault(series, []).append(place)
    return [_curve(foretold, prices, places) for places in list(together.values())[:_MOST_CURVES]]


def _places(rows: list[Sizes]) -> Iterator[Place]:
    """Every dimension of every array, of those whose rank does not change."""
    ranks: dict[str, set[int]] = {}
    for row in rows:
        for argument, shape in row.shapes.items():
            ranks.setdefault(argument, set()).add(len(shape))
    for argument, several in ranks.items():
        if len(several) == 1:
            yield from ((argument, dimension) for dimension in range(*several))


def _size(shapes: Mapping[str, tuple[int, ...]], place: Place) -> int | None:
    argument, dimension = place
    return shapes[argument][dimension] if argument in shapes else None


def _curve(foretold: Foretold, prices: Prices, places: list[Place]) -> Curve:
    sizes = [size for row in foretold.sizes if (size := _size(row.shapes, places[0])) is not None]
    distinct = sorted(set(sizes))
    step_ns, why = _measured(foretold, prices, places)
    costs = _Costs(prices, sizes, work_of(distinct, step_ns), is_measured=bool(step_ns))
    alone = {size: size for size in distinct}
    count = _Count(foretold, places)
    is_known = not foretold.unknown and foretold.limit_at is None
    plans = [_plan("as_it_is", distinct, len(foretold.compiles) if is_known else None, alone, costs, "")]
    if foretold.opens_sizes:
        plans.append(_plan("dynamic", [], count({}, marked=True), alone, costs, _marking(places)))
    for buckets in best_buckets(sizes, _MOST_BUCKETS, costs.work):
        if buckets in (distinct, plans[-1].buckets):  # no work is left to save
            break
        mapping = dict(zip(distinct, padded(distinct, buckets), strict=True))
        kind = "longest" if len(buckets) == 1 else "buckets"
        code = _padding(foretold.stack, places, buckets)
        plans.append(_plan(kind, buckets, count(mapping), mapping, costs, code))
    return Curve(places, sizes, plans, _chosen(plans), step_ns, why)


def _measured(foretold: Foretold, prices: Prices, places: list[Place]) -> tuple[dict[int, int], str]:
    """By size, the steady steps; and why there are none in the trace, where there is one."""
    if not prices.steps:
        return {}, prices.no_steps
    sizes = [_size(row.shapes, places[0]) for row in foretold.sizes]
    none = dict.fromkeys((size for size in sizes if size is not None), 0)
    try:
        return by_size(prices.steps, sizes, [_signature(_replaced(row, places, none)) for row in foretold.sizes]), ""
    except NotMeasured as error:
        return {}, str(error)


class _Count:
    """How often the function compiles with the sizes of some places replaced, by the rule that fits it as it is."""

    def __init__(self, foretold: Foretold, places: list[Place]) -> None:
        self._rows = foretold.sizes
        self._places = places
        as_it_is = [row.call for row in foretold.compiles]
        self._opens = foretold.opens_sizes and not foretold.unknown and left_open(self._rows) == as_it_is
        once = once_each(self._rows)
        # each signature is a compile, and some calls compile for what earlier calls return
        self._once = not foretold.unknown and not self._opens and set(once) <= set(as_it_is)
        self._beside = len(as_it_is) - len(once)

    def __call__(self, mapping: Mapping[int, int], *, marked: bool = False) -> int | None:
        rows = [_replaced(row, self._places, mapping) for row in self._rows]
        if self._opens:
            return len(left_open(rows, self._places if marked else ()))
        return len(once_each(rows)) + self._beside if self._once and not marked else None


def _replaced(row: Sizes, places: Collection[Place], mapping: Mapping[int, int]) -> Sizes:
    """The same with the sizes at some places replaced."""

    def sized(argument: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(mapping.get(size, size) if (argument, at) in places else size for at, size in enumerate(shape))

    return Sizes({argument: sized(argument, shape) for argument, shape in row.shapes.items()}, row.rest)


@slotted
class _Costs:
    """What a plan's price is made of."""

    prices: Prices
    sizes: list[int]
    """Call by call."""
    work: Mapping[int, int]
    """Of a call of each size: nanoseconds where that is measured, else the size."""
    is_measured: bool

    def of(self, sizes: Iterable[int]) -> int:
        """The work of calls of these sizes."""
        return sum(self.work[size] for size in sizes)

    def total_ns(self, compiles: int | None, work: int) -> int | None:
        """All compiles and all steps; None where a price is not known."""
        first, again, step = self.prices.first_ns, self.prices.again_ns, self.prices.step_ns
        real = self.of(self.sizes)
        if not compiles or first is None or again is None or not real or (step is None and not self.is_measured):
            return None
        per_work = 1 if step is None or self.is_measured else step * len(self.sizes) / real
        return round(first + (compiles - 1) * again + work * per_work)


def _plan(
    kind: str, buckets: list[int], compiles: int | None, mapping: Mapping[int, int], costs: _Costs, code: str
) -> Plan:
    real, work = costs.of(costs.sizes), costs.of(mapping[size] for size in costs.sizes)
    return Plan(kind, buckets, compiles, 1 - real / work if work else 0.0, costs.total_ns(compiles, work), code)


def _chosen(plans: list[Plan]) -> int:
    priced = [(plan.total_ns, number) for number, plan in enumerate(plans) if plan.total_ns is not None]
    if len(priced) == len(plans):
        return min(priced)[1]
    few = [number for number, plan in enumerate(plans) if plan.kind != "as_it_is" and plan.padding_share <= _ENOUGH]
    return few[0] if few else 0


def _marking(places: list[Place]) -> str:
    lines = [f"torch._dynamo.mark_dynamic({argument}, {dimension})" for argument, dimension in places]
    return "\n".join(lines)


def _padding(stack: str, places: list[Place], buckets: list[int]) -> str:
    """A function that pads, and a call of it for each place; what the padding means is the user's to see to."""
    imported, pad = import_module(f"coldstep.analysis.rules.{stack}").PAD
    lines = [imported, "", f"SIZES = {tuple(buckets)}", ""]
    for dimension in dict.fromkeys(dimension for _, dimension in places):
        name = f"padded_{dimension}"
        lines += [
            "",
            f"def {name}(x):",
            f"    more = next(size for size in SIZES if size >= x.shape[{dimension}]) - x.shape[{dimension}]",
            f"    return {pad.format(d=dimension, n=dimension + 1)}",
            "",
        ]
    lines.append("")
    lines += [f"{argument} = padded_{dimension}({argument})" for argument, dimension in places]
    return "\n".join(lines)


# --- the best K sizes to pad to --------------------------------------------------------------------------------------


def best_buckets(sizes: Iterable[int], most: int, costs: Mapping[int, int] | None = None) -> list[list[int]]:
    """For 1, 2 … up to `most` buckets (or as many as there are sizes), the buckets, ascending, with the least padded
    work: each size counts as the bucket above it. Exact, by dynamic programming over the sizes in order. `costs` is
    the work of each size, no smaller one's being more; the size itself where it is not given.
    """
    counts = Counter(sizes)
    ordered = sorted(counts)
    until = [0, *accumulate(counts[size] for size in ordered)]
    tops = [costs[size] for size in ordered] if costs is not None else ordered
    # work[n]: the least of the first n sizes with the buckets so far; cut[k][n]: how many the last bucket leaves out
    work = [0] + [tops[n - 1] * until[n] for n in range(1, len(ordered) + 1)]
    cuts = [[0] * (len(ordered) + 1)]
    choices = [_buckets(ordered, cuts)]
    for _ in range(1, min(most, len(ordered))):
        work, cut = _with_one_more(tops, until, work)
        cuts.append(cut)
        choices.append(_buckets(ordered, cuts))
    return choices if ordered else []


def padded(sizes: Iterable[int], buckets: Sequence[int]) -> list[int]:
    """Each size as the smallest of the ascending buckets that holds it."""
    return [next(bucket for bucket in buckets if bucket >= size) for size in sizes]


def _with_one_more(tops: list[int], until: list[int], work: list[int]) -> tuple[list[int], list[int]]:
    """The least work with one bucket more, and where the last bucket then begins.

    Where the best cut of n sizes lies, that of fewer lies no higher: so halving the range takes n log n steps.
    """
    least, cut = [0] * len(work), [0] * len(work)
    ranges = [(1, len(work) - 1, 0, len(work) - 2)]
    while ranges:
        first, last, low, high = ranges.pop()
        if first > last:
            continue
        middle = (first + last) // 2
        top = tops[middle - 1]
        least[middle], cut[middle] = min(
            (work[at] + top * (until[middle] - until[at]), at) for at in range(low, min(middle - 1, high) + 1)
        )
        ranges += [(first, middle - 1, low, cut[middle]), (middle + 1, last, cut[middle], high)]
    return least, cut


def _buckets(ordered: list[int], cuts: list[list[int]]) -> list[int]:
    bounds = []
    end = len(ordered)
    for cut in reversed(cuts):
        if end:
            bounds.append(ordered[end - 1])
            end = cut[end]
    return bounds[::-1]


# --- which of some calls compile -------------------------------------------------------------------------------------


Place = tuple[str, int]
"""An argument, and one of its dimensions."""
_SPECIAL = 2  # sizes below it are compiled in


def once_each(rows: Iterable[Sizes]) -> list[int]:
    """The calls that compile where each signature is compiled once."""
    known = set()
    numbers = []
    for number, row in enumerate(rows):
        signature = _signature(row)
        if signature not in known:
            known.add(signature)
            numbers.append(number)
    return numbers


def _signature(row: Sizes) -> Hashable:
    return row.rest, tuple(sorted(row.shapes.items()))


def left_open(rows: Sequence[Sizes], marked: Collection[Place] = ()) -> list[int]:
    """The calls that compile where PyTorch leaves a size open that has changed, or that is marked."""
    seen: dict[Place, int | None] = dict.fromkeys(marked)
    variants: list[_Variant] = []
    numbers = []
    for number, row in enumerate(rows):
        sizes = {(argument, at): size for argument, shape in row.shapes.items() for at, size in enumerate(shape)}
        if any(variant.takes(row.rest, sizes) for variant in variants):
            continue
        for place, size in sizes.items():
            if seen.setdefault(place, size) != size:
                seen[place] = None
        fixed = {place: size for place, size in sizes.items() if seen[place] is not None or size < _SPECIAL}
        variants.append(_Variant(row.rest, sizes.keys(), fixed))
        numbers.append(number)
    return numbers


@slotted
class _Variant:
    """What one graph was made for."""

    rest: object
    places: Collection[Place]
    fixed: Mapping[Place, int]
    """The sizes that are compiled in."""

    def takes(self, rest: object, sizes: Mapping[Place, int]) -> bool:
        """Whether it does for a call."""
        return (rest, sizes.keys()) == (self.rest, self.places) and all(
            size == self.fixed[place] if place in self.fixed else size >= _SPECIAL for place, size in sizes.items()
        )
