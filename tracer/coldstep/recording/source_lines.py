"""Quotes the user's source in a trace: the line of each place, and the loop or function around some.

Runs on the drain thread, while the source is at hand: `linecache` reads files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coldstep.events import UNKNOWN, Args
from coldstep.places import Places

_NULLABLE = ("origin", "inputs")
_DECORATORS = 30  # lines above a function that are searched through
_MOST_CHARS = 200  # of one line
_MOST_FIRST = 16  # of those around first calls: advice may be for these, too
_MOST_BLOCKS, _MOST_LINES, _MOST_BLOCK_CHARS = 64, 100, 4_000
_DEFINITIONS = ("def ", "async def ")
_GO_ON = (")", "]", "}", "else:", "elif ", "except", "finally:", "#")
"""What stands as far left as the head of a block, and does not end it."""


def with_code(args: Args) -> Args:
    """The arguments with each place in the user's code quoting its line, while the source is at hand. A trace keeps no
    None: it has a list of the unknown keys."""
    quoted = dict(args)
    if unknown := [key for key in _NULLABLE if key in args and args[key] is None]:
        quoted[UNKNOWN] = unknown
    for key in ("location", "caller", "below", "cause_at", "made_at", "looped_at"):
        if isinstance(place := args.get(key), dict):
            quoted[key] = quoted_place(place)
    for key in ("failure", "within"):
        if isinstance(inner := args.get(key), dict):
            quoted[key] = with_code(inner)
    return quoted


def quoted_place(place: Args) -> Args:
    import linecache  # and with it `tokenize`: most processes of a job quote nothing

    file, line = str(place["file"]), int(place["line"])
    code = linecache.getline(file, line).strip()
    above = []
    if code.startswith("@"):  # Python counts a function from its first decorator; its reader looks for the def
        for below in range(line + 1, line + _DECORATORS):
            text = linecache.getline(file, below).strip()
            if text.startswith((*_DEFINITIONS, "class ")):
                above = [linecache.getline(file, each).strip()[:_MOST_CHARS] for each in range(line, below)]
                code, line = text, below
                break
    if not code:
        return place
    return place | {"line": line, "code": code[:_MOST_CHARS]} | ({"decorators": above} if above else {})


class Blocks:
    """Adds the loops and functions of the user's that advice reads or rewrites: where something compiled again or
    failed, holds each turn of a loop, or broke a graph; and around the first calls. Each is kept once."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._kept: set[tuple[str, int]] = set()
        self._places = Places()

    def begun(self, args: Args) -> Args:
        """The arguments of a compile that begins."""
        key = str(args.get("key"))
        if key in self._keys and args.get("origin") == "user":
            return self._with_blocks(args, ("caller", "cause_at", "location"))
        if isinstance(within := args.get("within"), dict) and (key in self._keys or len(self._kept) < _MOST_FIRST):
            args = args | {"within": self._with_blocks(within, ("jittable", "made_at", "looped_at"))}
        self._keys.add(key)
        is_first = (args.get("origin") == "user" or within is None) and len(self._kept) < _MOST_FIRST
        return self._with_blocks(args, ("caller",)) if is_first else args

    def ended(self, args: Args, about: Args) -> Args:
        """The arguments of one that ends; `about`: all that is known of it."""
        if args.get("outcome") == "failed" and isinstance(place := about.get("location"), dict):
            args = args | {"failed_in": quoted_place(place)}
        if isinstance(place := args.get("unrolled"), dict) and isinstance(place.get("location"), dict):
            args = args | {"unrolled": self._with_blocks(place, ("location",))}
        return self._with_blocks(args, ("failed_in",))

    def around(self, args: Args) -> Args:
        """The arguments of a graph break, or of a finding."""
        return self._with_blocks(with_code(args), ("location",))

    def _with_blocks(self, args: Args, keys: Sequence[str]) -> Args:
        for key in keys:
            if isinstance(place := args.get(key), dict) and (block := self._block(place)) is not None:
                args = args | {key: place | {"block": block}}
        return args

    def _block(self, place: Args) -> Args | None:
        file, line = str(place["file"]), int(place["line"])
        if not self._places.is_users(file) or len(self._kept) >= _MOST_BLOCKS:
            return None
        import linecache

        lines = linecache.getlines(file)
        for first, last in _around(lines, line):
            text = "".join(lines[first - 1 : last])
            if last - first < _MOST_LINES and len(text) <= _MOST_BLOCK_CHARS:
                if (file, first) in self._kept:
                    return None
                self._kept.add((file, first))
                return {"line": first, "text": text}
        return None


def _around(lines: Sequence[str], line: int) -> Iterator[tuple[int, int]]:
    """The first and the last line of the blocks around a line, the outermost first: as far as the function, or the
    outermost statement of a module. Decorators belong to a function."""
    if not 0 < line <= len(lines):
        return
    heads: list[int] = []
    least = _indent(lines[line - 1]) + 1
    for at in range(line, 0, -1):
        text = lines[at - 1].strip()
        if not text or text.startswith(_GO_ON) or _indent(lines[at - 1]) >= least:
            continue
        least = _indent(lines[at - 1])
        if text.startswith("@"):
            continue
        heads.append(at)
        if least == 0 or text.startswith(_DEFINITIONS):
            break
    for head in reversed(heads):
        first, last = _first(lines, head), _last(lines, head)
        if last > first:
            yield first, last


def _first(lines: Sequence[str], head: int) -> int:
    while head > 1 and lines[head - 2].strip().startswith("@"):
        head -= 1
    return head


def _last(lines: Sequence[str], head: int) -> int:
    indent, last = _indent(lines[head - 1]), head
    for at in range(head + 1, len(lines) + 1):
        text = lines[at - 1].strip()
        if text and _indent(lines[at - 1]) <= indent and not text.startswith(_GO_ON):
            break
        if text and not text.startswith("#"):
            last = at
    return last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
