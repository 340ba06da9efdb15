"""The frame that Dynamo compiles, as it stands on the stack: its function, values, settings and open dimensions."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES, Unseen
from coldstep.slotted import slotted

FRAMES_MODULE = "torch._dynamo.convert_frame"
REGIONS_MODULE = "torch._dynamo.eval_frame"


@slotted
class CompilingFrame:
    """The user's frame that Dynamo is about to compile. Live objects: for use inside the hook only."""

    code: CodeType
    values: Mapping[str, Any]
    caller: FrameType | None
    """The innermost Python frame below torch's compiler."""
    fullgraph: bool | None
    frame_id: int
    frame_compile_id: int
    globals: Mapping[str, Any]
    wrapped: Any = None
    """What the user gave to torch.compile, where the frame is only Dynamo's wrapper around it."""


def unseen_frames(module: ModuleType) -> list[str]:
    """What `compiling_frame`, `symbols`, `falls_back` and `Spans.remembered` will not find in this version of
    PyTorch."""
    missing: list[str] = []
    code = getattr(getattr(module, "_compile", None), "__code__", None)
    names = {*code.co_varnames, *code.co_cellvars} if code is not None else set()
    if not {"code", "locals", "compile_id"} <= names:
        words = "which functions compile, and with what inputs (this version of PyTorch compiles in another way)"
        return [Unseen(words, COMPILES, RECOMPILES, BREAKS)]
    if not names & _TRACED_BY:
        missing.append(Unseen("which dimensions and numbers a graph leaves open"))
    if "one_graph" not in names:
        missing.append(Unseen("whether a function may only be one graph (fullgraph=True)"))
    if "globals" not in names:
        missing.append(Unseen("the global variables that a guard looks at"))
    if not hasattr(getattr(sys.modules.get("torch._guards"), "CompileContext", None), "try_get"):
        missing.append(Unseen("which forward a backward that is compiled later belongs to"))
    return missing


def compiling_frame() -> CompilingFrame | None:
    """What the innermost frame compile on this thread's stack is compiling."""
    frame = _compiler_frame()
    if frame is None:
        return None
    found = frame.f_locals
    code, values, compile_id = found.get("code"), found.get("locals"), found.get("compile_id")
    if not isinstance(code, CodeType) or not isinstance(values, Mapping):
        return None
    is_wrapper = code.co_name == "inner" and code.co_filename.endswith("external_utils.py")
    return CompilingFrame(
        code,
        values,
        frame.f_back,
        bool(found["one_graph"]) if "one_graph" in found else None,
        getattr(compile_id, "frame_id", None) or 0,
        getattr(compile_id, "frame_compile_id", None) or 0,
        found.get("globals") or {},
        values.get("fn") if is_wrapper else None,
    )


def modes(torch: Any) -> dict[str, str]:
    """Settings of the framework that guards look at, by the name that a guard that fails gives them."""
    settings = {
        "default_dtype": ("get_default_dtype", torch),
        "num_threads": ("get_num_threads", torch),
        "deterministic_algorithms": ("are_deterministic_algorithms_enabled", torch),
        "allow_tf32": ("_get_cublas_allow_tf32", torch._C),
    }
    found = {name: str(getattr(owner, get)()) for name, (get, owner) in settings.items() if hasattr(owner, get)}
    stack = getattr(torch.overrides, "_get_current_function_mode_stack", None)
    if stack is not None:
        found["torch_function_modes"] = ", ".join(type(mode).__qualname__ for mode in stack()) or "none"
    return found


_MARKS = {"_dynamo_dynamic_indices": "dynamic", "_dynamo_weak_dynamic_indices": "maybe dynamic",
          "_dynamo_unbacked_indices": "unbacked", "_dynamo_static_indices": "static"}  # fmt: skip


def marks(tensor: Any) -> str:
    """What `mark_dynamic` and its like have said of a tensor: "dimension 0 dynamic", empty for nothing."""
    own = object.__getattribute__(tensor, "__dict__")
    found = []
    for name, words in _MARKS.items():
        if isinstance(dimensions := own.get(name), set) and dimensions:
            found.append(f"dimension {', '.join(str(d) for d in sorted(dimensions))} {words}")
    return ", ".join(found)


def is_result(tensor: Any) -> bool:
    """Whether a compiled function had returned `tensor`, as far as its history tells."""
    return type(tensor.grad_fn).__name__ == "CompiledFunctionBackward"


_REGION = "_TorchDynamoContext.__call__.<locals>."
"""In the qualified name of what torch.compile returns: its last part differs from version to version."""


def unseen_regions(module: ModuleType) -> list[str]:
    """What `region` will not find in this version of PyTorch."""
    makes = vars(getattr(module, "_TorchDynamoContext", object)).get("__call__")
    made = getattr(getattr(makes, "__code__", None), "co_consts", ())
    if any(isinstance(code, CodeType) and "fn" in code.co_freevars for code in made):
        return []
    return [Unseen("whether a library's function that compiles is compiled for the program")]


def region(frame: CompilingFrame) -> tuple[Any, FrameType | None]:
    """What was given to torch.compile, of which the compiled frame is a part, and who called that."""
    above = frame.caller
    while above is not None:
        code = above.f_code
        is_region = code.co_qualname.startswith(_REGION) and code.co_filename.endswith("eval_frame.py")
        if is_region and "fn" in code.co_freevars:
            return above.f_locals.get("fn"), above.f_back
        above = above.f_back
    return None, None


def falls_back(error: BaseException) -> bool:
    """Whether Dynamo, giving up the frame it compiles with `error`, lets it run uncompiled; else the user sees it."""
    if not isinstance(error, Exception):
        return False
    frame = _compiler_frame()
    found = frame.f_locals if frame is not None else {}
    if found.get("one_graph") or getattr(found.get("convert_frame_box"), "error_on_graph_break", False):
        return False
    suppressed = getattr(sys.modules.get("torch._dynamo.config"), "suppress_errors", False)
    return bool(suppressed) or any(base.__name__ in ("Unsupported", "UserError") for base in type(error).__mro__)


def given_up(error: BaseException | None) -> str | None:
    """Why Dynamo will never look at the code it compiles now again, nor at what it has compiled of it, "" where it does
    not say; None if it may.

    Empty graphs and errors that are suppressed both do that to all of a function, whatever variants it has.
    """
    if error is not None:
        return str(error) if falls_back(error) and getattr(error, "frame_exec_strategy", None) is None else None
    frame = _compiler_frame()
    returned = frame.f_locals.get("guarded_code") if frame is not None else None
    if returned is not None and not hasattr(returned, "skip_reason"):  # before PyTorch 2.10
        strategy = getattr(returned, "frame_exec_strategy", None)
        is_skip = getattr(getattr(strategy, "cur_action", None), "name", None) == "SKIP"
        return "" if is_skip and getattr(returned, "apply_to_code", False) else None
    reason = getattr(returned, "skip_reason", None)
    return reason if isinstance(reason, str) else None


# PyTorch 2.9, 2.13: "L['x'].size()[0]"
_SIZE = re.compile(r"(.+)\.size\(\)\[(\d+)\]")
_TRACED_BY = {"tracer_output", "output"}  # the second before PyTorch 2.9


def symbols() -> list[tuple[str, int | None]] | None:
    """What the graph that was just traced leaves open: PyTorch's expression for a tensor and its dimension, or for a
    number and None. What a guard pins to one value is not among it. None where that cannot be seen."""
    frame = _compiler_frame()
    names = frame.f_locals if frame is not None else {}
    graph = getattr(names.get("tracer_output"), "output_graph", None) or names.get("output")
    shapes = getattr(graph, "shape_env", None)
    all_symbols, pinned = getattr(shapes, "var_to_sources", None), getattr(shapes, "replacements", None)
    if not isinstance(all_symbols, Mapping) or not isinstance(pinned, Mapping):
        return None
    found: list[tuple[str, int | None]] = []
    for symbol, sources in all_symbols.items():
        if getattr(pinned.get(symbol), "is_number", False):
            continue
        for source in sources:
            name = getattr(source, "name", None)
            text = name() if callable(name) else name
            if isinstance(text, str):
                size = _SIZE.fullmatch(text)
                found.append((size[1], int(size[2])) if size else (text, None))
    return found


def _compiler_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_compile" and code.co_filename.endswith("convert_frame.py"):
            return frame
        frame = frame.f_back
    return None


def plain_tensors(torch: Any) -> contextlib.AbstractContextManager[object]:
    """A context in which reading a tensor's attributes runs no `__torch_function__` of the user's own."""
    disable = getattr(torch._C, "DisableTorchFunction", None)
    return disable() if disable is not None else contextlib.nullcontext()
