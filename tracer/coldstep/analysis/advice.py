"""Chooses what to change about a recompile from the rows that `rules` has for its stack. Of graph breaks: `breaks`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from coldstep._util.expressions import expression
from coldstep._util.figures import listed
from coldstep.analysis.patterns import (
    FUNCTION,
    differing,
    dims,
    dtype_name,
    fields,
    is_longer_alone,
    is_number,
    is_zero_or_one,
)  # fmt: skip
from coldstep.analysis.remedies.blocks import Written
from coldstep.analysis.remedies.edits import (
    Call,
    called,
    is_plain,
    makes,
    on_no_device,
    state_made,
    statements,
    with_argument,
    with_tensor,
)  # fmt: skip
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.analysis.rules.dynamo import asked_of_a_size
from coldstep.analysis.rules.registry import RULES
from coldstep.context import run_of_its_cell
from coldstep.model import Change, Recompile, Remedy, Trace

_MAX_ARGUMENTS = 3  # that are named
_MANY_NUMBERS = 5  # of one argument, of those that are compiled in: fewer are lived with
_MANY_WORDS = 6  # of one argument: fewer are a choice among modes
_LAST_BATCH = (
    "pad the last batch to the size of the others, with a mask (unmasked padding changes the results), or drop it "
    "({drop}), which leaves its rows out"
)
_SMALLER = (
    "pad {arguments} to one size, or drop the last batch where this is that of an epoch ({drop}), which leaves its "
    "rows out; mask what is padding"
)
_ONE_SIZE = "pad {arguments} to one size, or to a few (powers of two), and mask what is padding"
MADE_ONCE = Row(
    "It is made anew each time, and so is another one, though it may hold the same. Make it once, if nothing changes "
    "what it holds.",
    instead="{once}",
)
_ANY = {
    "dtype": Row(
        "Give {argument} one dtype at every call: cast it once, where the data is made (a cast to a narrower dtype "
        "rounds).",
        changes="rounding",
    ),
    "wide dtype": Row(
        "{argument} has 64 bits in one call, as NumPy makes numbers by default, and 32 in another: cast it where it is "
        "made.",
        over="{narrow}",
        changes="rounding",
    ),
    "rank": Row("Give {argument} the same number of dimensions in every call: each number has a compile of its own."),
    "optimizer_state": Row(
        "Create the optimizer's state before the first step, or leave the optimizer's step out of the compiled "
        "function."
    ),
    "gradient_state": Row(
        "Give gradients the same state in every step: one backward before the first compiled step, and "
        "zero_grad(set_to_none=False) after it and in every step."
    ),
    "unknown": Row("See the evidence: none of the known causes could be shown.", how="none"),
    "kept function": Row(
        "A new function is made at each call, and compiled anew. Make it once, outside of the loop; or go on with the "
        "first one, which holds the same.",
        over="{kept}",
    ),
    "function of its line": Row(
        "{made} makes a new function each time that the line runs, which is compiled anew. Make it once, outside the "
        "loop, and give what it reads from around it as arguments."
    ),
    "cell again": Row(
        "The cell that defines this function ran again. Its source is the same, but the function is a new one, and "
        "compiles again. Define it in a cell of its own, and run that cell once."
    ),
    "two modes": Row(
        "Two modes are two variants, and both are kept: going back compiles nothing. Call both once before you "
        "measure.",
        how="none",
    ),
    "freed": Row("Make the object behind {argument} once, outside the loop, and keep it: each new one compiles again."),
    "made once": MADE_ONCE,
    "text": Row(
        "A string is compiled in, so each text compiles anew. Turn {argument} into an array of numbers before the call "
        "(where its words become tokens), and compile only what takes that."
    ),
    "many words": Row(
        "{argument} had {values} values, and each is compiled in: a program of its own. Where it names data (an id, a "
        "path, a text), keep it out of what is compiled; where it picks something, pass what it picks.",
    ),
    "many objects": Row(
        "Each {object} has a variant of its own: that is no growth, as long as no new one is made while the training "
        "runs.",
        how="none",
    ),
}
"""What holds for every stack, by cause or by what else was seen."""
# coldstep: "optimizer.param_groups[0]['betas'][0]"
_BETA = expression(r"^optimizer(\.param_groups\[\d+\]\['betas'\])\[\d\]$")
# coldstep: "optimizer.param_groups[1]['lr']"
_RATE = expression(r"^optimizer\.param_groups\[\d+\]\['lr'\]$")
DEFAULT_DEVICE, _COMMITTED, _WEAK = "jax_default_device", " committed", " weak"
_FILTER_JIT = "filter_jit"
_JIT = "jit"
_NOTHING_YET = ("{}", "[]")
_PENDING = "AsyncCollectiveTensor"
# coldstep: "Schedule #2"
# coldstep: "main.<locals>.Schedule #2"
# coldstep: "<lambda> #2"
# coldstep: "GradientTransformationExtraArgs(init=chain.<locals>.init_fn #2, update=chain.<locals>.update_fn #2)"
NEW_OBJECT = expression(r"^(?:[\w.<>]+\.)?(?P<class>\w+|<lambda>)(?: #\d+$|\(.* #\d+)")
"""An object that is known by identity."""
# coldstep: "f32[2,1,8,8]"
_TENSOR = expression(r"[a-z]+\d+\[")
_CONSTANTS = ("python_scalar", "module_attribute", "global", "closure")
_MOST_OPENED = 40  # sources in one variable
_PARAMETER = "force_parameter_static_shapes"
# coldstep: "batch['tokens']"
# coldstep: "args[0]"
ROOT = expression(r"args\[\d+\]|[A-Za-z_]\w*")
# coldstep: "['params']['w']"
_KEYS = expression(r"(?:\['[^'\]]+'\])+")
# PyTorch 2.13: "8/0: tensor 'args[0]' size mismatch at index 0. expected 8, actual 5"
_ARGS = expression(r"\bargs(\[\d+\])")
# PyTorch 2.13: "0/0: tensor 'kwargs['input_ids']' size mismatch at index 1. expected 16, actual 24"
_KEYWORDS = expression(r"\b(kwargs|kwds|kw)\['(\w+)'\]")
# PyTorch 2.13: "self._modules['cache'].size" in "0/0: self._modules['cache'].size == 0"
_OF_SELF = expression(r"\bself((?:\.\w+|\[[^\]]*\])+)")
# PyTorch 2.13: "self._modules['cache'].size"
# PyTorch 2.13: "self._modules['0'].size"
_MODULE = expression(r"\._modules\['(?:(\d+)|(\w+))'\]")
# PyTorch 2.13: "0/0: n == 3  # return x[:n]  # train.py:6 in f"
_CODE = expression(r"  # (?P<code>.+?)  # \S+:\d+ in ")
_SIZED = {
    "range", "view", "reshape", "zeros", "ones", "empty", "full", "arange", "linspace", "expand", "repeat", "split",
    "chunk", "narrow", "topk", "roll", "unflatten", "tile", "eye", "randn", "rand", "flip", "squeeze", "unsqueeze",
    "sum", "mean", "size", "transpose", "permute", "softmax", "cat", "stack", "interpolate", "pad",
}  # fmt: skip
"""What is called with numbers that say how it works: a size, an axis, a shift."""
_MAKES_ONE = {"range", "zeros", "ones", "empty", "full", "arange", "linspace", "eye", "randn", "rand"}
"""Those that are given no tensor first."""
_FUNCTIONS = {"torch", "F", "functional", "nn.functional", "torch.nn.functional"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the trace shows of a call beyond its recompile."""

    is_open: bool | None = None
    """Whether the new variant takes every further size or number; None where that is not known."""
    named: Callable[[str], str] = field(default=lambda argument: argument)
    """How the user would write an argument."""
    within: bool = False
    """Whether a library calls the function, with a tensor which the user never holds."""
    place: Place = NOWHERE
    """Where the user's code may be changed."""
    roots: frozenset[str] = frozenset()
    """The function's own arguments."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The type of each of its parameters, where all of them are arrays."""
    placed: Mapping[str, str] = field(default_factory=dict)
    """The type of each array that was handed in."""
    kept: str = ""
    """Of a function made anew: the statement that puts the first one in its place, where that does as well."""
    optimizer: str = ""
    """The variable that holds the one optimizer of the program, where the line of the call can name it."""
    mode: str = ""
    """The `with` line that entered the mode of the earlier call, with the later one's."""
    static: bool | None = None
    """Whether the program gave dynamic=False; None where that is not known."""
    sources: str = ""
    """What the environment has made dynamic already."""
    head: ast.arguments | None = None
    """The parameters of the function, where its definition is known."""
    same_file: bool = False
    """Whether the function stands in the file that calls it."""
    calls: Mapping[str, Call] = field(default_factory=dict)
    """Each argument that differed in the line of the call, by its path."""
    once: Written | None = None
    """Of an object that is made anew each time: the lines that make it, written so that it is made once."""
    rewritten: Written | None = None
    """Lines written so that they take any value: of a slice that begins at one that XLA compiles in, of a decorator
    that makes one static."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """Where the new variant is open, all that is in it: by argument the dimensions, "0, 1", or "value"."""
    beside: str = ""
    """The type of the arrays that a number is computed with, where the function does no more with it."""
    library: str = ""
    """The function, where it is a library's that the program did not give to the compiler itself."""
    values: int = 0
    """How many values the argument had, where that is known."""
    again: str = ""
    """Of a step of Keras': the line that compiled its model again, where it need not have: "line 25 of train.py"."""
    grad_off: bool = False
    """Whether it was called where no gradient is kept."""


def advise(trace: Trace, stack: str, row: Recompile, seen: Seen | None = None) -> list[Remedy]:
    """What to change, the best first; the argument's path and dimension are filled in."""
    seen = seen or Seen()
    package = trace.vocabulary.stacks[stack].packages[0] if stack in trace.vocabulary.stacks else stack
    id_ = f"{package}.{row.cause}" + (f":{row.argument}" if row.argument else "")
    if stack not in RULES:
        words = _of_others(trace, stack, row)
        return remedies(Row("{words}"), Case(id_, {"words": words})) if words else []
    chosen = _chosen(trace, stack, row, seen)
    written = seen.once if chosen is MADE_ONCE else seen.rewritten
    place = Place(written.location, lines=written.lines) if written is not None else seen.place
    return remedies(chosen, Case(id_, _names(stack, row, seen), place))


# --- filled in ----------------------------------------------------------------------------------------------------


def _names(stack: str, row: Recompile, seen: Seen) -> dict[str, str]:
    argument = seen.named(row.argument) if row.argument else "it"
    alike = [change for change in row.changes if change.mechanism == row.cause and change.argument]
    fixed = _ONE_SIZE
    if row.argument is not None and not (row.after or "").startswith("bool"):  # a mask is no batch of data
        smaller = _is_a_smaller_batch(row) or (seen.within and row.pattern == "relaxed")
        fixed = _LAST_BATCH if row.pattern == "last_batch" else _SMALLER if smaller else _ONE_SIZE
    root = ROOT.match(row.argument or "")
    rest = root.string[root.end() :] if root is not None else ""
    varying, steady = fields(row.before, row.after)
    dim = str(next(iter(differing(row.before, row.after)), "dim"))
    return {
        "argument": argument,
        "rest": rest,
        "dim": dim,
        "like": _like(row, rest, seen),
        "marked": _marked(argument, rest, dim, seen, alike),
        "marks": "\n".join(_marks(alike, seen)),
        "fixed": fixed.format(
            arguments=listed([seen.named(each.argument or "") for each in alike] or [argument], _MAX_ARGUMENTS),
            drop=RULES[stack].drop,
        ),
        "before": str(row.before),
        "after": str(row.after),
        "dtype_after": "" if rest else dtype_name(row.after),  # what holds it has no dtype
        "object": (row.after or "").removeprefix("another ") or "object",
        "varying": listed(varying, len(varying)),
        "steady": listed(steady, _MAX_ARGUMENTS),
        "needed": _needing(row),
        "sources": _beside(seen.sources, _sources(alike, row, seen, special=False)),
        "kept": seen.kept,
        "made": makes(seen.place.line),
        "rewritten": seen.rewritten.code if seen.rewritten is not None else "",
        "once": seen.once.code if seen.once is not None else "",
        "mode": seen.mode,
        "values": str(seen.values),
        "optimizer": seen.optimizer,
        "library": seen.library,
        "betas": f"{seen.optimizer}{beta[1]}" if (beta := _BETA.search(row.argument or "")) else "",
        "state": state_made(seen.place.line, row.after or "") if row.cause == "optimizer_state" else "",
        "number": _number(row, seen),
        "lazy": _lazy(row, rest, seen),
        "detached": _detached(seen),
        "as_tensor": _as_tensor(rest, seen),
        "narrow": _narrow(stack, row, rest, seen),
        "undirected": on_no_device(seen.place.line),
        "unbacked": ",".join(_sources(alike, row, seen, special=True)),
        **RULES[stack].names(row, seen),
    }  # fmt: skip


def _like(row: Recompile, rest: str, seen: Seen) -> str:
    """What of the same dict lies where one of its entries has come back: "['params']"; "" where nothing does."""
    root = (row.argument or "").removesuffix(rest)
    placed = (row.after or "").partition(" @")[2]
    of_root = (
        path for path, type_ in seen.placed.items() if path.startswith(root) and placed and type_.endswith(placed)
    )
    found = (path.removeprefix(root) for path in of_root if path != row.argument)
    return next((path for path in found if _KEYS.fullmatch(path)), "") if _KEYS.fullmatch(rest) else ""


def _marks(alike: list[Change], seen: Seen) -> list[str]:
    """The statements that leave open all that varies: what is left closed compiles again by itself. None where one of
    them cannot be written, where PyTorch opened more, and of what an object holds: what else it holds may vary alike.
    """
    made = []
    if seen.opened.keys() - {change.argument for change in alike}:
        return []
    for change in alike:
        call, root = seen.calls.get(change.argument or ""), ROOT.match(change.argument or "")
        if call is None or root is None or not call.takes_lines_above or _is_rest(root[0], seen):
            return []
        rest, dimensions = root.string[root.end() :], differing(change.before, change.after)
        is_special = is_zero_or_one(change.before, change.after) or is_zero_or_one(change.after, change.before)
        marked = f"{call.expression}{rest}"
        if "." in rest or not dimensions or is_special or not is_plain(marked):
            return []
        made.append(
            f"torch._dynamo.maybe_mark_dynamic({marked}, {dimensions[0] if len(dimensions) == 1 else dimensions})"
        )
    return list(dict.fromkeys(made))


def _marked(argument: str, rest: str, dim: str, seen: Seen, alike: list[Change]) -> str:
    """How to mark a dimension at the call: of what is made anew in its line, by a name of its own."""
    if each := _marks(alike, seen):
        return listed(each, _MAX_ARGUMENTS)
    call = seen.place.call
    sizes = (name for name, size in seen.opened.items() if size != "value")
    if len(varying := dict.fromkeys([*(change.argument or "" for change in alike), *sizes])) > 1:
        names = listed([seen.named(name) for name in varying], _MAX_ARGUMENTS)
        return f"torch._dynamo.maybe_mark_dynamic(…), for each of {names}"
    named = f"{call.expression}{rest}" if call is not None and call.is_object else argument
    mark = f"torch._dynamo.maybe_mark_dynamic({named}, {dim})"
    if "." in rest:
        return f"{mark}, and whatever else of that object varies with it"
    if call is None or call.is_object:
        return mark
    return f"name = {call.expression}; torch._dynamo.maybe_mark_dynamic(name{rest}, {dim}), and pass name"


def _number(row: Recompile, seen: Seen) -> str:
    """The variable from which the numbers that differed are handed to an object made in the line of the call."""
    call = seen.place.call
    match statements(call.expression) if call is not None else []:
        case [ast.Expr(value=ast.Call() as made)]:
            given = {f".{each.arg}": ast.unparse(each.value) for each in made.keywords}
            rests = [root.string[root.end() :] for each in row.changes if (root := ROOT.match(each.argument or ""))]
            names = {given.get(rest, "") for rest in rests}
            return name if len(names) == 1 and (name := names.pop()).isidentifier() else ""
    return ""


def _lazy(row: Recompile, rest: str, seen: Seen) -> str:
    """Where the call is, by what name there is what its function made at its first call; "" where by none."""
    place, path = seen.place, row.argument or ""
    root = path.removesuffix(rest)
    if place.call is not None:
        return f"{place.call.expression}{rest}" if place.call.takes_lines_above else ""
    if root == "self" and rest and not place.line.startswith("while "):
        return f"{name}{rest}" if (name := called(place.line)) else ""
    is_global = any(f"G['{root}']" in line for line in row.evidence)
    return path if is_global and place.line and seen.same_file else ""


def is_wide(before: str | None, after: str | None) -> bool:
    """Whether the first of two types is of numbers of 64 bits, and the other of the same numbers in 32."""
    wide, narrow = ((type_ or "").partition("[")[0] for type_ in (before, after))
    return wide in ("f64", "i64") and narrow == wide.replace("64", "32")


def _narrow(stack: str, row: Recompile, rest: str, seen: Seen) -> str:
    """The statement that casts an argument to its 32 bits, above the call that it has 64 in; "" where it may not."""
    call, narrow = seen.place.call, dtype_name(row.after if is_wide(row.before, row.after) else row.before)
    is_number = _WEAK in f"{row.before} {row.after}"
    if call is None or not call.takes_lines_above or rest or is_number or stack not in ("jax", "dynamo"):
        return ""
    given = call.expression
    if not call.may_assign(given):
        return ""
    cast = f"torch.as_tensor({given}, dtype=torch.{narrow})" if stack == "dynamo" else f'{given}.astype("{narrow}")'
    return f"{given} = {cast}"


def _as_tensor(rest: str, seen: Seen) -> str:
    """The one line that calls the function with a number, with a tensor in its place: there alone, for what comes after
    it may need the number (round(), a key of a dict), and only where the function does no more than compute with it."""
    call = seen.place.call
    if call is None or rest or not (seen.beside and seen.place.only and is_plain(call.expression)):
        return ""
    return with_tensor(call.line, call.expression)


def _detached(seen: Seen) -> str:
    """The line of the call with the argument detached, where that changes nothing: no gradient is kept there."""
    call = seen.place.call
    return with_argument(call.line, call.expression, "detach") if call is not None and seen.grad_off else ""


def _beside(held: str, sources: Iterable[str]) -> str:
    """The value of a variable that holds some already: what is set replaces it."""
    more = [each for each in dict.fromkeys(sources) if each and each not in held.split(",")]
    return ",".join(filter(None, [held, *more])) if more else ""


def _sources(alike: list[Change], row: Recompile, seen: Seen, *, special: bool) -> list[str]:
    """Dynamo's own names of all that varies; none where one of them has none: what is left closed compiles again."""
    names = [_source(change, row, seen, special=special) for change in alike]
    if not special:
        names += _opened(row, seen)
    return names if all(names) and len(names) <= _MOST_OPENED else []


def _source(change: Change, row: Recompile, seen: Seen, *, special: bool) -> str:
    """Dynamo's own name of what varies: "L['x']:0"; nothing where there is none that can be left open. `special`: of
    what PyTorch compiles for itself, a size of 0 or 1."""
    before, after = change.before, change.after
    name = _dynamos_name(change.argument or "", row, seen)
    if not name or (special and _holders(row, seen)):  # what a wrapper calls may ask for the size: a graph break
        return ""
    if row.cause == "shape":
        if "." in (change.argument or "") and (special or change.argument not in seen.opened):
            return ""  # what else the object holds may vary alike, and the guard names the first of them alone
        dimensions = differing(before, after)
        is_special = is_zero_or_one(before, after) or is_zero_or_one(after, before)
        return f"{name}:{dimensions[0]}" if len(dimensions) == 1 and is_special == special else ""
    return name if _is_whole(before) and _is_whole(after) and not special else ""


def _opened(row: Recompile, seen: Seen) -> list[str]:
    """What else PyTorch opened in the new variant, for what is opened alone may be followed by the next; "" for what
    has no name."""
    names = {argument: _dynamos_name(argument, row, seen) for argument in seen.opened if argument != row.argument}
    return [
        name and (name if size == "value" else f"{name}:{size}")
        for argument, name in names.items()
        for size in seen.opened[argument].split(", ")
    ]


def _holders(row: Recompile, seen: Seen) -> set[str]:
    """The **kwargs that arguments are in, as the guards show."""
    return {match[1] for line in row.evidence for match in _KEYWORDS.finditer(line) if match[2] in seen.roots}


def _dynamos_name(argument: str, row: Recompile, seen: Seen) -> str:
    """Dynamo's own name of an argument; "" where it is none of the function's, or not sure."""
    root = ROOT.match(argument)
    if root is None or not (root[0] in seen.roots or root[0] == "self"):
        return ""
    rest = argument[root.end() :]
    if by_place := {match[1] for line in row.evidence for match in _ARGS.finditer(line)}:
        # the compiled function takes *args, whatever the module's forward calls them
        return f"L['args']{by_place.pop()}{rest}" if len(by_place) == len(row.changes) == 1 else ""
    if seen.head is not None and seen.head.kwarg is not None and root[0] not in _written(seen.head):
        return f"L['{seen.head.kwarg.arg}']['{root[0]}']{rest}"
    if (seen.head is None or seen.head.kwarg is None) and (holders := _holders(row, seen)):
        return f"L['{holders.pop()}']['{root[0]}']{rest}"
    return f"L['{root[0]}']{_through_modules(rest, row) if root[0] == 'self' else rest}"


def _is_rest(name: str, seen: Seen) -> bool:
    """Whether a name is of all further positional arguments, no one of which has a name in the call."""
    return seen.head is not None and seen.head.vararg is not None and seen.head.vararg.arg == name


def _written(head: ast.arguments) -> set[str]:
    """The parameters that have names of their own."""
    rest = [head.vararg] if head.vararg is not None else []
    return {each.arg for each in (*head.posonlyargs, *head.args, *head.kwonlyargs, *rest)}


def _through_modules(path: str, row: Recompile) -> str:
    """An attribute's path below self as Dynamo reads it: "._modules['cache'].size" of ".cache.size"."""
    read = (match[1] for line in row.evidence for match in _OF_SELF.finditer(line))
    written = ((each, _MODULE.sub(lambda name: f"[{name[1]}]" if name[1] else f".{name[2]}", each)) for each in read)
    return next((each for each, as_attribute in written if as_attribute == path), path)


def _is_whole(text: str | None) -> bool:
    return bool(re.fullmatch(r"-?\d+", text or ""))


def _needing(row: Recompile) -> str:
    """The code that needs a number itself, for a size or the like; nothing where none is known to."""
    return next((code for code in _codes(row) if _needs(code, row.argument or "")), "")


def _codes(row: Recompile) -> Iterator[str]:
    """The lines of the user's code that asked for what differed."""
    return (match["code"] for line in row.evidence if (match := _CODE.search(line)) is not None)


def _needs(code: str, name: str) -> bool:
    parts = (part for each in statements(code.strip()) for node in ast.walk(each) for part in _sized(node))
    nodes = (node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name | ast.Attribute))
    return any(ast.unparse(node) == name for node in nodes)


def _sized(node: ast.AST) -> list[ast.expr]:
    """The parts that have to be numbers."""
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Call):
        of, _, name = ast.unparse(node.func).rpartition(".")
        of_a_tensor = of in _FUNCTIONS and name not in _MAKES_ONE  # torch.softmax(logits / t, dim=-1)
        given = [*node.args[of_a_tensor:], *(keyword.value for keyword in node.keywords)]
        return given if name in _SIZED else []
    return [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []


def _of_others(trace: Trace, stack: str, row: Recompile) -> str:
    """What a collector of others advises: a text of the trace's, from anybody, and no format string."""
    advised = trace.vocabulary.advice.get((stack, row.cause), "")
    if not advised and row.cause == "unknown":
        return _ANY["unknown"].text
    names = {"argument": row.argument or "it", "before": row.before or "none", "after": row.after or "none"}
    return re.sub(r"\{(argument|before|after)\}", lambda match: names[match[1]], advised)


# --- chosen -------------------------------------------------------------------------------------------------------


def _chosen(trace: Trace, stack: str, row: Recompile, seen: Seen) -> Row:
    own = {**_ANY, **RULES[stack].remedies}
    key, chosen = _key(row, seen), RULES[stack].chosen
    key = chosen(trace, row, seen, key) if chosen else key or _BY_STACK[stack](row, seen)
    key = key or f"{row.pattern} {row.cause}"
    return own.get(key) or own.get(row.cause) or own["unknown"]


def _first(*rows: tuple[object, str]) -> str | None:
    """The key of the first row that holds."""
    return next((key for holds, key in rows if holds), None)


def _key(row: Recompile, seen: Seen) -> str | None:
    """The key of the row for what was seen beyond the cause, whatever the stack."""
    cause, before, after = row.cause, row.before or "", row.after or ""
    is_new, same_run = cause == "new_function", run_of_its_cell(row.before) == run_of_its_cell(row.after)
    is_wider = is_wide(before, after) or is_wide(after, before)
    return _first(
        (is_new and seen.kept and same_run, "kept function"),
        (is_new and not same_run, "cell again"),
        (seen.once is not None, "made once"),
        (is_new and makes(seen.place.line), "function of its line"),
        (row.pattern == "mode_toggle", "two modes"),
        (cause in (*_CONSTANTS, "static_argument") and _is_a_text(before) and _is_a_text(after), "text"),
        (cause in (*_CONSTANTS, "static_argument") and _is_a_word(row) and seen.values >= _MANY_WORDS, "many words"),
        (cause == "shape" and any(_PARAMETER in line for line in row.evidence), "shape of a parameter"),
        (cause == "shape" and "[" in before and "[" in after and len(dims(before)) != len(dims(after)), "rank"),
        (cause == "dtype" and row.pattern is None and is_wider, "wide dtype"),
        (cause == "pytree" and is_longer_alone(row.argument or "", before, after, seen.placed), "longer list"),
        (cause == "identity" and "freed" in before, "freed"),
        (cause == "identity" and after.startswith("another "), "many objects"),
    )


def _of_jax(row: Recompile, seen: Seen) -> str | None:
    if row.argument == DEFAULT_DEVICE and seen.placed and all(_COMMITTED in each for each in seen.placed.values()):
        return "default device of committed"
    if row.cause == "static_argument" and all(fields(row.before, row.after)):
        return "static object"
    if row.cause == "static_argument" and all(map(NEW_OBJECT.match, (row.before or "", row.after or ""))):
        return "static identity"
    if row.cause != "static_argument" or not (is_number(row.after) or _is_a_choice(row)):
        return None
    if any(change.mechanism == "shape" for change in row.changes) or _is_a_choice(row):
        return "static choice"
    if (row.argument or "").isidentifier():
        if _FILTER_JIT in seen.place.decorator:
            return "number passed to Equinox"
        return "static number" if _JIT in seen.place.decorator else "static number, of Equinox perhaps"
    if _FILTER_JIT in seen.place.decorator and seen.place.only:
        if _number(row, seen):
            return "number given to Equinox"
        if len(row.changes) == 1:
            return "number of Equinox"
    return "static field"


_GROUPS = "param_groups["
_HELD = ("module_attribute", "global", "closure")
_OF_A_MODULE = ("._parameters", "._buffers", "._modules")
# PyTorch 2.13: "0/0: block_mask.mask_mod.__defaults__[0] == 128"
_MASK = expression(r"\b(?:mask_mod|score_mod)\.__(?:defaults|closure)__")
# coldstep: "stride 356 at dimension 0"
_OUTER_STRIDE = expression(r"stride (?!1 )\d+ at")  # of which no more is known


_CLOSED_BY = {True: "static shape", False: "needed size", None: "closed shape"}


def _of_dynamo(row: Recompile, seen: Seen) -> str | None:
    cause, argument, before = row.cause, row.argument or "", row.before
    is_shape, is_constant, is_needed = cause == "shape", cause in _CONSTANTS, bool(_needing(row))
    is_librarys = bool(seen.library) and argument.startswith("self.")
    return _first(
        (seen.mode, "mode of a warm-up"),
        (cause == "container" and is_librarys, "state of a library"),
        (cause == "container" and _is_appended_to(row), "appended list"),
        (cause == "container" and before in _NOTHING_YET, "container filled later"),
        (cause == "gradient_state" and before == "None", "gradient made later"),
        (cause == "optimizer_state" and seen.optimizer, "state of the optimizer"),
        (cause == "layout" and _OUTER_STRIDE.match(before or ""), "layout by a stride"),
        (cause == "container" and argument.endswith(_OF_A_MODULE), "container of a module"),
        (cause == "type" and argument == "self", "type of self"),
        (cause == "type" and _PENDING in (before, row.after), "type of a collective"),
        (cause == "type" and _is_a_tensors_class(row), "type of a tensor"),
        (cause == "type" and not row.pattern and _is_a_function_or_none(row), "type of a function"),
        (cause == "closure" and any(_MASK.search(line) for line in row.evidence), "number of a mask"),
        (cause == "config" and argument == "num_threads", "threads"),
        (cause == "requires_grad" and seen.grad_off, "requires_grad without gradients"),
        (is_shape and is_zero_or_one(before, row.after), "shape of 0 or 1"),
        (is_shape and is_zero_or_one(row.after, before), "first shape of 0 or 1"),
        (is_constant and _is_a_choice(row), "choice"),
        (cause == "module_attribute" and is_librarys and not seen.is_open, "state of a library"),
        (is_constant and _GROUPS in argument, _of_optimizer(argument, seen)),
        (is_shape and seen.is_open and asked_of_a_size(row), "question of a size"),
        (is_shape and seen.within and seen.is_open, "open shape within"),
        (is_shape and seen.within and seen.is_open is None, "shape within"),
        (is_shape and seen.is_open, "open shape"),
        (is_shape and seen.is_open is False, _CLOSED_BY[seen.static]),
        (seen.is_open, "open number" if _is_whole(row.after) or is_needed else "open float"),
        (is_constant and is_needed and seen.values >= _MANY_NUMBERS, "many needed numbers"),
        (is_constant and is_needed, "needed number"),
        (cause in _HELD and seen.is_open is False and not _is_whole(row.after), "closed float"),
        (cause == "module_attribute" and is_number(row.after) and not _is_whole(row.after), "float attribute"),
    )


def _of_optimizer(setting: str, seen: Seen) -> str:
    if _RATE.search(setting):
        return "rate of the optimizer" if seen.optimizer else "rate"
    return "betas" if seen.optimizer and _BETA.search(setting) else "setting"


def _is_a_tensors_class(row: Recompile) -> bool:
    """Whether a tensor is of a class of its own in one call, and a plain one in the other."""
    sides = [row.before or "", row.after or ""]
    plain = [bool(_TENSOR.match(each)) for each in sides]
    return sorted(plain) == [False, True] and sides[plain.index(False)].endswith("Tensor")


def _is_appended_to(row: Recompile) -> bool:
    """Whether the code that asked for its length makes it longer."""
    return any(code.startswith((f"{row.argument}.append(", f"{row.argument}.extend(")) for code in _codes(row))


def _is_a_function_or_none(row: Recompile) -> bool:
    none, function = sorted([row.before or "", row.after or ""], key=lambda side: side != "None")
    return none == "None" and function.startswith(FUNCTION)


def _of_torch_xla(row: Recompile, seen: Seen) -> str | None:
    return "number of an operation" if row.cause == "baked_constant" and not _is_compiled_in(row) else None


_BY_STACK: Mapping[str, Callable[[Recompile, Seen], str | None]] = {
    "jax": _of_jax, "dynamo": _of_dynamo, "torch_xla": _of_torch_xla,
}  # fmt: skip


def _is_a_smaller_batch(row: Recompile) -> bool:
    at, sizes = differing(row.before, row.after), [dims(side) for side in (row.before, row.after)]
    smaller = at == [0] and all(side and side[0].isdigit() for side in sizes) and int(sizes[0][0]) > int(sizes[1][0])
    return smaller and not is_zero_or_one(row.before, row.after)


def _is_a_choice(row: Recompile) -> bool:
    """Whether what differed is one of a few values, and no number that could be a tensor."""
    return _is_a_word(row) or (row.after or row.before) in ("True", "False")


def _is_a_word(row: Recompile) -> bool:
    """Whether what differed is a string."""
    return (row.after or row.before or "").startswith(("'", '"'))  # a log may not have what it is now


def _is_a_text(value: str) -> bool:
    """Whether it is a string of several words, and so data: none of a few values, nor a pattern, `b n -> n b`."""
    return value.startswith(("'", '"')) and " " in value and "->" not in value


def _is_compiled_in(row: Recompile) -> bool:
    """Whether one of two lazy graphs holds a 0 or 1 that the other does not, or has one input less for it."""
    shown = {line.partition(":")[0]: line.partition(": ")[2] for line in row.evidence}
    was, _, now = shown.get("graph inputs", "").partition(" → ")
    held = [shown.get(f"constants only {when}", "").rpartition(" ")[2] for when in ("before", "now")]
    return was != now or bool({"0", "1", "-1"}.intersection(held))
