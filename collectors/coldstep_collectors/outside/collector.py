"""The collector `outside`: what a program pays before its first step that no framework's compiler asks for."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from coldstep.collector import Sink
from coldstep_collectors.outside import groups, weights
from coldstep_collectors.outside.around import Around

ROWS = (*weights.ROWS, *groups.ROWS)
HOOKS = {
    "triton.compiler": "kernels:watch_kernels",
    "triton.runtime.build": "kernels:watch_stubs",
    "triton.runtime.autotuner": "kernel_tuning:watch_tuning",
    "torch.utils.cpp_extension": "builds:watch_builds",
    "torch.utils.file_baton": "locks:watch_batons",
    "torch.nn.modules.module": "copies:watch_modules",
    "torch.optim.optimizer": "copies:watch_optimizers",
    "torch.utils.data": "loaders:watch_loaders",
    "uvicorn.protocols.http.h11_impl": "responses:watch_asgi",
    "uvicorn.protocols.http.httptools_impl": "responses:watch_asgi",
    "gunicorn.http.wsgi": "responses:watch_wsgi",
    "vllm.v1.worker.worker_base": "vllm:watch_workers",
    "vllm.triton_utils.dispatcher": "vllm:watch_functions",
    "vllm.v1.core.kv_cache_manager": "vllm:watch_functions",
    "vllm.utils.gc_utils": "vllm:watch_functions",
    "torch.cuda": "groups:watch_start",
    "torch.distributed": "groups:watch_barriers",
    "torch.cuda.graphs": "groups:watch_captures",
}
"""By module, what takes more than a row: a module of this package, which most programs need not load, and what in it
hooks."""


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


def _hook(hook: str, around: Around, module: Any) -> None:
    name, _, function = hook.partition(":")
    getattr(import_module(f"coldstep_collectors.outside.{name}"), function)(module, around)
