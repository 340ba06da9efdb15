"""What vLLM does before it serves: a worker starts its device, loads a model, tries it out, and makes its KV cache."""

from __future__ import annotations

from functools import wraps
from typing import Any

from coldstep.events import Args
from coldstep_collectors.outside.around import Around, Call, Watch, of_model

_MODULE = "vllm.v1.worker.worker_base"


def _model(call: Call) -> Args:
    return of_model(getattr(getattr(call.args[0], "model_config", None), "model", None))


_ROWS = (
    Watch(_MODULE, "init_device", "device.init"),
    Watch(_MODULE, "load_model", "load.weights", _model),
    Watch(_MODULE, "determine_available_memory", "warmup"),
    Watch(_MODULE, "initialize_from_config", "kv_cache"),
    Watch(_MODULE, "compile_or_warm_up_model", "warmup"),
)
"""The methods of `WorkerBase`, its interface: each platform has a class of its own for them."""

_FUNCTIONS = (
    Watch("vllm.triton_utils.dispatcher", "register_kernels", "device.init"),  # looks at each name of each module
    Watch("vllm.v1.core.kv_cache_manager", "KVCacheManager.__init__", "kv_cache"),  # the engine's side of it
    Watch("vllm.utils.gc_utils", "freeze_gc_heap", "gc"),  # collects all generations, at the end of each start
)


def watch_functions(module: Any, around: Around) -> None:
    """Hook those of the module."""
    for row in _FUNCTIONS:
        if row.module == module.__name__:
            around.watch(row, module)


def watch_workers(module: Any, around: Around) -> None:
    """Hook them in the classes of each worker that is made."""
    real, seen = module.WorkerBase.__init__, set[tuple[type, str]]()

    def watch(worker: Any) -> None:
        for row in _ROWS:
            owner = next((each for each in type(worker).__mro__ if row.name in vars(each)), None)
            if owner is not None and (owner, row.name) not in seen:
                seen.add((owner, row.name))
                around.watch(row, owner)

    watched = around.sink.guarded("outside", watch)

    @wraps(real)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        watched(self)
        real(self, *args, **kwargs)

    around.put(module.WorkerBase, "__init__", begun)
