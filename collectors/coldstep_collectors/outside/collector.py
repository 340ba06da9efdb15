"""The collector `outside`: what a program pays before its first step that no framework's compiler asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coldstep.collector import Sink
from coldstep_collectors.outside import builds, groups, kernels, loaders, locks, weights
from coldstep_collectors.outside.around import Around

ROWS = (*weights.ROWS, *groups.ROWS)
HOOKS: dict[str, Callable[[Any, Around], None]] = {
    "torch.utils.cpp_extension": builds.watch_builds,
    "triton.compiler": kernels.watch_kernels,
    "torch.utils.file_baton": locks.watch_batons,
    "torch.utils.data": loaders.watch_loaders,
    "torch.cuda": groups.watch_start,
    "torch.cuda.graphs": groups.watch_captures,
}
"""By module, what takes more than a row."""


class Outside:
    """Phases around public functions of libraries, each hooked when its module is there."""

    name = "outside"

    def start(self, sink: Sink) -> None:
        """Wait for the libraries."""
        self._around = around = Around(sink, self.name)
        for row in ROWS:
            sink.when_imported(row.module, partial(around.watch, row))
        for module, hook in HOOKS.items():
            sink.when_imported(module, partial(_hook, hook, around))
        sink.state(self.name, "attached", None, [])

    def stop(self) -> list[str]:
        """Let go of them."""
        return self._around.undo()


def _hook(hook: Callable[[Any, Around], None], around: Around, module: Any) -> None:
    hook(module, around)
