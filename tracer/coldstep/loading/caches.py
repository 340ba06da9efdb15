"""Disk caches' answers to compiles: a component's words stand in a file once, and are given to all that have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

from coldstep._util.arguments import flag, number, text
from coldstep.events import Args
from coldstep.model import Cache, CacheState, Compile, Component, Details
from coldstep.vocabulary import is_of_program


class CacheReader:
    """Reads the cache rows of one process's compiles."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._options: dict[tuple[str, str], dict[str, str]] = {}

    def read(self, rows: Iterable[Args]) -> list[Cache]:
        """The rows of one compile."""
        return [self._row(row) for row in rows]

    def complete(self, compiles: list[Compile], details: Mapping[str, Details]) -> None:
        """When all are read: give each component its words, and each compile its unusual components."""
        for compile_ in compiles:
            for cache in compile_.caches:
                for component in cache.components:
                    named = component.name, component.hash
                    component.text = self._texts.get(named)
                    if named in self._options:
                        details[compile_.id].options[component.hash] = self._options[named]
        usual = _usual(compiles)
        for compile_ in compiles:
            compile_.components = {
                component.name: component.text
                for cache in compile_.caches
                for component in cache.components
                if component.name in usual[cache.layer] and usual[cache.layer][component.name] != component.hash
            }

    def _row(self, row: Args) -> Cache:
        state = cast(CacheState, str(row["state"]))
        return Cache(
            layer=str(row["layer"]),
            state=state,
            saved_ns=number(row.get("saved_ns")),
            part=text(row.get("part")),
            count=int(row.get("count", 1)),
            hits=int(row.get("hits", state == "hit")),
            key=text(row.get("key")),
            components=[self._component(component) for component in row.get("components") or []],
            written=flag(row.get("written")),
            why=text(row.get("why")),
            why_text=str(row.get("why_text", "")),
            load_ns=number(row.get("load_ns")),
            self_ns=number(row.get("self_ns")),
        )

    def _component(self, row: Args) -> Component:
        component = Component(str(row["name"]), str(row["hash"]), None)
        if "text" in row:
            self._texts.setdefault((component.name, component.hash), str(row["text"]))
        if "options" in row:
            options = {str(name): str(text) for name, text in row["options"].items()}
            self._options.setdefault((component.name, component.hash), options)
        return component


def _usual(compiles: list[Compile]) -> dict[str, dict[str, str]]:
    """By layer and name, the hash that most compiles have of each component that is not the program itself."""
    seen: dict[str, dict[str, Counter[str]]] = {}
    for compile_ in compiles:
        for cache in compile_.caches:
            names = seen.setdefault(cache.layer, {})
            for component in cache.components:
                if not is_of_program(component.name):
                    names.setdefault(component.name, Counter())[component.hash] += 1
    return {
        layer: {name: hashes.most_common(1)[0][0] for name, hashes in names.items()} for layer, names in seen.items()
    }
