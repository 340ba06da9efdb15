"""What a compile's signature holds beyond its inputs: texts, under keys of which each form is declared here.

Collectors build their keys with the forms, and whoever reads a trace takes them apart with the same.
docs/reference/format.md lists them. Imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from coldstep._util.expressions import expression
from coldstep.named_tuple import NamedTuple


class Form(NamedTuple):
    """A key, or all that begin with one word and go on with a place in the program."""

    word: str
    """What the key begins with."""
    meaning: str
    """The meaning of the text below it."""
    place: str = ""
    """What the place is; empty for a key that is the word alone."""
    cause: str = "unknown"
    """What it is when the texts of two compiles differ; empty where that is compared with something else."""
    absent: str | None = None
    """What it means that there is no such key."""
    published: bool = False
    """Whether the text may be published as it is: it holds no value of the user's own."""
    around: tuple[str, str] = (" ", "")
    """What stands before and after the place."""

    def key(self, place: str = "") -> str:
        """The key of that place, or of the word alone."""
        before, after = self.around
        return f"{self.word}{before}{place}{after}" if self.place else self.word

    def at(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Texts by place, as a context has them."""
        before, after = self.around
        return {f"{self.word}{before}{place}{after}": text for place, text in texts.items()}

    def of(self, context: Mapping[str, str]) -> dict[str, str]:
        """The texts of a context by place."""
        start = f"{self.word} "
        return {key[len(start) :]: text for key, text in context.items() if key.startswith(start)}


# --- how it was called --------------------------------------------------------------------------------------------

CALL = Form(
    "call",
    "the arguments that were passed, in order; a name that ends with = was passed by keyword",
    cause="",
    published=True,
)
TREE = Form("tree", "the type of a container: `{'w', 'b'}`, `tuple of 2`", "path", cause="", published=True)
STATIC = Form("static", "the value of a static argument, or of a static part of one", "path", cause="")
ALIAS = Form(
    "alias", "another argument that is the same variable", "path", "aliasing", "a variable of its own", published=True
)

# --- what the function holds --------------------------------------------------------------------------------------

FUNCTION = Form(
    "function", "which function object it is: equal texts mean the same object", cause="new_function", published=True
)
RUN_OF_A_CELL = ", run {} of its cell"
"""What the text of `function` ends in where a notebook's cell defines it."""
# coldstep: "train_step #2, run 2 of its cell"
_RUN_OF_A_CELL = expression(r", run (\d+) of its cell$")
CLOSURE = Form(
    "closure", "the value of a captured variable, of a default, or of a partial's argument", "name", "closure"
)
GLOBAL = Form("global", "the value of a global that the function reads", "name", "global")
ATTRIBUTE = Form("attribute", "the value of an attribute that the function reads", "path", "module_attribute")

# --- under what it was compiled -----------------------------------------------------------------------------------

CONFIG = Form("config", "the value of a setting, or of an option of this function", "name", "config", published=True)
USUAL = Form(
    "usual", "the default of a setting, which holds if there is no `config` for it", "name", "", published=True
)
GRAD_MODE = Form("grad_mode", "`on`, `off` or `inference`", cause="grad_mode", published=True)
AUTOCAST = Form(
    "autocast", "the dtype that operations are cast to", "device", "autocast", "off", published=True, around=("(", ")")
)
TRAINING = Form("training", "which modules are in training mode", cause="training_mode", published=True)
DEVICE = Form("device", "the device that it was compiled for", cause="device", published=True)
DONATED = Form("donated", "which arguments hand over their memory", cause="donation", published=True)
IN_SHARDINGS = Form("in_shardings", "the arguments' shardings, as given to `jit`", cause="sharding", published=True)
OUT_SHARDINGS = Form("out_shardings", "the results' shardings, as given to `jit`", cause="sharding", published=True)
TRANSFORM = Form("transform", "the transformation that runs instead of the function itself")
CACHE = Form(
    "cache",
    "`generation 2` after the framework's compiled programs were cleared once; `…, isolated 1`: those of one "
    "torch.compile alone (isolate_recompiles)",
    cause="cache_cleared",
    absent="generation 1",
    published=True,
)

XLA_VALUE = Form("xla_value", "a small tensor's value, which XLA has compiled in", "path", "baked_constant")

# --- a lazy graph of torch_xla ------------------------------------------------------------------------------------

FROM_A_LOG = Form("from a log", "only torch_xla's own report of the graph is known")
GRAPH_INPUTS = Form("graph inputs", "how many inputs the graph has")
GRAPH_OUTPUTS = Form("graph outputs", "how many outputs the graph has")
GRAPH_NODES = Form("graph nodes", "how many operations the graph has")
OPERATIONS = Form("operations", "how often it has each operation: `2 x add; 1 x dot`")
CONSTANTS = Form("constants", "which constants it holds: `1 x f32[] 0.5`")
RESULTS = Form("results", "the types of its operations' results: `2 x f32[8,4]; 1 x f32[]`")
ATTRIBUTES = Form("attributes", "the numbers that set how its operations work: `2 x 0; 1 x 5`")
STRUCTURE = Form("structure", "a checksum of how its operations are connected")
TEXT = Form("text", "a checksum of its text")
NUMBER = Form("number", "a Python number in a variable, or in an optimizer's settings", "path")
VARIABLE = Form("variable", "the type of a tensor in a variable that is not an input of the graph", "path")
STATE = Form("state", "which tensors an optimizer keeps for a parameter", "path")
GRADIENTS = Form("gradients", "the type of a gradient that was added to an earlier one; else `none` or `new`")
OLDER = Form("older", "the inputs that the previous graph lacked, although they existed when its step began")
SYNCS = Form("syncs", "how many syncs the program had made")
READ = Form("read", "a value was read, which cut the graph there")

# --- a collector of others ----------------------------------------------------------------------------------------

CAUSE = Form("cause", "any text; if it differs, the cause is the one named", "cause, and a place")

FORMS = (
    *(CALL, TREE, STATIC, ALIAS, FUNCTION, CLOSURE, GLOBAL, ATTRIBUTE),
    *(CONFIG, USUAL, GRAD_MODE, AUTOCAST, TRAINING, DEVICE, DONATED, IN_SHARDINGS, OUT_SHARDINGS, TRANSFORM, CACHE),
    XLA_VALUE,
    *(FROM_A_LOG, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_NODES, OPERATIONS, CONSTANTS, RESULTS, ATTRIBUTES, STRUCTURE),
    *(TEXT, NUMBER, VARIABLE, STATE, GRADIENTS, OLDER, SYNCS, READ),
    CAUSE,
)
_ALONE = {form.word: form for form in FORMS if not form.place}
_PLACED = {form.word: form for form in FORMS if form.place}
# coldstep: "tree x['a']"
# coldstep: "autocast(cpu)"
_KEY = expression(r"(\w+)(?: (.+)|\((\w+)\))", re.DOTALL)


def run_of_its_cell(function: str | None) -> str | None:
    """Which run of its cell the text of a `function` names; None of one that no cell defines."""
    match = _RUN_OF_A_CELL.search(function or "")
    return match[1] if match is not None else None


def parsed(key: str) -> tuple[Form, str] | None:
    """A key's form and place; None for one of which nobody here knows what it is."""
    if (alone := _ALONE.get(key)) is not None:
        return alone, ""
    match = _KEY.fullmatch(key)
    form = _PLACED.get(match[1]) if match is not None else None
    if match is None or form is None:
        return None
    place = match[2] or match[3]
    return (form, place) if form.key(place) == key else None


def context_of(args: Mapping[str, object] | None) -> dict[str, str]:
    """The context that a trace holds; keys that nobody knows stay in it."""
    return {str(key): str(text) for key, text in (args or {}).items()}


# --- texts --------------------------------------------------------------------------------------------------------


def root(path: str) -> str:
    """The argument that a path lies in: "params" of "params['w'][0]"."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def listed(names: Iterable[str]) -> str:
    """Names as one text."""
    return ", ".join(names)


def names_in(text: str) -> list[str]:
    """The names that a text lists."""
    return [name for name in text.split(", ") if name]


def generation(number: int) -> str:
    """The cache after that many clearings, the first being 1."""
    return f"generation {number}"


def counted(counter: Counter[str]) -> str:
    """How many there are of each, as one text."""
    return "; ".join(f"{count} x {name}" for name, count in sorted(counter.items()))


def counts_in(text: str) -> Counter[str]:
    """What such a text counts."""
    pairs = [entry.partition(" x ") for entry in text.split("; ") if entry]
    return Counter({name: int(count) for count, _, name in pairs})
