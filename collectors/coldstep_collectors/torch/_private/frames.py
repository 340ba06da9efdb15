"""The frame that Dynamo compiles, as it stands on the stack: its function, values, settings and open dimensions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Mapping
from types import CodeType, FrameType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.errors import text_of
from coldstep.places import frames as outwards
from coldstep_collectors.torch._private import names


@slotted
class CompilingFrame:
    """The user's frame that Dynamo is about to compile. Live objects: for use inside the hook only."""

    code: CodeType
    values: Mapping[str, Any]
    caller: FrameType | None
    """The innermost Python frame below torch's compiler."""
    fullgraph: bool | None
    numbers: tuple[int, int] | None
    """PyTorch's number of the code, and of this compile of it; None where it has none."""
    globals: Mapping[str, Any]
    wrapped: Any = None
    """What the user gave to torch.compile, where the frame is only Dynamo's wrapper around it."""
    backend: Any = None
    """What compiles the graph, in Dynamo's wrapper."""
    isolated: int | None = None
    """PyTorch's number of the torch.compile that keeps its variants to itself; None where they are everybody's."""


def compiling_frame() -> CompilingFrame | None:
    """What the innermost frame compile on this thread's stack is compiling."""
    frame = _compiler_frame()
    code, values, compile_id = names.FRAME.local(frame) or (None, None, None)
    if frame is None or not isinstance(code, CodeType) or not isinstance(values, Mapping):
        return None
    [one_graph] = names.ONE_GRAPH.local(frame) or (None,)
    [globals_] = names.GLOBALS.local(frame) or ({},)
    [given] = names.BACKEND.local(frame) or (None,)
    frame_id, number = names.NUMBERS.attributes(compile_id) or (None, None)
    numbers = None if frame_id is None or number is None else (frame_id, number)
    fullgraph = None if one_graph is None else bool(one_graph)
    [wrapper] = names.INLINED.forms
    is_wrapper = code.co_name == wrapper.says[0] and code.co_filename.endswith(wrapper.file)
    wrapped = values.get("fn") if is_wrapper else None
    find_isolated = names.ISOLATED.find()
    isolated = find_isolated() if find_isolated is not None else -1
    isolated = isolated if isolated >= 0 else None
    return CompilingFrame(code, values, frame.f_back, fullgraph, numbers, globals_, wrapped, given, isolated)


def given_name(frame: CompilingFrame) -> str | None:
    """The name that the program gave to torch.compile; None where it gave none, or that cannot be seen."""
    if not names.SIZES_OPTION.attributes(frame.backend):  # a backend of the program's own may have a name, too
        return None
    [name] = names.NAME_OPTION.attributes(frame.backend) or (None,)
    return name if isinstance(name, str) else None


def backend(frame: CompilingFrame) -> tuple[str, Any, Any]:
    """What compiles the frame's graph: its name, the option `dynamic`, and the function that was given, None where that
    cannot be seen (of Inductor)."""
    known = names.BACKEND_OPTIONS.attributes(frame.backend)
    name, *options = known or (getattr(frame.backend, "__name__", ""), None, None)
    return str(name), *options


def is_static(frame: CompilingFrame) -> bool | None:
    """Whether the program asked for every size to be compiled in (dynamic=False); None where that cannot be seen, or
    where a setting keeps all sizes closed."""
    option = names.SIZES_OPTION.attributes(frame.backend)
    if not option or (option[0] is not False and not names.AUTOMATIC.find()):
        return None
    return option[0] is False


def modes(torch: Any) -> dict[str, str]:
    """Settings of the framework that guards look at, by the name that a guard that fails gives them."""
    settings = {
        "default_dtype": torch.get_default_dtype,
        "num_threads": torch.get_num_threads,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "allow_tf32": lambda: _allows_tf32(torch),
    }
    states = {name: str(value) for name, get in settings.items() if (value := get()) is not None}
    if (stack := names.MODES.find()) is not None:
        states["torch_function_modes"] = ", ".join(type(mode).__qualname__ for mode in stack()) or "none"
    return states


def _allows_tf32(torch: Any) -> bool | None:
    """Where the newer setting was written, which transformers' Trainer does, the older one raises when it is read."""
    if (older := names.TF32.find()) is None:
        return None
    try:
        return bool(older())
    except RuntimeError:
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


_MARKS = {
    "dynamic": names.DYNAMIC,
    "maybe dynamic": names.MAYBE_DYNAMIC,
    "unbacked": names.UNBACKED,
    "static": names.STATIC,
}


def marks(tensor: Any) -> str:
    """The marks of `mark_dynamic` and its like on a tensor: "dimension 0 dynamic", empty for nothing."""
    if not (own := object.__getattribute__(tensor, "__dict__")):
        return ""
    texts = []
    for words, hook in _MARKS.items():
        for name in (form.says[0] for form in hook.forms):
            if isinstance(dimensions := own.get(name), set) and dimensions:
                texts.append(f"dimension {', '.join(str(d) for d in sorted(dimensions))} {words}")
    return ", ".join(texts)


def is_result(tensor: Any) -> bool:
    """Whether a compiled function had returned `tensor`, as far as its history shows."""
    if (made_by := tensor.grad_fn) is None:
        return False
    return type(made_by).__name__ in {f"{form.says[0]}Backward" for form in names.RESULT.forms}


def region(frame: CompilingFrame) -> tuple[Any, FrameType | None]:
    """The function given to torch.compile, of which the compiled frame is a part, and its caller."""
    # what torch.compile returns is made in there, under a name that differs from version to version
    places = [(f"{form.path.rpartition(':')[2]}.<locals>.", form.file, form.says[0]) for form in names.REGION.forms]
    for above in outwards(frame.caller):
        code = above.f_code
        for within, file, given in places:
            if code.co_qualname.startswith(within) and code.co_filename.endswith(file) and given in code.co_freevars:
                return above.f_locals.get(given), above.f_back
    return None, None


def falls_back(error: BaseException) -> bool:
    """Whether Dynamo, giving up the frame it compiles with `error`, lets it run uncompiled; else the user sees it."""
    if not isinstance(error, Exception):
        return False
    frame = _compiler_frame()
    [box] = names.MAY_BREAK.local(frame) or (None,)
    if any(names.ONE_GRAPH.local(frame)) or any(names.MAY_BREAK.attributes(box)):
        return False
    kinds = {base.__name__ for base in type(error).__mro__}
    return bool(names.SUPPRESSED.find()) or not kinds.isdisjoint(("Unsupported", "UserError"))


def given_up(error: BaseException | None) -> str | None:
    """Why Dynamo will never look at the code it compiles now again, nor at what it has compiled of it, "" where it
    gives no reason; None if it may.

    Empty graphs and errors that are suppressed both do that to all of a function, whatever variants it has.
    """
    if error is not None:
        return text_of(error) if falls_back(error) and not any(names.STRATEGY.attributes(error)) else None
    [returned] = names.GIVEN_UP.local(_compiler_frame()) or (None,)
    match names.SKIPPED.attributes(returned):
        case [reason]:
            return reason if isinstance(reason, str) else None
        case [strategy, for_good]:  # before PyTorch 2.13
            is_skip = getattr(getattr(strategy, "cur_action", None), "name", None) == "SKIP"
            return "" if is_skip and for_good else None
    return None


# PyTorch 2.9, 2.13: "L['x'].size()[0]"
_SIZE = expression(r"(.+)\.size\(\)\[(\d+)\]")


def symbols() -> list[tuple[str, int | None]] | None:
    """What the graph that was just traced leaves open: PyTorch's expression for a tensor and its dimension, or for a
    number and None. What a guard pins to one value is not among it. None where that cannot be seen."""
    [traced] = names.TRACED.local(_compiler_frame()) or (None,)
    [graph] = names.GRAPH.attributes(traced) or (traced,)  # before PyTorch 2.9 it is the graph itself
    all_symbols, pinned = names.SYMBOLS.attributes(getattr(graph, "shape_env", None)) or (None, None)
    if not isinstance(all_symbols, Mapping) or not isinstance(pinned, Mapping):
        return None
    sizes: list[tuple[str, int | None]] = []
    for symbol, sources in all_symbols.items():
        if getattr(pinned.get(symbol), "is_number", False):
            continue
        for source in sources:
            name = getattr(source, "name", None)
            text = name() if callable(name) else name
            if isinstance(text, str):
                size = _SIZE.fullmatch(text)
                sizes.append((size[1], int(size[2])) if size else (text, None))
    return sizes


def operations() -> int | None:
    """How many operations the graph has that was just traced; None where there is none."""
    [graph] = names.TRACED.local(_compiler_frame()) or (None,)
    count = getattr(graph, "count_calls", None)
    return count() if count is not None else None


def graphs() -> int:
    """How many graphs Dynamo has counted so far; 0 where it does not show that."""
    counters = names.COUNTED.find()
    return counters.get("stats", {}).get("unique_graphs", 0) if counters is not None else 0


def _compiler_frame() -> FrameType | None:
    return names.FRAME.on_stack(sys._getframe(1))


def plain_tensors() -> contextlib.AbstractContextManager[object]:
    """A context in which reading a tensor's attributes runs no `__torch_function__` of the user's own."""
    disable = names.PLAIN.find()
    return disable() if disable is not None else contextlib.nullcontext()


# --- asks what Dynamo has compiled whether it would take a call now, as far as that h --------------------------------


_ROOT = "L"  # what the guards of all variables hang on


def failures(code: CodeType, values: Mapping[str, Any]) -> list[str] | None:
    """Of each variant of a function, newest first, the first guard that these of its variables, or its globals, do not
    pass now, in PyTorch's words; None where a variant may pass, or there is none."""
    find = names.ENTRIES.find()
    if find is None or names.GUARDS.form() is None:
        return None
    texts = [_failure(entry, values) for entry in find(code)]
    failed = [text for text in texts if text is not None]
    return failed[::-1] if failed and len(failed) == len(texts) else None


def _failure(entry: Any, values: Mapping[str, Any]) -> str | None:
    [root] = names.GUARD_ROOT.attributes(entry.guard_manager) or (None,)
    sources = ["G", *(f"L['{name}']" for name in values)]
    some = root.clone_manager(lambda manager: _is_of(manager.get_source(), sources)) if root is not None else None
    if some is None:
        return None
    verdict = some.check_verbose(dict(values))
    return next((str(text) for text in verdict.verbose_code_parts), None) if not verdict.result else None


def _is_of(source: str, sources: Collection[str]) -> bool:
    """Whether a guard's place is among these, or within one of them."""
    return source == _ROOT or any(source == each or f"{each}." in source or f"{each}[" in source for each in sources)
