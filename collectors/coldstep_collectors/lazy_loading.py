"""The collectors that most traces do not need: each is loaded when its framework is, or when its trace asks for it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from coldstep.collector import Collector, SessionSink, own_time
from coldstep_collectors.support import LAZY, Lazy


class Later:
    """Stands for a collector until one of some packages has been imported, if it waits for any; then it is there."""

    def __init__(self, row: Lazy) -> None:
        self.name = row.name
        self.records_devices, self.samples_stacks = row.records_devices, row.samples_stacks
        self._to_load = [row.kind]  # taken once: two packages may be imported on two threads at a time
        self._packages = row.packages
        self._collector: Collector | None = None

    def start(self, sink: SessionSink) -> None:
        self._sink = sink
        load = sink.guarded(self.name, self._load)
        for package in self._packages:
            sink.when_imported(package, load)
        if not self._packages:
            load(None)

    def stop(self) -> list[str]:
        return self._collector.stop() if self._collector is not None else []

    def _load(self, _: object) -> None:
        try:
            module, _, kind = self._to_load.pop().partition(":")
        except IndexError:
            return
        with own_time(self._sink.emit, f"load the collector {self.name}"):
            # under the framework's import lock: nothing that is imported here imports a framework
            self._collector = collector = getattr(import_module(f"coldstep_collectors.{module}"), kind)()
            collector.start(self._sink)


def __getattr__(name: str) -> Any:
    """What makes the collector of this name: the entry points ask for it."""
    if name in LAZY:
        return partial(Later, LAZY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
