"""Reads JAX's own explanation of a cache miss: what differed from the nearest program it had traced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from coldstep._util.expressions import expression
from coldstep.signature import Change, Signature, differences

PAD = ("import jax.numpy as jnp", "jnp.pad(x, [(0, 0)] * {d} + [(0, more)] + [(0, 0)] * (x.ndim - {n}))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

# JAX 0.10: "* at x, now f32[]{weak_type=False} and before
# f32[]{weak_type=True}https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
_AT = expression(r"\* at (?P<name>.+?), now (?P<now>.+) and before (?P<before>.+?)(?:https://\S+)?$")
# JAX 0.5: "* at x, seen f32[]{weak_type=True}, but now given f32[]{weak_type=False}"
_GIVEN = expression(r"\* at (?P<name>.+?), seen (?P<before>.+), but now given (?P<now>.+?)$")
# JAX 0.10: "* at input path [0][0], now <class 'dict'> and before <class 'list'>, so their Python types differ"
# JAX 0.8: "* at args, now tuple of length 2 and before tuple of length 1, so the lengths do not match"
_NODE = expression(
    r"\* at (?:input path |(?=args|kwargs))(?P<path>(?:args|kwargs)?(?:\[.+?\])*), "
    r"now (?P<now>.+?) and before (?P<before>.+?), so (?P<why>.+)$"
)
# JAX 0.5: "* at args[0], seen <class 'list'> but now given <class 'dict'>,      so their Python types differ"
_NODE_GIVEN = expression(
    r"\* at (?P<path>(?:kw)?args(?:\[.+?\])*), seen (?P<before>.+?) but now given (?P<now>.+?), +so (?P<why>.+)$"
)
# JAX 0.5: "never seen passing 1 positional args and 1 keyword args with keys:\n'rate'\nclosest seen is passing no
# keyword args"
_PASSING = expression(
    r"never seen passing \d+ positional args and \d+ keyword args with keys:\n(?P<now>'.*)?\n?"
    r"closest seen (?:is passing no keyword args|passes \d+ keyword args with keys:\n(?P<before>'.*)?)"
)
# JAX 0.8: "now 1 args and kwargs with keys ['rate']\nbefore 1 args and kwargs with keys []"
_WITH_KEYS = expression(
    r"now \d+ args and kwargs with keys \[(?P<now>.*)\]\nbefore \d+ args and kwargs with keys \[(?P<before>.*)\]"
)
# JAX 0.8: "key with different value of static args:\nnow 3 and before 2"
_STATIC_VALUE = expression(r"key with different value of static args:\nnow (?P<now>.+) and before (?P<before>.+)")
# JAX 0.10: "Tracing context doesn't match, e.g. due to config or context manager."
# JAX 0.6: "* key with different tracing context, e.g. due to config or context manager."
_OTHER_CONTEXT = expression(r"(?:[Tt]racing context doesn't match|key with different tracing context)")
# JAX 0.6: "[6]: now raise and before warn"
_NTH_CONTEXT = expression(r"\[\d+\]: now (?P<now>.+) and before (?P<before>.+)$")
# JAX 0.10: "* jax_default_matmul_precision differs: now float32 and before None"
_CONTEXT = expression(r"\* (?P<name>\w+) differs: now (?P<now>.+) and before (?P<before>.+)$")
# JAX 0.10: "f32[]{weak_type=True}"
_WEAK = expression(r"\{weak_type=(True|False)\}")
# JAX 0.10: "f32[2@x,3]({Explicit: ('x',)})"
_SHARDED = expression(r"(?P<dtype>[^\[]+)\[(?P<dims>[^\]]*)\](?:\((?P<mesh>\{.*\})\))?(?P<rest>.*)")
# JAX 0.10: "<class 'jax._src.tree_util.Static'> with pytree metadata Static(val=3)"
_STATIC = expression(r"<class '[\w.]*\bStatic'> with pytree metadata Static\(val=(.*)\)$")
# JAX 0.10: "the numbers of children do not match, with the symmetric difference of key sets: {'b'}"
_KEYS = expression(r"symmetric difference of key sets: \{(.+)\}$")
# JAX 0.10: "<class 'NoneType'>"
_CLASS = expression(r"<class '(?:[\w.]*\.)?(\w+)'>")
_ANOTHER_OF_LINE = "but seen another function defined on the same line"
_POSITIONAL, _BY_KEYWORD = "[0]", "[1]"
_METADATA = "with pytree metadata"
_OF_STRUCTURE = ("static_argument", "keyword", "pytree", "type")


Named = Mapping[str, Mapping[str, str]]
"""By the path of an argument in the call, "[0][1]": its name as `argument`; by "[0]" that of a `*rest`."""


def read(words: str, named: Named) -> list[Change]:
    """All that the explanation names; the first change explains the miss."""
    if match := _STATIC_VALUE.search(words):
        return [Change(None, "static_argument", match["before"], match["now"])]
    if match := _PASSING.search(words) or _WITH_KEYS.search(words):
        names = {*re.findall(r"'(\w+)'", match["now"] or "")} ^ {*re.findall(r"'(\w+)'", match["before"] or "")}
        # with the same names, the trees of all arguments differ: the words do not say where
        return [Change(next(iter(names)) if len(names) == 1 else None, "keyword" if names else "pytree", None, None)]
    changes = [change for line in words.splitlines() for change in _of_line(line.strip(), named)]
    if not changes and _OTHER_CONTEXT.search(words):
        return [Change(None, "config", None, None)]
    if not changes and _ANOTHER_OF_LINE in words:
        return [Change(None, "new_function", None, None)]
    return changes


def explain(of_words: list[Change], changes: list[Change]) -> list[Change]:
    """What differs, from JAX's words and the `changes` of the types that it compiled for; what explains the miss first.

    The types are those of the arguments' leaves, in their order; the words know their names. They also know of
    differences that no type shows. But they report another context wherever any program was traced under one.
    """
    of_structure = [change for change in of_words if change.mechanism in _OF_STRUCTURE]
    if of_structure:
        return of_structure
    if not changes:
        return of_words
    left = list(of_words)
    named = []
    for change in changes:
        same = next((each for each in left if _is_same(each, change)), None)
        if same is not None:
            left.remove(same)
            change = replace(change, argument=same.argument)
        named.append(change)
    return named


def _is_same(worded: Change, change: Change) -> bool:
    """Whether the words speak of this change of a leaf."""
    if worded.mechanism != change.mechanism:
        return False
    sides = ((worded.before, change.before), (worded.after, change.after))
    return all((one or "").partition(" ")[0] == (other or "").partition(" ")[0] for one, other in sides)


def _of_line(line: str, named: Named) -> Iterator[Change]:
    if match := _NODE.search(line) or _NODE_GIVEN.search(line):
        yield _of_tree(match["path"], match["now"], match["before"], match["why"], named)
    elif match := _NTH_CONTEXT.search(line):
        yield Change(None, "config", match["before"], match["now"])
    elif match := _AT.search(line) or _GIVEN.search(line):
        name, sides = match["name"], (_type(match["before"]), _type(match["now"]))
        yield from differences(*(Signature({name: side}) for side in sides))
    elif match := _CONTEXT.search(line):
        name = "mesh" if match["name"] == "abstract_mesh_context_manager" else match["name"]
        yield Change(name, "config", match["before"], match["now"])


def _type(text: str) -> str:
    """An abstract value as JAX prints it, in our words: "f32[8@x,4]{weak_type=True}" → "f32[8,4] weak @(x,)"."""
    weak = _WEAK.search(text)
    match = _SHARDED.fullmatch(_WEAK.sub("", text).strip())
    if match is None:
        return text
    sizes, axes = [], []
    for size in match["dims"].split(","):
        length, _, axis = size.partition("@")
        sizes.append(length)
        axes.append(axis)
    words = [f"{match['dtype']}[{','.join(sizes)}]"]
    if weak and weak[1] == "True":
        words.append("weak")
    if any(axes) or (match["mesh"] or "{}") != "{}":
        words.append(f"@({','.join(axes)})/{match['mesh']}".replace(" ", ""))
    return " ".join(words)


def _of_tree(path: str, now: str, before: str, why: str, named: Named) -> Change:
    path = re.sub("^args", _POSITIONAL, re.sub("^kwargs", _BY_KEYWORD, path))
    static = [_STATIC.match(side) for side in (before, now)]
    name = _argument(path, named)
    if all(static):
        was, is_now = (side[1] for side in static if side is not None)
        return Change(name, "static_argument", was, is_now)
    if path == _POSITIONAL and path in named:
        return Change(named[path]["argument"], "pytree", _node(before), _node(now))
    if path in (_POSITIONAL, _BY_KEYWORD):
        keys = _KEYS.search(why)
        names = keys[1].replace("'", "").split(", ") if keys else []
        return Change(names[0] if len(names) == 1 else None, "keyword", None, None)
    sides = [_node(side) for side in (before, now)]
    if all(_METADATA in side for side in sides):
        return Change(name, "static_argument", *sides)
    return Change(name, "type" if "None" in sides else "pytree", *sides)


def _argument(path: str, named: Named) -> str:
    """Where in the call a path leads to, by the argument's name where that is known."""
    if (match := re.match(r"\[0\]\[\d+\]", path)) and match[0] in named:
        return named[match[0]]["argument"] + path[match.end() :]
    if match := re.match(r"\[1\]\['(\w+)'\]", path):
        return match[1] + path[match.end() :]
    return f"args{path.removeprefix(_POSITIONAL)}"


def _node(text: str) -> str:
    if text == "pytree leaf":
        return "a leaf"
    match = _CLASS.match(text)
    return "None" if match and match[1] == "NoneType" else text.replace(match[0], match[1]) if match else text
