"""The answer of torch_xla's persistent cache about a compile, and its question: a graph's hash, which the environment
is mixed into."""

from __future__ import annotations

import os
from collections.abc import Sequence

from coldstep._util.command_secrets import hidden
from coldstep.events import Args
from coldstep_collectors.sha import short
from coldstep_collectors.torch_xla._private.hooks import Internals, Report
from coldstep_collectors.torch_xla._private.names import CACHE_PATH, IN_KEY, IN_KEY_FLAGS, READ_ONLY

_LAYER = "torch_xla.persistent"
_OFF: Args = {
    "state": "off",
    "written": False,
    "why": "disabled",
    "why_text": "torch_xla.runtime.initialize_cache was not called before the first graph was compiled",
}
_LATE = _OFF | {"why": "late", "why_text": f"{CACHE_PATH} was set when the first graph had been compiled"}
_READ_ONLY: Args = {
    "written": False,
    "why": "read_only",
    "why_text": "torch_xla.runtime.initialize_cache was called with readonly=True",
}
_ON_CPU = "torch_xla stores what it compiles to on a CPU, and cannot load it"
_NOT_LOADED = "an entry was found, and what torch_xla compiles to on this device cannot be loaded"
_TEXT_LIMIT = 1024


class LazyCaches:
    """Gives the cache's answer for each compile. A load is no compile: torch_xla counts it as a graph it had."""

    def __init__(self, internals: Internals) -> None:
        self._internals = internals
        self._counted = internals.persistent()
        self._environment: list[Args] = []

    def answers(self, reports: Sequence[Report | None]) -> list[Args]:
        """A row for each of the last compiles, of which torch_xla has reported so much."""
        before, self._counted = self._counted, self._internals.persistent()
        missed, failed = (now - then for now, then in zip(self._counted, before, strict=True))
        if failed == len(reports):
            row: Args = {"state": "unreadable", "why_text": _NOT_LOADED}
        elif missed == len(reports):
            row = {"state": "miss"}
            if os.environ.get(READ_ONLY) == "1":
                row |= _READ_ONLY
            elif self._internals.device_type() == "CPU":
                row["why_text"] = _ON_CPU
        elif not missed and not failed:
            row = _LATE if os.environ.get(CACHE_PATH) else _OFF
        else:  # it cannot be said which was which
            return [{}] * len(reports)
        return [{"caches": [{"layer": _LAYER, **row, **self._key(report)}]} for report in reports]

    def _key(self, report: Report | None) -> Args:
        if report is None or not report.fingerprint:
            return {}
        graph = {"name": "graph", "hash": short(report.fingerprint), "text": report.fingerprint}
        if not self._environment:  # torch_xla reads it once, with its first graph
            self._environment = list(map(_component, IN_KEY))
        return {"key": report.fingerprint, "components": [graph, *self._environment]}


def _component(name: str) -> Args:
    words = os.environ.get(name, "").split()
    if name in IN_KEY_FLAGS:
        words = sorted(word for word in words if word.startswith("--xla") and not word.startswith("--xla_dump"))
    return {"name": name, "hash": short(" ".join(words)), "text": " ".join(hidden(words))[:_TEXT_LIMIT]}
