"""Which of some calls compile: once per signature, or by PyTorch's rule, by which a size that has changed stays open.

PyTorch compiles the first size in; a second one leaves the dimension open for all sizes from 2 on, and 0 and 1 are
always compiled in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from coldstep._util.slotted import slotted
from coldstep.ahead.forecast_rows import Sizes

Place = tuple[str, int]
"""An argument, and one of its dimensions."""
_SPECIAL = 2  # sizes below it are compiled in


def once_each(rows: Iterable[Sizes]) -> list[int]:
    """The calls that compile where each signature is compiled once."""
    known = set()
    numbers = []
    for number, row in enumerate(rows):
        signature = (row.rest, tuple(sorted(row.shapes.items())))
        if signature not in known:
            known.add(signature)
            numbers.append(number)
    return numbers


def left_open(rows: Sequence[Sizes], marked: Collection[Place] = ()) -> list[int]:
    """The calls that compile where PyTorch leaves a size open that has changed, or that is marked."""
    seen: dict[Place, int | None] = dict.fromkeys(marked)
    variants: list[_Variant] = []
    numbers = []
    for number, row in enumerate(rows):
        sizes = {
            (argument, dimension): size
            for argument, shape in row.shapes.items()
            for dimension, size in enumerate(shape)
        }
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
