"""Reads JAX's lines about its persistent cache: whether it had a program, under which key, and why it stored none."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.events import Args

_LAYER = "xla.persistent"
# JAX 0.10: "Persistent compilation cache hit for 'jit_train_step' with key 'jit_train_step-36e864bd5ddd32d4b3490cfd'"
_HIT = re.compile(r"Persistent compilation cache hit for '(?P<module>.{1,500}?)' with key '(?P<key>.{1,600}?)(?:'|$)")
# JAX 0.10: "PERSISTENT COMPILATION CACHE MISS for 'jit_train_step' with key 'jit_train_step-36e864bd5ddd32d4b3490cfd'"
_MISS = re.compile(r"PERSISTENT COMPILATION CACHE MISS for '(?P<module>.{1,500}?)' with key '(?P<key>.{1,600}?)(?:'|$)")
# JAX 0.10: "Writing jit_train_step to persistent compilation cache with key 'jit_train_step-36e864bd5ddd32d4b3490cfd'"
_WRITING = re.compile(r"Writing .{1,500}? to persistent compilation cache with key '(?P<key>.{1,600}?)'")
# JAX 0.10: "Not writing persistent cache entry for 'jit_f' because it took < 1.00 seconds to compile (0.03s)"
# JAX 0.10: "Not writing persistent cache entry with key 'jit_f-36' since its size (5 bytes) is less than threshold (9
# bytes)"
# JAX 0.10: "Not writing persistent cache entry since process_id != 0"
_NOT_WRITING = re.compile(
    r"Not writing persistent cache entry(?: for '.{1,500}?'| with key '.{1,600}?')? (?P<why>.{1,500})"
)
# JAX 0.12: "UserWarning: Error writing persistent compilation cache entry for 'jit_f': OSError: [Errno 28] No space"
_FAILED = re.compile(r"Error writing persistent compilation cache entry for '.{1,500}?': (?P<why>.{1,500})")
# JAX 0.10: "get_cache_key hash of serialized XLA flags:
# 36e864bd5ddd32d4b3490cfde63514f93a70ebe6dc73eb39a1a3dd842253540e"
_COMPONENT = re.compile(r"get_cache_key hash of serialized (?P<name>[\w ]{1,60}): (?P<hash>[0-9a-f]{16})[0-9a-f]{48}")
# JAX 0.10: "Including XLA flag in cache key: --xla_cpu_enable_fast_math=true"
_FLAG = re.compile(r"Including XLA flag in cache key: (?P<flag>\S{1,1000})")
# JAX 0.6: "'jit_train_step' took at least 1.00 seconds to compile (4.34s)"
# JAX 0.10: "Not writing persistent cache entry for 'jit_f' because it took < 1.00 seconds to compile (0.03s)"
_SECONDS = re.compile(r"seconds to compile \((?P<s>[\d.]{1,20})s\)")
_FIRST, _FLAGS = "computation", "XLA flags"
_REASONS = {
    "process_id": "not_first_process",
    "host callbacks": "host_callback",
    "seconds to compile": "threshold",
    "less than threshold": "threshold",
    "disabled": "disabled",
    "No space left": "full",
    "quota exceeded": "full",
    "Permission denied": "read_only",
    "not permitted": "read_only",
    "Read-only file system": "read_only",
}
"""By what stands in JAX's reason: a word of `vocabulary.UNWRITTEN`."""
_MOST_COMPONENTS = 32
_MOST_UNTAKEN = 5_000
_MAX_S = 1e9  # what is longer is no time


@slotted
class Answer:
    """What the lines are about one program."""

    module: str
    row: Args
    ns: int
    """When its last line was written."""
    took_ns: int = 0
    """How long XLA has worked, where a line has it."""


class CacheLines:
    """The lines on one process's persistent cache, gathered until the compile that they belong to has ended."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"ersistent compilation cache", b"PERSISTENT COMPILATION CACHE",
                                          b"Not writing persistent cache entry", b"get_cache_key hash of",
                                          b"XLA flag in cache key", b"seconds to compile (")  # fmt: skip

    def __init__(self) -> None:
        self._components: list[Args] = []
        self._flags: list[str] = []
        self._said: Answer | None = None
        self.untaken: list[Answer] = []
        """On programs that no other line is about."""

    def read(self, text: str, ns: int) -> bool:
        """Take in a line; whether it is one of these."""
        if self._said is not None and (match := _SECONDS.search(text)):
            self._said.took_ns = round(min(float(match["s"].strip(".") or 0), _MAX_S) * 1e9)
            self._said.ns = ns
        if match := _COMPONENT.search(text):
            self._component(match["name"], match["hash"])
        elif match := _FLAG.search(text):
            self._flags = [*self._flags[-_MOST_COMPONENTS:], match["flag"]]
        elif match := _HIT.search(text) or _MISS.search(text):
            state = "hit" if match.re is _HIT else "miss"
            row = {"layer": _LAYER, "state": state, "key": match["key"], "components": self._components}
            self._end()
            self._said = Answer(match["module"], row, ns)
            self._components = []
        elif self._said is not None and _WRITING.search(text):
            self._said.row["written"] = True
        elif self._said is not None and (match := _NOT_WRITING.search(text) or _FAILED.search(text)):
            why = match["why"].removeprefix("because ").removeprefix("since ")
            word = next((word for part, word in _REASONS.items() if part in why), None)
            self._said.row |= {"written": False, "why": word, "why_text": why}
        else:
            return _SECONDS.search(text) is not None
        return True

    def finish(self) -> list[Answer]:
        """The log has ended: the answers on programs that no other line is about."""
        self._end()
        return self.untaken

    def _end(self) -> None:
        if self._said is not None and len(self.untaken) < _MOST_UNTAKEN:
            self.untaken.append(self._said)
        self._said = None

    def take(self, name: str) -> Args | None:
        """The answer for the program that JAX names so in its other lines, once."""
        answer, self._said = self._said, None
        return answer.row if answer is not None and _plain(answer.module) == _plain(f"jit_{name}") else None

    def _component(self, name: str, digest: str) -> None:
        if name == _FIRST:
            self._components = []
        component: Args = {"name": name, "hash": digest}
        if name == _FLAGS and self._flags:
            component["text"], self._flags = " ".join(sorted(set(self._flags))), []
        known = {row["name"] for row in self._components}  # two handlers may say it twice
        if name not in known and len(known) < _MOST_COMPONENTS:
            self._components.append(component)


def _plain(module: str) -> str:
    """A module's name, in which JAX has replaced what MLIR does not take."""
    return re.sub(r"\W+", "_", module).strip("_")
