"""Reads JAX's own explanation of a cache miss: what differed from the nearest program it had traced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from coldstep._util import figures
from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import MOST_NAMED, of_compile
from coldstep.analysis.remedies.blocks import Block, Written, block_around
from coldstep.analysis.remedies.edits import is_call
from coldstep.analysis.remedies.layers import as_scan
from coldstep.analysis.remedies.loops import as_fori_loop, as_vmap
from coldstep.analysis.remedies.masks import with_where
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.analysis.remedies.windows import with_dynamic_slice
from coldstep.model import Compile, Finding, Location, Remedy, Trace, Unrolled
from coldstep.signature import Change, Signature, differences

PAD = ("import jax.numpy as jnp", "jnp.pad(x, [(0, 0)] * {d} + [(0, more)] + [(0, 0)] * (x.ndim - {n}))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

TAKE_FUNCTIONS = ("scan", "while", "cond", "custom_jvp_call", "custom_vjp_call", "custom_linear_solve")
"""Operations that are given functions."""
INTO_THE_FUNCTION = (
    "Move this operation into the jitted function, or keep its shapes and its Python numbers (an exponent, an axis, a "
    "size) the same: for each new one it compiles another program. Where they have to differ (to cut or pad data of "
    "any lengths), do it on the host, in NumPy: np.asarray(x) first."
)
"""What to do about an eager operation that compiles again and again."""
DEFINED_ONCE = (
    "A function that is made anew is compiled again, whatever it holds: define the function that it is given once, "
    "outside of the loop, and pass the values that change as arguments (of scan and while_loop: in the carry). Another "
    "length, unroll or bound of a loop, another setting of JAX's and cleared caches compile it again, too. Or put the "
    "call into one jitted function."
)
"""The same of one of `TAKE_FUNCTIONS`, where its arrays were alike."""
OF_LAYERS = Row(
    "Stack what the turns read, and scan over it: jax.lax.scan, nn.scan in Flax. The program then holds one turn, and "
    "its compile does not grow with the depth. On a CPU a steady step may take longer: compare both.",
    instead="{loop}",
    changes="rounding",
)
"""What to do about a loop whose turns are alike, but for the weights that each reads."""

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
_LARGE = 1 << 20  # bytes of constants: fewer are worth no word
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
    if (match := _SHARDED.fullmatch(_WEAK.sub("", text).strip())) is None:
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


# --- functions that cannot be traced --------------------------------------------------------------------------------

BY_ERROR = {
    "NonConcreteBooleanIndexError": "How many entries a mask picks is not known while JAX traces: keep the array's "
    "size, jnp.where(mask, new, old), or jnp.nonzero(mask, size=…).",
    "TracerBoolConversionError": "The branch needs a value, and JAX traces without one: jnp.where or jax.lax.cond "
    "keeps the choice in the program; an argument that takes few values may be static (static_argnames).",
    "TracerIntegerConversionError": "An index or a size needs a number, and JAX traces without one: "
    "jax.lax.dynamic_slice or jnp.take takes an array; an argument that takes few values may be static "
    "(static_argnames).",
    "TracerArrayConversionError": "NumPy needs the values, and JAX traces without them: call the function of jax.numpy "
    "instead.",
    "ConcretizationTypeError": "A shape or a Python number has to be known while JAX traces: make that argument static "
    "(static_argnames), or give the array a fixed size and a mask.",
    "UnexpectedTracerError": "A value of an earlier trace was kept, in a global, an attribute or a list: return it "
    "from the function instead.",
    "Slice entries must be static integers": "A slice's length has to be known while JAX traces: "
    "jax.lax.dynamic_slice takes a start that is an array, and a fixed length.",
    "TraceContextError": "A module of Flax's NNX keeps its state (parameters, counters, keys) where it was made, "
    "and a function that reads the module from outside of its arguments may not change it: make the module an argument "
    "of a function under nnx.jit, nnx.jit(lambda module, x: module(x)), which passes its state in and out.",
    "Shapes must be 1D sequences of concrete values": "A shape has to be known while JAX traces: make that argument "
    "static (static_argnames), or give the array a fixed size and a mask.",
}
"""By the name of JAX's error, or its words: what to write instead."""


_MASK, _WINDOW = "NonConcreteBooleanIndexError", "Slice entries must be static integers"
_REWRITTEN = {
    _MASK: (with_where, Row("{instead}", instead="{statement}", changes="rounding")),
    _WINDOW: (
        with_dynamic_slice,
        Row(
            "{instead} A start so late that the slice would leave the array is moved back, and the slice is whole.",
            instead="{statement}",
        ),
    ),
}
"""By JAX's words: what writes the statement that it cannot trace anew, and the row of that."""


def rewritten(trace: Trace, row: Compile, at: Location | None, instead: str) -> list[Remedy]:
    """What to do about a statement that JAX cannot trace, where the trace shows enough of the code around it."""
    block = block_around(trace.blocks, at) if at is not None else None
    for words, (rewrite, made) in _REWRITTEN.items():
        if block is not None and at is not None and words in trace.details[row.id].error:
            if (written := rewrite(block, at.line)) is None:
                return []
            place = Place(written.location, lines=written.lines)
            names = {"instead": instead, "statement": written.code}
            return remedies(made, Case(f"jax.{rewrite.__module__.rpartition('.')[2]}:{row.function}", names, place))
    return []


# --- callbacks ---------------------------------------------------------------------------------------------------

_CALLBACK = Row(
    "Take the callback out of the step, or run it only in some steps, with a jitted function that has none for the "
    "others. Without it, what it reports is missing.",
    instead="{statement}",
)


def without_callback(trace: Trace, row: Compile) -> list[Remedy]:
    """What to do about a program that a callback makes slow to call, or keeps out of a cache."""
    at = trace.details[row.id].cause_at
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    names = {"statement": "pass" if is_call(line, "debug.print", "debug.callback") else ""}
    return remedies(_CALLBACK, Case(f"jax.callback:{row.function}", names, Place(at, line=line)))


# --- constants ----------------------------------------------------------------------------------------------------


_AS_ARGUMENTS = Row(
    "The function reads them from outside of its arguments: pass them as arguments. XLA computes with constants while "
    "it compiles, and keeps a copy of them in each variant. Newer JAX passes them by itself with "
    "jax_use_simplified_jaxpr_constants, a flag that it calls provisional.",
    environment={"JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1"},
)


def held_once(block: Block, loop: Unrolled, compile_: Compile) -> Written | None:
    """An unrolled loop written with scan, fori_loop or vmap, where that computes the same."""
    types = {each.argument: each.type for each in compile_.inputs or ()}
    line = loop.location.line
    if loop.layers:
        return as_scan(block, line, types)
    arrays = {*types} if loop.location.function == compile_.function else set()
    return as_fori_loop(block, line, arrays) or as_vmap(block, line, arrays)


def captured_constants(trace: Trace) -> Iterator[Finding]:
    """Programs with large constants: one for each function, of the variant that holds most."""
    bytes_ = {row.id: sum(trace.details[row.id].constants.values()) for row in trace.compiles}
    by_key = gathered(((row.process, row.key), row) for row in trace.compiles if bytes_[row.id] >= _LARGE)
    for rows in by_key.values():
        row = max(rows, key=lambda row: bytes_[row.id])
        mended = remedies(_AS_ARGUMENTS, Case(f"jax.captured_constants:{row.function}", {}))
        held = trace.details[row.id].constants
        largest = figures.listed(sorted(held, key=held.__getitem__, reverse=True), MOST_NAMED)
        text = f"{row.function} holds {figures.size(bytes_[row.id])} of constants: {largest}"
        yield of_compile(trace, row, "captured_constants", text, cost_ns=0, remedies=mended)


# --- remedies -----------------------------------------------------------------------------------------------------

_JITTED_ONCE = " jit the function once, outside the loop: a function made anew is compiled again, whatever it holds."
_STRONG = (
    "from jax import numpy as jax_numpy, tree as jax_tree\n"
    "{expression} = jax_tree.map(lambda leaf: jax_numpy.asarray(leaf, jax_numpy.result_type(leaf)), {expression})"
)
_PINNED = (
    "from jax import device_put as put, devices as all_devices\n{expression} = put({expression}, all_devices()[0])"
)

_TAKEN_OFF = (
    "Take {argument} off static_argnums or static_argnames: as an argument like any other its value is not compiled in"
)
_STAYS = "Where the code needs the number itself, for a shape or a branch, it has to stay static: keep its values few."
REMEDIES = {
    "shape": Row("JAX compiles once for each shape: {fixed}.", changes="data"),
    "weak_type": Row(
        "Give {argument} a strong type from the start: jnp.float32(…) of its value instead of a Python number or "
        "jnp.asarray(…).",
        above=_STRONG,
    ),
    "type": Row(
        "Pass {argument} in its final form at the first call: instead of None an array of the same shape and dtype, "
        "which holds what the function computes where it is given None (zeros, where it takes None for nothing)."
    ),
    "sharding": Row(
        "Put {argument} where it belongs once, before the loop: jax.device_put((params, state), sharding)."
    ),
    "device": Row("Keep {argument} on one device: jax.device_put({argument}, device) once, before the loop."),
    "committed": Row(
        "Commit everything once before the loop, jax.device_put((params, state), device), or nothing: {argument} was "
        "uncommitted in one call and committed in another.",
        above=_PINNED,
    ),
    "donation": Row("Call one jitted function with one donate_argnums: this compiles the same code with two."),
    "static_argument": Row(
        "Each value of {argument} is compiled in: keep them few, and give objects __eq__ and __hash__ by content, or "
        "each new one is another value. Where one holds arrays, make it within the jitted function, from arrays that "
        "are arguments."
    ),
    "static identity": Row(
        "JAX knows {argument} by identity, and compiles anew for each new one. Make it once, outside the loop, where "
        "nothing in it changes. Where it holds arrays that do, make it within the jitted function, from arrays that "
        "are arguments. An object's class may have __eq__ and __hash__ by content instead."
    ),
    "static object": Row(
        "Of {argument} only {varying} changed, not {steady}: pass {varying} as an argument of its own that is not "
        "static, so that its value is not compiled in. " + _STAYS
    ),
    "static choice": Row("Each value of {argument} is a program of its own: keep them few.", how="none"),
    "static number": Row(f"{_TAKEN_OFF}. {_STAYS}", instead="{rewritten}", changes="rounding"),
    "static number, of Equinox perhaps": Row(
        f"{_TAKEN_OFF} (in Equinox, where each Python number is static, pass jnp.asarray({{argument}})). {_STAYS}",
        instead="{rewritten}",
        changes="rounding",
    ),
    "number of Equinox": Row(
        "Equinox compiles in each Python number that a module holds: hold {argument} in an array, if the code only "
        "computes with it.",
        above=(
            "from equinox import tree_at as with_leaf\nfrom jax.numpy import asarray as to_array\n"
            "{expression} = with_leaf(lambda held: held{rest}, {expression}, to_array({expression}{rest}))"
        ),
        each=True,
        changes="rounding",
    ),
    "number given to Equinox": Row(
        "Equinox compiles in each Python number that a module holds: give {argument} as an array, if the code only "
        "computes with it.",
        above="from jax.numpy import asarray as to_array\n{number} = to_array({number})",
        each=True,
        changes="rounding",
    ),
    "number passed to Equinox": Row(
        "Under filter_jit each Python number is static, and its value compiled in: pass {argument} as an array, "
        "jnp.asarray({argument}). " + _STAYS,
        changes="rounding",
    ),
    "static field": Row(
        "{argument} is static where it is held: if the code only computes with it, make it data of its class (in "
        "data_fields of register_dataclass, a child in tree_flatten, without static=True or pytree_node=False). Else "
        "each value of it is a program of its own: keep them few.",
        changes="rounding",
    ),
    "pytree": Row(
        "Give {argument} the same structure (keys, lengths, node types) at every call. What the function gives back "
        "for the next call begins with all its keys, as arrays of their later types."
    ),
    "longer list": Row(
        "Only the length of {argument} varies, and its elements are alike: pass one array of them, "
        "jnp.stack({argument}) (np.array of numbers), padded to one length, or to a few (powers of two), "
        "and mask the padding."
    ),
    "keyword": Row("Pass {argument} in every call or in none, and always by position or always by keyword."),
    "config": Row("Set {argument} once, before the first call: every value of it compiles again."),
    "default device of committed": Row(
        "JAX compiles for each jax.default_device that is set where the function is called, though all its arguments "
        "are pinned to a device already: call it without one.",
        instead="{undirected}",
    ),
    "closure": Row("Pass {argument} as an argument instead of closing over it, and" + _JITTED_ONCE),
    "global": Row("Pass {argument} as an argument instead of reading the global, and" + _JITTED_ONCE),
    "module_attribute": Row(
        "Pass {argument} as an argument (an attribute is read when the function is traced, and never again), and"
        + _JITTED_ONCE
    ),
    "new_function": Row(
        "Make the function once, outside the loop: a new lambda, partial or bound method is a new function to jax.jit."
    ),
    "cache_cleared": Row("Do not clear JAX's caches between steps."),
    "unrolled": Row(
        "Write the loop as jax.lax.fori_loop(0, n, body, carry), or as jax.lax.scan where each turn takes or leaves a "
        "value, or as jax.vmap where no turn needs another: the program then holds one turn, and compiles as fast. "
        "What a turn hands on has to keep its shape and dtype. On a CPU a steady step may take longer: compare both.",
        instead="{loop}",
        changes="rounding",
    ),
    "fed_back_output dtype": Row(
        "The step returns {argument} as {after}, though it took {before}: cast it back in the step, .astype(…), which "
        "rounds it, or begin with {after}. A NumPy number promotes (np.float32(0.1)), a Python number does not.",
        above='{expression} = {expression}.astype("{dtype_after}")',
        changes="rounding",
    ),
    "fed_back_output weak_type": Row(
        "The step returns {argument} strongly typed: begin with a strong type, too, jnp.float32(0) or jnp.zeros(()) "
        "instead of a Python number or jnp.asarray(0.0).",
        above=_STRONG,
    ),
    "fed_back_output shape": Row(
        "The step returns {argument} in another shape than it took: write into an array of fixed size "
        "(jax.lax.dynamic_update_slice), or {fixed}."
    ),
    "fed_back_output sharding": Row(
        "The step returns {argument} spread over the devices in another way than it took it: begin so, "
        "jax.device_put((params, state), sharding) once before the loop, with the sharding that it comes back with "
        "({after}).",
        above=(
            "from jax import device_put as put\n"
            "{expression}{rest} = put({expression}{rest}, {expression}{like}.sharding)"
        ),
    ),
    "fed_back_output committed": Row(
        "The step returns {argument} pinned to its device, since another argument was: put everything there once "
        "before the loop, jax.device_put((params, state), device), or leave all of it unpinned.",
        above=_PINNED,
    ),
}
"""By cause, or by pattern and cause: what to change. `coldstep.analysis.advice` chooses."""
