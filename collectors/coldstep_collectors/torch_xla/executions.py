"""When torch_xla's graphs ran: its own metric, which reports a run some milliseconds late, to whoever asks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import takewhile

from coldstep.clock import now
from coldstep.events import DeviceSlice
from coldstep_collectors.torch_xla._private.hooks import Samples

_MOST = 100_000  # that are remembered
_LATE_NS = 5_000_000  # for which a run still tidies up, when its results are there
_PATIENCE_S = 1.0


class Executions:
    """The runs since this was made; `offset_ns()` is what the wall clock lacks to the trace's."""

    def __init__(self, samples: Samples, offset_ns: Callable[[], int]) -> None:
        self._samples, self._offset_ns = samples, offset_ns
        self._lock = threading.Lock()
        self.slices: deque[DeviceSlice] = deque(maxlen=_MOST)
        self.dropped = 0

    def since(self, ns: int) -> list[tuple[int, int]]:
        """The begin and end of those that began then or later, as far as they have been reported."""
        if not self._lock.acquire(timeout=_PATIENCE_S):  # not for ever: a fork may have copied it held
            return []
        try:
            new = self._samples.new()
            offset = self._offset_ns() if new else 0
            for start, end in new:
                self.dropped += len(self.slices) == _MOST
                self.slices.append(DeviceSlice(start + offset, end + offset, "execution", "kernel"))
            latest = takewhile(lambda piece: piece.end_ns >= ns, reversed(self.slices))  # they come as they end
            return sorted((piece.ns, piece.end_ns) for piece in latest if piece.ns >= ns)
        finally:
            self._lock.release()

    def within(self, since: int, until: int) -> list[tuple[int, int]]:
        """Those between two moments, but for a tenth of each: a run that went on much longer was not waited for. One
        that ended last may be reported later, and is waited for: not for a thread of the program's."""
        while True:
            known = self.since(since)
            runs = [(start, min(end, until)) for start, end in known if 10 * (until - start) >= 9 * (end - start)]
            lasted = any(end >= until - _LATE_NS for _, end in runs)
            if lasted or now() > until + _LATE_NS:
                return [(start, end) for start, end in runs if start < end]
            time.sleep(_LATE_NS / 10e9)
