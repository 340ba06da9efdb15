"""What PyTorch says of its caches on disk, in the compiler's instants, spans and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coldstep_collectors._private.torch import names

FX_GRAPH, AOT_AUTOGRAD = "inductor.fx_graph", "aot.autograd"
_CACHE_LAYERS = {"fx_graph_cache_": FX_GRAPH, "autograd_cache_": AOT_AUTOGRAD}
_CACHE_STATES = {"hit": "hit", "miss": "miss", "bypass": "bypass", "disabled": "off"}


def cache_answer(name: str, metadata: Mapping[str, Any]) -> tuple[str, str, int | None] | None:
    """What an instant tells of a cache on disk: the layer, what it said, and the time that it saved."""
    for prefix, layer in _CACHE_LAYERS.items():
        if name.startswith(prefix) and (state := _CACHE_STATES.get(name.removeprefix(prefix))) is not None:
            return layer, state, _saved_ns(metadata)
    return None


def loaded_graphs(metadata: Mapping[str, Any]) -> bool:
    """Whether a span's metadata counts graphs that Inductor loaded from its cache on disk."""
    return bool(metadata.get("inductor_fx_local_cache_hit_count") or metadata.get("inductor_fx_remote_cache_hit_count"))


def _saved_ns(metadata: Mapping[str, Any]) -> int | None:
    for key, unit in (("time_saved_ns", 1), ("time_saved_ms", 1_000_000)):
        value = metadata.get(key)
        if isinstance(value, (int, float)):
            return round(value * unit)
    return None


def cache_is_off(layer: str) -> bool:
    """Whether the configuration turns a disk cache off."""
    option = {FX_GRAPH: names.FX_CACHE, AOT_AUTOGRAD: names.AOT_CACHE}[layer].find()
    return bool(names.NO_CACHES.find()) or option is False
