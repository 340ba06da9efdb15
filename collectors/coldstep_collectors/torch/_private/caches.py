"""PyTorch's caches on disk, as the compiler's instants, spans and settings show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coldstep.events import Args
from coldstep_collectors.torch._private import names
from coldstep_collectors.torch._private.cache_keys import Components, answered

FX_GRAPH, AOT_AUTOGRAD, CPP, PROFILE = "inductor.fx_graph", "aot.autograd", "inductor.cpp", "dynamo.pgo"
_READ, _STORED = "pgo.get_local_code_state", "pgo.put_local_code_state"
_IS_INFERENCE = "fx_kwargs[is_inference]"
_CACHE_LAYERS = {"fx_graph_cache_": FX_GRAPH, "autograd_cache_": AOT_AUTOGRAD}
_CACHE_STATES = {"hit": "hit", "miss": "miss", "bypass": "bypass", "disabled": "off"}
_OPTIONS = {FX_GRAPH: names.FX_CACHE, AOT_AUTOGRAD: names.AOT_CACHE}
NO_BACKWARD: Args = {
    "written": False,
    "why": "no_backward",
    "why_text": "its backward was never compiled: forward and backward are stored together",
}
"""Of an AOTAutograd cache that lacked a graph whose forward alone was compiled."""


def cache_answer(name: str, metadata: Mapping[str, Any], components: Components) -> Args | None:
    """An instant about a cache on disk, as a compile's arguments list it."""
    for prefix, layer in _CACHE_LAYERS.items():
        if name.startswith(prefix) and (state := _CACHE_STATES.get(name.removeprefix(prefix))) is not None:
            if state == "miss" and metadata.get("cache_status_detailed") == "guard_miss":
                state = "guard_miss"
            row: Args = {"layer": layer, "state": state, "saved_ns": _saved_ns(metadata)}
            return row | answered(metadata, components)
    return None


class Profile:
    """Dynamo's profile of earlier processes of the same job: read with the first compile, and only where there is one;
    stored after each compile that has changed it."""

    def __init__(self, *, late: bool = False) -> None:
        self._state = None if late else "miss"
        """What it said when it was read; None where that may have been before."""

    def answer(self, name: str, metadata: Mapping[str, Any]) -> Args | None:
        """The same from the end of a span."""
        size, written = metadata.get("cache_size_bytes"), dict[str, bool]()
        if name == _READ:
            self._state = "hit" if size else "unreadable"
        elif name == _STORED and self._state is not None:
            written["written"] = bool(size)
        else:
            return None
        return {"layer": PROFILE, "state": self._state, "key": str(metadata.get("cache_key") or ""), **written}


def is_training(metadata: Mapping[str, Any]) -> bool:
    """Whether an instant is of a graph with a backward, by the components of its key."""
    return any(str(line).endswith(f"] {_IS_INFERENCE}: False") for line in metadata.get("components") or ())


def loaded_graphs(metadata: Mapping[str, Any]) -> bool:
    """Whether a span's metadata counts graphs that Inductor loaded from its cache on disk."""
    return bool(metadata.get("inductor_fx_local_cache_hit_count") or metadata.get("inductor_fx_remote_cache_hit_count"))


def _saved_ns(metadata: Mapping[str, Any]) -> int | None:
    given = ((metadata.get(f"time_saved_{unit}"), ns) for unit, ns in (("ns", 1), ("ms", 1_000_000)))
    return next((round(value * ns) for value, ns in given if isinstance(value, (int, float))), None)


def switch(layer: str) -> str:
    """The setting that turns a disk cache off; "" where none does."""
    if names.NO_CACHES.find():
        return "torch._inductor.config.force_disable_caches is on"
    option = _OPTIONS[layer]
    return f"{option.forms[0].path.replace(':', '.')} is off" if option.find() is False else ""
