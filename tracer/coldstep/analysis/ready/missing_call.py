"""The call that a warm-up lacks, as code: the user's own line where it still fits, and new values where it does not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep.analysis.array_texts import CannotMakeUp
from coldstep.analysis.patterns import dims
from coldstep.analysis.ready.literals import GIVEN, Argument, arguments, can_be_made, imports, value
from coldstep.analysis.remedies.edits import parsed
from coldstep.model import Change, Compile, Location, Trace, Within
from coldstep.signature import Signature, array_of
from coldstep.vocabulary import PACKAGES

# Python: "train_step"
_NAME = expression(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_NOT_CALLED = {
    *PACKAGES, "jnp", "np", "numpy", "tf", "coldstep", "print", "len", "range", "int", "float",
    "list", "tuple", "dict", "enumerate", "zip", "str", "bool", "sum", "max", "min",
}  # fmt: skip
"""What a line calls beside the compiled function."""
_OF_NO_ARGUMENT = {
    "new_function": "it is a new function object each time: make it once, and call that",
    "cache_cleared": "what the warm-up had compiled was cleared",
    "identity": "it depends on which object it is",
    "closure": "{argument} was {before} in the warm-up and is {after}, and no argument sets it",
    "global": "{argument} was {before} in the warm-up and is {after}, and no argument sets it",
    "module_attribute": "{argument} was {before} in the warm-up and is {after}, and no argument sets it",
    "config": "{argument} was {before} in the warm-up and is {after}: call it under that setting",
    "aliasing": "two arguments are one tensor",
}
"""By cause: why another call of the warm-up would not help."""
Running = Sequence[Location] | None
"""Where the program was as the warm-up ended; None where that is not known."""
_TRAINING = {"on": "train", "off": "eval"}
_MODES = {"off": "torch.no_grad()", "inference": "torch.inference_mode()", "on": "torch.enable_grad()"}


@slotted
class Written:
    """A call as code; None where it cannot be made up, and why."""

    code: str | None
    why: str = ""
    imports: list[str] = field(default_factory=list)


@slotted
class _Line:
    """A call of the function, as somebody's line has it."""

    function: str
    arguments: dict[str, str]
    """By parameter."""
    by_position: list[str]


def written(
    trace: Trace,
    compile_: Compile,
    nearest: Compile | None,
    warm: Sequence[Compile],
    changes: Collection[Change],
    running: Running,
) -> Written:
    """The call by which `compile_` would have been there. Of the warm-up's compiles of its function, `warm`, `nearest`
    differs least from it, by these `changes`; `running` is where the program was as the warm-up ended."""
    try:
        code = _Writer(trace, compile_, nearest, warm, running).code(changes)
    except CannotMakeUp as error:
        return Written(None, str(error))
    except (ValueError, RecursionError):  # nothing that a collector wrote
        return Written(None, "what it was compiled for cannot be read")
    return Written(code, "", imports(code))


class _Writer:
    """Writes one call."""

    def __init__(
        self, trace: Trace, compile_: Compile, nearest: Compile | None, warm: Sequence[Compile], running: Running
    ) -> None:
        self._trace = trace
        self._compile = compile_
        within = trace.details[compile_.id].within
        self._within = within = within if within is not None and _was_called(within, running) else None
        """The function to call where the compile is of none."""
        if within is not None:
            self._signature, self._nearest = Signature({row.argument: row.type for row in within.arguments}), None
        else:
            self._signature = _signature(trace, compile_)
            self._nearest = _signature(trace, nearest) if nearest is not None else None
        self._called = within or compile_
        self._short = self._called.function.rpartition(".")[2]
        self._values = GIVEN if within is not None else compile_.stack
        self._is_lazy = compile_.stack == "torch_xla" and within is None
        self._arguments = arguments(self._signature)
        self._parameters = self._read_parameters(self._called.location)
        self._warm = [row for row in warm if nearest is not None and row.caller == nearest.caller]
        self._lines = [line for place in self._callers(nearest) if (line := self._line(place)) is not None]

    def _callers(self, nearest: Compile | None) -> list[Location | None]:
        """The lines to go by, the likeliest first: the names of a lazy graph's inputs are those of its own."""
        if self._within is not None:
            return [self._within.caller]
        callers = [nearest.caller if nearest is not None else None, self._compile.caller]
        return callers[::-1] if self._is_lazy else callers

    def code(self, changes: Collection[Change]) -> str:
        """The call. Raises CannotMakeUp."""
        if self._within is None:
            self._refuse(changes)
        function = self._function()
        passed = ", ".join(self._passed())
        return f"{self._under(function)}{function}({passed})"

    def _refuse(self, changes: Collection[Change]) -> None:
        """Raise CannotMakeUp where what is compiled is nothing that can be called, or not by arguments alone."""
        row, known = self._compile, self._trace.details[self._compile.id]
        if row.origin == "eager":
            raise CannotMakeUp(f"it is an operation outside of compiled functions{_at(row.caller)}")
        if not can_be_made(row.stack):
            raise CannotMakeUp(f"coldstep has no words for the values of {row.stack}")
        if row.inputs is None:
            raise CannotMakeUp("what it was compiled for could not be seen")
        if any(segment.part in ("ahead", "load") for segment in row.segments):
            raise CannotMakeUp(f"no call compiles it: it is made ahead of its calls{_at(row.caller)}")
        if row.caused_by is not None:
            raise CannotMakeUp("it is what follows a graph break: what goes into it is made on the way")
        if known.through is not None:
            raise CannotMakeUp(f"it is compiled by {known.through.function}{_at(row.caller)}")
        if self._is_lazy and (" " in row.function or not self._lines):
            raise CannotMakeUp(f"which call leads to it is not known{_at(row.caller)}")
        for change in changes:
            if (why := _OF_NO_ARGUMENT.get(change.mechanism)) is not None:
                raise CannotMakeUp(why.format(argument=change.argument, before=change.before, after=change.after))

    # --- the function -----------------------------------------------------------------------------------------

    def _function(self) -> str:
        if self._lines:
            return self._lines[0].function
        name = self._called.function
        if not _NAME.fullmatch(name) or "." in name:
            raise CannotMakeUp(f"by which name {name} is called is not known{_at(self._compile.caller)}")
        return name

    def _under(self, function: str) -> str:
        """What has to stand before the call: modes of PyTorch's, and of the module that is called."""
        now, was = self._signature.context, self._nearest.context if self._nearest is not None else None
        mode_call = ""
        training = forms.TRAINING.key()
        if self._compile.stack == "dynamo" and was is not None and now.get(training) != was.get(training):
            mode_call = f"{function.removesuffix('.forward')}.{_TRAINING.get(now.get(training, ''), 'train')}()\n"
        blocks = []
        mode = now.get(forms.GRAD_MODE.key())
        if mode in _MODES and (mode != "on" or (was is not None and was.get(forms.GRAD_MODE.key()) != mode)):
            blocks.append(_MODES[mode])
        for device in ("cpu", "cuda"):
            if cast := now.get(forms.AUTOCAST.key(device)):
                if (kind := {"bf16": "bfloat16", "f16": "float16"}.get(cast)) is None:
                    raise CannotMakeUp(f"it runs under autocast to {cast}")
                blocks.append(f'torch.autocast("{device}", dtype=torch.{kind})')
        return f"{mode_call}with {', '.join(blocks)}: " if blocks else mode_call

    # --- the arguments ----------------------------------------------------------------------------------------

    def _passed(self) -> Iterator[str]:
        """The arguments as they are handed over."""
        names = forms.names_in(self._signature.context.get(forms.CALL.key(), ""))
        if names:
            for name in names:
                yield f"{name}{self._value(name[:-1])}" if name.endswith("=") else self._value(name)
            return
        line = self._lines[0] if self._lines else None
        names = self._parameters or list(self._arguments)
        if line is not None and self._is_lazy:
            names = list(line.arguments)
        wanted = [name for name in names if self._is_needed(name)]
        first = True
        for name in wanted:
            first = first and (line is None or name in line.by_position)
            by_position = first and (line is not None or self._parameters is not None)
            yield self._value(name) if by_position else f"{name}={self._value(name)}"

    def _is_needed(self, name: str) -> bool:
        """Whether an argument has to be handed over: what no line does is a default, if it is as it was."""
        if name in self._arguments and (not self._lines or self._is_other(name)):
            return True
        return any(name in line.arguments for line in self._lines[:1])

    def _value(self, name: str) -> str:
        """An argument: as the user's line has it, where it is as it was; else made up."""
        known = self._arguments.get(name)
        own = self._own(name)
        if known is None:
            if own is not None:
                return own
            raise CannotMakeUp(f"what {name} was is not known")
        if self._is_handed_over(name):  # what the warm-up has would be gone
            own = None
        if own is not None and not self._is_other(name) and not self._varies(name):
            return own
        try:
            return value(self._values, self._concrete(known))
        except CannotMakeUp:
            if own is None or self._nearest is not None:
                raise
            return own

    def _own(self, name: str) -> str | None:
        """What the user's line hands over: a variable, or what it is an attribute of, which is there for a further
        call as it was for the first."""
        texts = (line.arguments.get(name, "") for line in self._lines)
        return next((text for text in texts if _NAME.fullmatch(text)), None)

    def _is_other(self, name: str) -> bool:
        """Whether an argument is not as in the warm-up's nearest call."""
        if self._nearest is None:
            return True
        before = arguments(self._nearest).get(name)
        return before is None or before != self._arguments.get(name, before)

    def _varies(self, name: str) -> bool:
        """Whether the line of the warm-up's nearest call hands over another value each time: it stands in a loop."""
        given = (arguments(_signature(self._trace, row)).get(name) for row in self._warm)
        return len(set(map(repr, given))) > 1

    def _is_handed_over(self, name: str) -> bool:
        """Whether the call takes the argument's memory."""
        return name in forms.names_in(self._signature.context.get(forms.DONATED.key(), ""))

    def _concrete(self, argument: Argument) -> Argument:
        """An argument with a size for each dimension that the program leaves open: another than before."""
        before = self._nearest.inputs if self._nearest is not None else {}
        leaves = {path: _with_sizes(text, before.get(path)) for path, text in argument.leaves.items()}
        return Argument(argument.name, leaves, argument.trees, argument.statics)

    # --- the user's lines -------------------------------------------------------------------------------------

    def _read_parameters(self, place: Location | None) -> list[str] | None:
        """The names of the function's parameters, where its first line tells them all."""
        tree = _parsed(self._trace, place)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                if node.args.vararg is not None or node.args.kwarg is not None:
                    return None
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                return names[1:] if self._begins_with_the_object(names) else names
        return None

    def _begins_with_the_object(self, names: list[str]) -> bool:
        """Whether the first parameter is what a method is called on, by whatever name: no argument is."""
        if names[:1] in (["self"], ["cls"]):
            return True
        scope = self._called.function.rpartition(".")[0]
        is_method = bool(scope) and not scope.endswith("<locals>")
        return is_method and bool(names) and names[0] not in self._arguments

    def _line(self, place: Location | None) -> _Line | None:
        """The one call of the function that a line holds."""
        if (tree := _parsed(self._trace, place)) is None:
            return None
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == self._short]
        others = (call for call in calls if ast.unparse(call.func).partition(".")[0] not in _NOT_CALLED)
        named = named or [call for call in others if self._fits(call)]
        if len(named) != 1 or any(isinstance(each, ast.Starred) for each in named[0].args):
            return None
        call = named[0]
        # a lazy graph's inputs are named as the user's variables are
        names = list(map(ast.unparse, call.args)) if self._is_lazy else self._order()
        by_position = names[: len(call.args)]
        if len(by_position) < len(call.args) or not _NAME.fullmatch(function := ast.unparse(call.func)):
            return None
        given = dict(zip(by_position, map(ast.unparse, call.args), strict=True))
        given |= {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg is not None}
        return _Line(function, given, by_position)

    def _order(self) -> list[str]:
        """The names of what is handed over by position."""
        if self._parameters is not None:
            return self._parameters
        passed = forms.names_in(self._signature.context.get(forms.CALL.key(), ""))
        return [name for name in passed or self._arguments if not name.endswith("=") and name != "self"]

    def _fits(self, call: ast.Call) -> bool:
        """Whether a call of another name may be the function's: by what it hands over."""
        passed = forms.names_in(self._signature.context.get(forms.CALL.key(), ""))
        given = len(call.args) + len(call.keywords)
        if passed:
            return given == len([name for name in passed if name != "self"])
        return 0 < given <= len(self._order())


def _signature(trace: Trace, row: Compile) -> Signature:
    """What a compile was specialised on; of a lazy graph the user's variables are known, whether it was told which of
    them go into it or not."""
    signature = trace.details[row.id].signature
    if row.stack != "torch_xla":
        return signature
    return Signature(forms.VARIABLE.of(signature.context) | signature.inputs, signature.context)


def _was_called(within: Within, running: Running) -> bool:
    """Whether a function was called since the warm-up, and is not the one that the warm-up is a part of."""
    place = within.location
    if running is None or place is None:
        return False
    return (place.file, place.function) not in {(each.file, each.function) for each in running}


def _with_sizes(text: str, before: str | None) -> str:
    array = array_of(text)
    if array is None or "None" not in array.dims.split(","):
        return text
    old = dims(before) if before is not None and len(dims(before)) == len(dims(text)) else []
    known = [size if size.isdigit() else "1" for size in old] or ["1"] * len(dims(text))
    sizes = [str(int(was) + 1) if now == "None" else now for was, now in zip(known, dims(text), strict=True)]
    return text.replace(f"[{array.dims}]", f"[{','.join(sizes)}]", 1)


def _parsed(trace: Trace, place: Location | None) -> ast.Module | None:
    """A line of the program's, taken apart; None where it is no statement by itself."""
    code = trace.code.get((place.file, place.line), "") if place is not None else ""
    return parsed(code) if code else None


def _at(place: Location | None) -> str:
    return f", at {place.file}:{place.line}" if place is not None else ""
