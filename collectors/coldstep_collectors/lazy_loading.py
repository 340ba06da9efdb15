"""The collectors that most traces do not need: each is loaded when its framework is, or when its trace asks for it."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from coldstep.clock import now
from coldstep.collector import Collector, Sink
from coldstep.events import Begin, End


class Later:
    """Stands for a collector until one of some packages has been imported, if it waits for any; then it is there."""

    records_devices = samples_stacks = False

    def __init__(self, name: str, module: str, kind: str, *packages: str, **takes_part: bool) -> None:
        self.name = name
        self.__dict__ |= takes_part
        """When it does: see `coldstep.collector.Collector`, as for the methods."""
        self._to_load = [(module, kind)]  # taken once: two packages may be imported on two threads at a time
        self._packages = packages
        self._collector: Collector | None = None

    def start(self, sink: Sink) -> None:
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
            module, kind = self._to_load.pop()
        except IndexError:
            return
        ours = Begin(now(), f"load the collector {self.name}", "coldstep", "coldstep")
        self._sink.emit(ours)
        try:
            # under the framework's import lock: nothing that is imported here imports a framework
            self._collector = found = getattr(import_module(f"coldstep_collectors.{module}"), kind)()
            found.start(self._sink)
        finally:
            self._sink.emit(End(now(), ours))


jax = partial(Later, "jax", "jax", "Jax", "jax")
dynamo = partial(Later, "dynamo", "dynamo", "Dynamo", "torch")
inductor = partial(Later, "inductor", "inductor", "Inductor", "torch")
torch_xla = partial(Later, "torch_xla", "torch_xla", "TorchXla", "torch_xla")
tensorflow = partial(Later, "tensorflow", "tensorflow", "TensorFlow", "tensorflow")
xspace = partial(Later, "xspace", "xspace", "XSpace", "jax", "torch_xla", records_devices=True)
kineto = partial(Later, "kineto", "kineto", "Kineto", "torch", records_devices=True)
stacks = partial(Later, "stacks", "stacks", "PySpy", samples_stacks=True)
