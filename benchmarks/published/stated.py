"""What a framework's own text states of a recompile, and whether rightly: the rule of benchmarks/published/explain.py.

A text states the *cause* if it has a wording for the mechanism, whichever (`_WORDINGS`), or if it gives two types that
differ in just that property. It names the *argument* if it has the path as the user wrote it, or one that can mean
nothing else: `fn._modules['1'].p` for `self[1].p`, `args[0]`, JAX's `input path [0][1]` for the second argument. It
gives a *value* if that part of it is there which differs: the size of the dimension, the dtype, the key, the length of
the list; and where only two values are possible, also if it excludes one. Of several earlier variants that it compares
the call with, the one counts of which it states most. What a reader would have to put together from several pages does
not count. Where two earlier variants are equally near, the `# expect:` line names the later one, and only that counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Said = tuple[str, str | None, str | None, str | None]


class Marks(NamedTuple):
    """What is rightly stated; None where the recompile has no such thing."""

    cause: bool
    argument: bool | None
    before: bool | None
    after: bool | None

    @property
    def whole(self) -> bool:
        return all(mark is not False for mark in self)

    @property
    def score(self) -> int:
        return sum(mark is True for mark in self)


@dataclass(slots=True)
class Clause:
    """One difference that a text states: where, and what was there before and after (None where it does not say)."""

    text: str
    where: str
    before: str | None = None
    after: str | None = None


ALL = None  # the position of an argument that takes all that are passed by position
_REDEFINED = "being re-defined repeatedly"  # JAX never looks at what a function holds
_WORDINGS = {
    "shape": r"(?:size|rank) mismatch|\.size\(\)",
    "dtype": r"dtype mismatch",
    "layout": r"stride mismatch|dispatch key set mismatch",
    "device": r"dispatch key set mismatch",
    "requires_grad": r"requires_grad mismatch",
    "committed": r"\bcommitted",
    "donation": r"\bdonat",
    "type": r" is None| is not None|check_type_id|expected type of|NoneType",
    "aliasing": r"Duplicate tensors| is (?!None|not)\w",
    "static_argument": r"pytree metadata",
    "python_scalar": r" [!=]= |isnan",
    "module_attribute": rf" [!=]= |dict_contains|{_REDEFINED}",
    "global": rf" [!=]= |{_REDEFINED}",
    "closure": rf" [!=]= |{_REDEFINED}",
    "pytree": r"do not match|Python types differ",
    "keyword": r"dict_contains|\bkwargs\b|\bargs\b|input path \[[01]\],",
    "container": r"\blen\(|(?:^|: *)not |contains|dict\.keys|KeyError|IndexError",
    "training_mode": r"\.training\b",
    "sharding": r"__dtensor_spec_",
    "grad_mode": r"grad_mode|dispatch key set mismatch",
    "autocast": r"[aA]utocast",
    "config": r"GLOBAL_STATE|BACKEND_MATCH|dim_marking|dynamic_indices|torch_function_mode|Tracing context",
    "new_function": _REDEFINED,
    "identity": r"check_obj_id|check_type_id|Not a function|deallocated|BACKEND_MATCH",
    "optimizer_state": r"\bself\.state\b",
    "gradient_state": r"\.grad is ",
    "cache_cleared": r"\breset\b|\bcleared\b",
}
_ARRAY = re.compile(r"([a-z]\w*(?:<\w+>)?)\[([^\]]*)\](.*)", re.DOTALL)
_DTYPES = {"f32": "Float|float32", "f64": "Double|float64", "f16": "Half|float16", "bf16": "BFloat16|bfloat16"}
_CONTAINER = re.compile(r"(list|tuple|dict|set) of (\d+)")
_OTHER_NAMES = {
    "torch_function_modes": r"torch_function_mode",
    "mark_dynamic": r"dim_marking|dynamic_indices",
    "allow_tf32": r"allow_tf32|cuda_matmul_precision",
}
_WORDS = {"function": "function|code", "an object that was freed": "deallocated", "not set": "without"}
_MODES = {
    "on": r"\bTrue\b|Autograd",
    "off": r"\bFalse\b|DispatchKeySet\((?!.*Autograd)",
    "inference": r"DispatchKeySet\((?!.*Autograd)",
}


def judge(expected: Said, clauses: list[Clause], positions: Mapping[str, int | None]) -> Marks:
    """The marks of the clause that states most; `positions` are those of the arguments, by name."""
    marks = [_judge(expected, clause, positions) for clause in clauses]
    return max(marks, key=lambda each: (each.cause, each.score))


def _judge(expected: Said, clause: Clause, positions: Mapping[str, int | None]) -> Marks:
    cause, argument, before, after = expected
    return Marks(
        states(cause, clause),
        None if argument is None else names(argument, clause.where, positions),
        None if before is None else _gives(cause, before, after, clause.before),
        None if after is None else _gives(cause, after, before, clause.after),
    )


# --- cause --------------------------------------------------------------------------------------------------------


def states(cause: str, clause: Clause) -> bool:
    """Whether a difference is said to be of that mechanism."""
    if cause in _WORDINGS and re.search(_WORDINGS[cause], clause.text):
        return True
    before, after = (_ARRAY.match(side or "") for side in (clause.before, clause.after))
    if before is None or after is None:
        return False
    sizes = [re.sub(r"@\w+", "", side[2]) for side in (before, after)]
    weak = [re.search(r"weak_type=\w+", side[3]) for side in (before, after)]
    differs = {
        "dtype": before[1] != after[1],
        "shape": sizes[0] != sizes[1],
        "weak_type": [match and match[0] for match in weak] != [None, None] and before[3] != after[3],
        "sharding": sizes[0] == sizes[1] and (before[2], before[3]) != (after[2], after[3]) and not any(weak),
    }
    return differs.get(cause, False)


# --- argument -----------------------------------------------------------------------------------------------------


def names(argument: str, where: str, positions: Mapping[str, int | None]) -> bool:
    """Whether `where` has the argument in one of its spellings."""
    if argument in _OTHER_NAMES:
        return re.search(_OTHER_NAMES[argument], where) is not None
    parts = re.findall(r"\w+", argument)
    root, rest = parts[0], argument[len(parts[0]) :]
    if len(parts) > 1 and root in ("self", "optimizer"):  # a module is also called fn, an optimizer self
        parts = parts[1:]
    path = r"(?:\W+_(?:modules|parameters|buffers))?\W+".join(map(re.escape, parts))
    spellings = [rf"(?<![a-zA-Z0-9]){path}(?![a-zA-Z0-9])", rf"input path \[1\]\['{root}'\]{re.escape(rest)}(?![\[.])"]
    if root in positions:
        place = positions[root]
        inside = rf"\[{place}\]{re.escape(rest)}" if place is not ALL else ","
        spellings.append(rf"input path \[0\]{inside}(?![\[.])")
    if rest:
        spellings.append(rf"input path \[1\],.*'{parts[-1]}'")
    else:
        spellings += [r"\bargs(?:'\])?\[\d\]", r"__defaults__\[\d\]"]
    if argument == "optimizer":
        spellings.append(r"\bself\b")
    return any(re.search(spelling, where) for spelling in spellings)


# --- values -------------------------------------------------------------------------------------------------------


def _gives(cause: str, value: str, other: str | None, said: str | None) -> bool:
    return said is not None and re.search(_spelling(cause, value, other or ""), said) is not None


def _spelling(cause: str, value: str, other: str) -> str:
    """A pattern for all the ways to write that part of a value which differs from the other one."""
    array = _ARRAY.fullmatch(value)
    if array is not None:
        return _array(cause, array, _ARRAY.fullmatch(other))
    if value in _MODES:
        return _MODES[value]
    if cause == "aliasing":
        return "same" if "same" in value else "another"
    if cause == "requires_grad":
        return "requires_grad=0|False" if value.startswith("no") else "requires_grad=1|True"
    if value.startswith("by "):
        return r"length|child|^[1-9]$"
    if cause == "new_function":
        return "function"
    if cause in ("container", "pytree", "type", "optimizer_state"):
        return _container(value, other)
    if value in _WORDS:
        return _WORDS[value]
    if match := re.fullmatch(r"mesh\((\w+)=(\w+)\)", value):
        return rf"{match[1]}\W+{match[2]}\b"
    words = re.sub(r" #\d+$|^another |^<function |>$", "", value)
    return rf"(?<![\w.]){_quoted(words)}(?!\w)" if words[:1].isdigit() else rf"(?<!\w){_quoted(words)}(?!\w)"


def _quoted(words: str) -> str:
    """A literal, with or without its quotes."""
    return re.escape(words).replace("'", "'?")


def _array(cause: str, array: re.Match[str], other: re.Match[str] | None) -> str:
    dtype, dims, flags = array[1], array[2].split(","), array[3]
    written = re.escape(dtype) + r"\[" + ",".join(rf"{size}(?:@\w+)?" for size in dims) + r"\]"
    if cause == "shape":
        others = other[2].split(",") if other else []
        differing = [size for size, was in zip(dims, others, strict=False) if size != was]
        numbers = differing if len(dims) == len(others) else [str(len(list(filter(None, dims))))]
        return rf"\b(?:{'|'.join(numbers)})$|{written}"
    if cause == "dtype":
        return rf"\b(?:{re.escape(dtype)}|{_DTYPES.get(dtype, 'never')})(?!\w)"
    if cause == "weak_type":
        return rf"{written}.*weak_type={'weak' in flags}"
    if cause == "layout":
        return r"\b\d+$"
    if cause == "device":
        return r"(?i)\bmeta\b" if "meta" in flags else r"(?i)\bcpu\b"
    if cause == "requires_grad":
        return "requires_grad=1|True" if "requires_grad" in flags else "requires_grad=0|False"
    if cause == "type":
        return rf"[Tt]ensor|pytree leaf|{written}"
    return written


def _container(value: str, other: str) -> str:
    """By the kind, where it differs; else by how many there are, or by the key that came or went."""
    kind, length, keys = _taken_apart(value)
    other_kind, _, other_keys = _taken_apart(other)
    if kind not in ("list", "tuple", "dict", "set", "None"):
        return rf"(?i)\b{re.escape(value)}\b|\b{kind}\b"
    if kind != other_kind:
        return r"\bNone" if kind == "None" else rf"\b{kind}\b"
    differing = "|".join(map(re.escape, keys ^ other_keys)) or "never"
    return rf"\b{length}\b|(?:with|without|sets:) \{{?'(?:{differing})'"


def _taken_apart(value: str) -> tuple[str, int, set[str]]:
    """Kind, length and keys of a container as it is written; of a number its type, and `object` for a class."""
    if match := _CONTAINER.fullmatch(value):
        return match[1], int(match[2]), set()
    if value in ("[]", "{}", "()"):
        return {"[": "list", "{": "dict", "(": "tuple"}[value[0]], 0, set()
    if value.startswith("{"):
        keys = set(re.findall(r"'([^']*)'", value))
        return "dict", len(keys), keys
    try:
        return type(ast.literal_eval(value)).__name__.removesuffix("Type"), 0, set()
    except (ValueError, SyntaxError):
        return "object", 0, set()
