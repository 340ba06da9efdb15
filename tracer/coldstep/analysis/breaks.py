"""What to change where a graph broke: by what broke it, and by whose code did."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep._util.slotted import field, slotted
from coldstep.analysis.remedies.blocks import Written, block_around, read
from coldstep.analysis.remedies.edits import assigned_call, calls_in, put_off
from coldstep.analysis.remedies.hoisted import class_above
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, mended, remedies
from coldstep.analysis.rules.dynamo import CONFIG
from coldstep.analysis.rules.torch_xla import READ_AFTER_SYNC
from coldstep.model import GraphBreak, Location, Remedy, Trace
from coldstep.places import is_installed

Names = Mapping[str, str]
"""What statements are filled in with, by its name in them."""
_OPTIMIZER = "torch.optim."
# PyTorch 2.13: "Attempted to inline function marked as skipped: the function `Optimizer.zero_grad`."
_TITLE = expression(r"([^:`]{1,80}): ")
# PyTorch 2.15: "Unsupported function call (delayed): Dynamo determined that a graph break should occur when calling
# `G['net']`. Reason: Dynamo does not support RNN, GRU, or LSTM. Set torch._dynamo.config.allow_rnn=True"
_DELAYED = expression(r"Unsupported function call \(delayed\): .*? Reason: ([^(]{1,100}?)(?=\. | \(|$)")
# PyTorch 2.13: "Dynamo does not know how to trace builtin operator `print` with argument types"
_NAME = expression(r"`([\w.<>]{1,60})`")


@slotted
class _Advice:
    """What to do about breaks whose reason `words` finds: in the user's own code, and, where that is something else,
    where a library's code broke."""

    words: re.Pattern[str]
    own: str
    library: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that mend it, too."""
    above: str = ""
    """The statements that do, before the first call of the compiled function."""
    instead: str = ""
    """What does in the place of the line that broke."""


_PRINT = "torch._dynamo.config.reorderable_logging_functions.add(print)"
_IGNORE = "add each method that is called to torch._dynamo.config.ignore_logging_functions"
_NO_NAMES = {"logs": "", "put_off": "", "uniform": "", "moved": ""}
_METHODS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log")
_PUT_OFF = "It puts off what prints tensors, constants and f-strings of these, and not a size."
_CUSTOM = "register it as a custom operator (torch.library.custom_op)"
_BY_REASON = (
    _Advice(
        # PyTorch 2.13: "Unsupported Tensor.backward() call"
        expression(r"Tensor\.backward\(\)"),
        "Call .backward() outside: compile the model and its loss, and PyTorch compiles their backward with them.",
        "{library} calls .backward() there: call it outside. Compile the model and its loss, and PyTorch compiles "
        "their backward with them.",
    ),
    _Advice(
        # PyTorch 2.13: "Attempted to inline function marked as skipped: the function `Optimizer.zero_grad`."
        expression(r"`Optimizer\.zero_grad`"),
        "Call zero_grad() outside the compiled function, before or after it.",
    ),
    _Advice(
        # PyTorch 2.13: "Data-dependent assertion failed (cannot compile partial graph)"
        expression(r"[Dd]ata-dependent assertion"),
        "Say it with torch._assert_async, which stays in the graph, or check it outside the compiled function.",
    ),
    _Advice(
        # PyTorch 2.13: "Data-dependent branching with non-constant __bool__"
        expression(r"[Dd]ata-dependent branching|data-dependent (?:jump|control flow)|generic_jump"),
        "Keep the choice on the device: torch.where instead of the branch, or torch.cond.",
        "{library} chooses by a tensor's value there: look for an option that spares it the choice, and compile what "
        "comes before and after it each for itself; in code that you can change, torch.where or torch.cond keeps the "
        "choice on the device.",
    ),
    _Advice(
        # PyTorch 2.13: "Unsupported Tensor.item() call with capture_scalar_outputs=False"
        expression(r"\.item\(\)|_local_scalar_dense|capture_scalar_outputs|Tensor\.tolist\(\)(?! with non-integer)"),
        "Keep the value a tensor, and read it after the compiled function has returned; where the graph needs the "
        "number, set torch._dynamo.config.capture_scalar_outputs = True.",
        "{library} reads a tensor's value there: set torch._dynamo.config.capture_scalar_outputs = True, and the graph "
        "holds the number; or give it a Python number in the tensor's place, where it takes one.",
        {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"},
    ),
    _Advice(
        # PyTorch 2.13: "Reason: Getting an inplace view on a graph input is not supported"
        expression(r"[Ii]nplace view on a graph input"),
        "Use the form without the underscore, x = x.t() for x.t_(), where there is one: PyTorch does not trace a "
        "change of what an input itself is. The caller's tensor then stays as it was.",
        "{library} changes its input itself there: pass it a tensor made in the compiled function, x.view_as(x).",
    ),
    _Advice(
        # PyTorch 2.13: "Encountered non-PT2-compliant op"
        # PyTorch 2.13: "NotImplementedError/UnsupportedFakeTensorException when running FX node"
        expression(r"no meta kernel|running with fake tensors|UnsupportedFakeTensorException|non-PT2-compliant op"),
        "Replace the operator, or give it a rule for what it returns, if it is yours (torch.library.register_fake).",
        "{library} uses an operator there for whose result PyTorch has no rule: look whether a newer version of it can "
        "be compiled, or give the operator one (torch.library.register_fake).",
    ),
    _Advice(
        # PyTorch 2.13: "Dynamic shape operator (aten.repeat_interleave.Tensor)"
        expression(r"aten\.repeat_interleave\.Tensor"),
        "Give repeat_interleave the size of its result, output_size=…, where you know it (the sum of the repeats): it "
        "then depends on no tensor's value.",
        "{library} repeats elements there by a tensor of counts: give it the size of the result (output_size), if it "
        "takes one.",
    ),
    _Advice(
        # PyTorch 2.13: "Dynamic shape operator"
        expression(r"[Dd]ynamic shape operator|capture_dynamic_output_shape_ops"),
        "Replace the operator by one whose result has a fixed shape (a mask, torch.where), or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True, which Inductor fails to compile where such a "
        "size comes to a convolution, say.",
        "{library} uses an operator there whose result has as many elements as the data say: set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True.",
        {"TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS": "1"},
    ),
    _Advice(
        # PyTorch 2.13: "logging.Logger method not supported for non-export cases"
        expression(r"logging\.Logger|Logger\.\w+"),
        f"Log after the compiled function has returned, or let PyTorch leave the message out: {_IGNORE}.",
        f"{{library}} logs there: let PyTorch leave the message out, and {_IGNORE}.",
        above="from logging import Logger as StandardLogger\n"
        + CONFIG.format("ignore_logging_functions.add(StandardLogger.{logs})"),
    ),
    _Advice(
        # PyTorch 2.13: "Dynamo does not know how to trace builtin operator `print`"
        # PyTorch 2.13: "Dynamo does not know how to trace the Python builtin `_warnings.warn`."
        expression(r"`print`|builtin `_?warnings\.warn|reorder"),
        f"Print or warn after the compiled function has returned, or let PyTorch put it off: {_PRINT}, likewise "
        f"warnings.warn. {_PUT_OFF}",
        f"{{library}} prints or warns there: mend what it warns of, or let PyTorch put it off, {_PRINT}, likewise "
        f"warnings.warn. {_PUT_OFF}",
        above="import builtins as standard, warnings as standard_warnings\n"
        + CONFIG.format("reorderable_logging_functions.add({put_off})"),
    ),
    _Advice(
        # PyTorch 2.13: "random.Random() with improper arguments"
        expression(r"`[^`]*Random\.\w+|random\.Random"),
        "Draw the number with torch (torch.rand), or outside, and pass it in. Of Python's own, Dynamo traces "
        "random.uniform, randint and randrange.",
        "{library} draws a random number in Python there: call what draws outside the compiled function, and pass the "
        "number in.",
        instead="{uniform}",
    ),
    _Advice(
        # PyTorch 2.13: "Invalid call to __build_class__: Cannot trace class definition"
        expression(r"__build_class__|class definition|LOAD_BUILD_CLASS"),
        "A class that the compiled function defines is a new one at each call: define it once, outside the function.",
        "{library} defines a class there, anew at each call: call it outside the compiled function.",
        instead="{moved}",
    ),
    _Advice(
        # PyTorch 2.13: "Unsupported Tensor.requires_grad_() call"
        expression(r"requires_grad_\(\)"),
        "Call requires_grad_() where the tensor is made, before it is handed to the compiled function.",
        "{library} calls requires_grad_() there: call {library} outside the compiled function.",
    ),
    _Advice(
        # PyTorch 2.13: "setattr() on Tensor.requires_grad"
        expression(r"setattr\(\) on Tensor\.requires_grad"),
        "Set requires_grad before the compiled function is called. A helper that has to set it in there is kept out of "
        "the graph by @torch.compiler.disable: the graph still breaks where it is called, and nowhere in it.",
        "{library} sets requires_grad there: call {library} outside the compiled function.",
    ),
    _Advice(
        # PyTorch 2.13: "Dynamo does not know how to trace method `get` of class `ContextVar`"
        expression(r"of class `ContextVar`|contextvars"),
        "Read the context variable before the compiled function is called, and pass its value in; or keep the value in "
        "a plain global or a threading.local, which PyTorch traces.",
        "{library} reads a context variable there: call {library} outside the compiled function, or look whether a "
        "newer version of PyTorch traces it.",
    ),
    _Advice(
        # PyTorch 2.13: "Tensor.numpy() with trace_numpy=False"
        expression(r"trace_numpy"),
        "Set torch._dynamo.config.trace_numpy = True: it is on by default.",
    ),
    _Advice(
        # PyTorch 2.13: "Dynamo does not know how to trace method `__new__` of class `PyCFuncPtrType`"
        # PyTorch 2.13: "Dynamo does not know how to trace method `from_param` of class `PyCSimpleType`"
        expression(r"`PyC\w+Type`"),
        f"PyTorch cannot look into ctypes: call it outside the compiled function; if the graph must hold it, "
        f"{_CUSTOM}.",
        "{library} calls ctypes there, into which PyTorch cannot look: put your call of {library} into a custom "
        "operator (torch.library.custom_op), or call it outside.",
    ),
    _Advice(
        # PyTorch 2.13: "Dynamo does not know how to trace the builtin `zlib.crc32.`"
        expression(r"builtin `|C/C\+\+|not implemented in python"),
        f"Call it outside the compiled function; if the graph must hold it, {_CUSTOM}.",
        "{library} calls code there that is not Python's, into which PyTorch cannot look: put your call of {library} "
        "into a custom operator (torch.library.custom_op), which the graph then holds whole, or call it outside.",
    ),
)
_BRANCHES = (
    "The code branches on the value, which breaks the graph also where that holds the number: read it outside of the "
    "compiled function, and do there what follows from it."
)
_BY_KIND = {
    "data_dependent": "Keep the value on the device, and read it after the compiled function has returned.",
    "side_effect": "Move the side effect out of the compiled function.",
    "unsupported_call": "Call it outside the compiled function, or replace it by what torch offers for it.",
    "explicit": "Remove it (torch._dynamo.graph_break, torch.compiler.disable), if it can go.",
    "skipped_frame": "Take what the reason names out of it.",
    "host_read": READ_AFTER_SYNC,
    "other": "Take what the reason names out of the compiled function.",
}
_WHOLE = "The whole function runs eagerly."
_LOOP = "Make the loop's body a function of its own, or take what breaks out of the loop."
_BY_OPTIMIZER = (
    "torch.optim breaks the graph itself in every step() of an optimizer; the update is compiled as a graph of its "
    "own. Leave it so, or call the optimizer outside the compiled function."
)
_SCHEDULERS = "/optim/lr_scheduler.py`"
_BY_SCHEDULER = (
    "A learning rate's scheduler has put a wrapper around the optimizer's step(), into which PyTorch does not look; "
    "the update is compiled as a graph of its own. Leave it so, or call the optimizer outside the compiled function."
)
_FAILS_EAGERLY = "Run it without torch.compile first: it probably fails there, too."
_MAY_FAIL_EAGERLY = "If that is not it, run it without torch.compile first: it may fail there, too."
_A_BUG = "This looks like a bug of PyTorch's: try a newer version, or report it."
_ON_PURPOSE = (
    "{library} keeps itself out of the graph there, on purpose (torch._dynamo.graph_break, torch.compiler.disable): "
    "call it before or after the compiled function, or look whether a newer version of it is made to be compiled."
)
_NOT_TRACED = (
    "{library} does there what PyTorch cannot trace: look whether a newer version of it, or of PyTorch, can be "
    "compiled; else put your call of it into a custom operator (torch.library.custom_op), or outside the compiled "
    "function."
)
_DDP, _DDPS_MODULE = "DistributedDataParallel.", "torch.nn.parallel.distributed"
_BY_DDP = (
    "DistributedDataParallel's own work around the model breaks the graph: compile the model in it instead, "
    "DistributedDataParallel(torch.compile(model))."
)
_DYNAMOS_OWN = "torch._dynamo."
_IMPORT = "Import failure"
_IMPORT_FAILS = (
    "An import that fails breaks the graph, though a try around it takes the error: import it once, outside of the "
    "compiled function, and keep whether it is there."
)
_IN_EAGER = "error when running in eager"
_BUG = "likely to be a Dynamo bug"
# PyTorch 2.13: "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your
# code."
_SAYS_NOTHING = expression(
    rf"{_IN_EAGER}|{_BUG}|[Pp]lease (?:report|open|file) an issue|report a bug|double check that your code"
    r"|possible to write Dynamo|is fundamental|may have been caused by an earlier|trace_rules\.py|not supposed to be"
    r"|^This happens in|does not (?:really|support)|see https?:"
)
"""PyTorch's hints that name nothing to be done."""
# PyTorch 2.15: "Dynamo does not support RNN, GRU, or LSTM. Set torch._dynamo.config.allow_rnn=True to enable it"
_SETTING_WITHIN = expression(r"\. (Set torch\._dynamo\.config\.[a-z_]+ ?= ?True\b.*)")
# PyTorch 2.13: "Set torch._dynamo.config.allow_rnn=True to enable experimental support for RNN"
_ON = expression(r"^Set `?torch\._dynamo\.config\.([a-z_]+) ?= ?True\b")
# PyTorch 2.13: "Set `torch._dynamo.config.capture_scalar_outputs = True` or `export
# TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1`"
_A_SETTING = expression(r"^(?:Set|Change|Enable)\b.*torch\._dynamo")


def advise(trace: Trace) -> None:
    """Give each graph break its advice, those included that a compile failed of."""
    compiles = {row.id: row for row in trace.compiles}
    failures = [details.failure for details in trace.details.values() if details.failure is not None]
    for row in [*trace.graph_breaks, *failures]:
        compile_ = compiles.get(row.compile or "")
        caller = compile_.caller if compile_ is not None else None
        place = Place(caller) if caller is not None and not is_installed(caller.file) else NOWHERE
        line = trace.code.get((row.location.file, row.location.line), "") if row.location is not None else ""
        written = _class_above(trace, row)
        own = Place(written.location, lines=written.lines) if written is not None else Place(row.location, line=line)
        names = {
            "logs": _method(line),
            "put_off": put_off(line),
            "uniform": assigned_call(line, "random.random", "random.uniform(0.0, 1.0)"),
            "moved": written.code if written is not None else "",
        }
        library = trace.libraries.get(row.id)
        if library is None and row.kind == "data_dependent" and _is_branched_on(trace, row.location):
            mended(row, remedies(_row(_BRANCHES), Case(_id(row), {})))
        else:
            mended(row, mending(row, library, place, own, names))


def what_broke(reason: str) -> str:
    """The framework's words for it and what they name, shortly: "Attempted to call function marked as skipped
    (zlib.crc32)"; "" where it has no words that are shorter than the whole."""
    first = reason.partition("\n")[0]
    if delayed := _DELAYED.match(first):
        return delayed[1].replace("`", "").strip()
    title = _TITLE.match(first)
    if title is None or title[1] == "Unsupported":  # up to PyTorch 2.6 it has no title
        return ""
    name = _NAME.search(first)
    return f"{title[1]} ({name[1]})" if name is not None and name[1] not in title[1] else title[1]


def below(trace: Trace, id_: str) -> list[str]:
    """The library's line at which a graph broke, or a compile failed of that, as evidence."""
    return [f"below that line: {trace.below[id_]}"] if id_ in trace.below else []


def discarded(trace: Trace) -> dict[str, int]:
    """How long the tracing took, by the id of the graph break, that PyTorch threw away there to begin anew."""
    compiles = {compile_.id: compile_ for compile_ in trace.compiles}
    broken = gathered((row.compile, row.id) for row in trace.graph_breaks if row.compile in compiles)
    found: dict[str, int] = {}
    for compile_id, breaks in broken.items():
        segments = compiles[compile_id].segments
        starts = [segment.start_ns for segment in segments if segment.part in ("forward", "attempt")]
        if len(starts) == len(breaks) + 1:  # each break began one attempt, and nothing else did
            found |= {row: after - before for row, (before, after) in zip(breaks, pairwise(starts), strict=True)}
    return found


def mending(
    row: GraphBreak, library: str | None, place: Place = NOWHERE, own: Place = NOWHERE, names: Names = _NO_NAMES
) -> list[Remedy]:
    """What to do about a break, in the user's own code or in that of a library. `place`: the first call of the compiled
    function; `own`: the lines that broke; `names`: what the statements are filled in with."""
    if library is not None and library.startswith(_DYNAMOS_OWN):  # by which it traces the user's line
        library = None
    chosen = _chosen(row, library)
    if chosen.instead or row.kind == "host_read":
        place = own
    if row.kind == "skipped_frame" and library is None:
        chosen = replace(chosen, text=f"{_WHOLE} {chosen.text}")
    return remedies(chosen, Case(_id(row), names, place)) if chosen.text else []


def _id(row: GraphBreak) -> str:
    at = f":{row.location.file}:{row.location.line}" if row.location is not None else ""
    return f"graph_break.{row.kind}{at}"


def _class_above(trace: Trace, row: GraphBreak) -> Written | None:
    block = block_around(trace.blocks, row.location) if row.location is not None else None
    return class_above(block, row.location.line) if block is not None and row.location is not None else None


def _is_branched_on(trace: Trace, location: Location | None) -> bool:
    """Whether the function chooses by the value that it reads in that line."""
    block = block_around(trace.blocks, location) if location is not None else None
    if block is None or location is None:
        return False
    *_, statement = block.within(location.line)
    after = [each for each in ast.walk(block.tree) if getattr(each, "lineno", 0) > statement.lineno]
    names = _named(statement)
    for each in after:
        if isinstance(each, ast.Assign) and names & read(each.value):
            names |= _named(each)
    choices = [each for each in after if isinstance(each, ast.If | ast.While | ast.IfExp | ast.Assert)]
    return any(names & read(each.test) for each in choices)


def _named(statement: ast.stmt) -> set[str]:
    """The variables that a statement assigns, and no attributes."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    names = (each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target]))
    return {each.id for each in names if isinstance(each, ast.Name)}


def _method(line: str) -> str:
    """The method of a logger that a line calls; "" where it calls none, or several."""
    made = [each.func for each in calls_in(line)]
    found = {each.attr for each in made if isinstance(each, ast.Attribute) and each.attr in _METHODS}
    return found.pop() if len(found) == 1 else ""


def _chosen(row: GraphBreak, library: str | None) -> Row:
    if _SCHEDULERS in row.reason:
        return Row(_BY_SCHEDULER, how="none")
    if library is not None and (_DDP in row.reason or library.startswith(_DDPS_MODULE)):
        return _row(_BY_DDP)
    if library is None and row.reason.startswith(_IMPORT):
        return _row(_IMPORT_FAILS)
    if library is not None and row.kind == "explicit":
        if library.startswith(_OPTIMIZER):
            return Row(_BY_OPTIMIZER, how="none")
        return _row(_ON_PURPOSE.format(library=library))
    if row.kind == "explicit":
        return _row(_BY_KIND["explicit"])
    known = next((each for each in _BY_REASON if each.words.search(row.reason)), None)
    is_in_loop = library is None and row.kind == "skipped_frame" and "loop" in row.reason
    if is_in_loop and (known is None or not known.environment):
        return _row(_LOOP)
    eagerly = any(_IN_EAGER in hint for hint in row.hints)
    if not eagerly and known is not None:
        words = known.own if library is None else (known.library or known.own).format(library=library)
        return _row(words, known.environment, *(("", "") if library is not None else (known.above, known.instead)))
    if row.kind == "host_read" and library is None:
        return Row(READ_AFTER_SYNC, above="torch_xla.sync()", changes="rounding")
    hints = [*_SETTING_WITHIN.findall(row.reason), *row.hints]
    hint = next((hint for hint in hints if not _SAYS_NOTHING.search(hint)), None)
    if hint is not None and (library is None or _A_SETTING.search(hint)):
        words = hint.replace("`", "").rstrip(".") + "."
        setting = _ON.search(hint) if not eagerly else None
        above = CONFIG.format(f"{setting[1]} = True") if setting is not None else ""
        return _row(f"{words} {_MAY_FAIL_EAGERLY}" if eagerly else words, above=above)
    if eagerly:
        return _row(_FAILS_EAGERLY)
    if any(_BUG in hint for hint in row.hints):
        return Row(_A_BUG, how="none")
    return _row(_BY_KIND.get(row.kind, "") if library is None else _NOT_TRACED.format(library=library))


def _row(text_: str, environment: Mapping[str, str] | None = None, above: str = "", instead: str = "") -> Row:
    """A row of words that may be a framework's: no format string."""
    words = text_.replace("{", "{{").replace("}", "}}")
    return Row(words, environment=environment or {}, above=above, instead=instead)
