"""Kernels that Triton's autotuner tunes again for each new value of their keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coldstep._util.expressions import expression
from coldstep._util.figures import listed
from coldstep.analysis.make_finding import MOST_NAMED, About, finding
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, remedies
from coldstep.model import Autotuning, Finding, Trace

_OFTEN = 3
# coldstep: "scale(n=1000, d=64)"; of Inductor's the sizes have no names: "mm(64x192, 192x256)"
_KEYED = expression(r"(\w+)\((\w+=.*)\)")
# coldstep: "n=1000, d=64"
_KEY = expression(r"(?:^|, )(\w+)=")
_FEWER_KEYS = Row(
    "Triton tunes {kernel} again for each new value of its keys: call it with few (sizes padded to powers of two), or, "
    "where the kernel is yours, name in key=[…] an argument that takes few (a size rounded up, handed over beside the "
    "size itself)."
)


def tuned_anew(trace: Trace) -> Iterator[Finding]:
    """One finding for each kernel."""
    # kernels of one name are one where their keys have the same names
    kernels: dict[tuple[int, str, tuple[str, ...]], dict[str, Autotuning]] = defaultdict(dict)
    for row in trace.autotuning:
        if not row.cached and (match := _KEYED.fullmatch(row.operation)) is not None:
            kernels[row.process, match[1], (*_KEY.findall(match[2]),)].setdefault(match[2], row)
    for (_, kernel, _), by_keys in kernels.items():
        first, *further = by_keys.values()
        if len(by_keys) < _OFTEN:
            continue
        mended = remedies(_FEWER_KEYS, Case(f"triton.tuned_anew:{kernel}", {"kernel": kernel}))
        values = listed((f"({keys})" if "," in keys else keys for keys in by_keys), MOST_NAMED)
        text = f"{kernel} was tuned {len(by_keys)} times, for {values}"
        about = About(cost_ns=sum(row.compile_ns + row.timing_ns for row in further), remedies=mended)
        at = trace.intervals[first.interval]
        yield finding("repeat_offender", text, at=at, location=first.location, **about)
