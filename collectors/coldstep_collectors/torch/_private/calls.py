"""What PyTorch calls around an optimizer's step, and around each call of what torch.compile returned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import count, islice
from types import CodeType, FrameType, ModuleType
from typing import Any
from weakref import ReferenceType, WeakValueDictionary, ref

from coldstep.blind_spots import Unseen
from coldstep.events import Args
from coldstep.places import frames, variables
from coldstep_collectors.patch import Patch, Undo
from coldstep_collectors.torch._private.aside import aside

OPTIMIZERS = Unseen("the steps of optimizers, from which steps are inferred")
COMPILED = Unseen("calls of compiled functions, from which steps are inferred")
COMPILED_BEFORE = Unseen("calls of functions compiled before the trace, from which steps are inferred")
MADE = Unseen("when optimizers are made, since which a first step may run")
SCALERS = Unseen("steps that an optimizer skips, as gradients overflowed")


def around_optimizer_steps(
    torch: Any, begins: Callable[[Any, FrameType], bool], ended: Callable[[Any], None], missing: list[str]
) -> Iterator[Patch]:
    """Have `begins(optimizer, frame)` called, with the frame that steps it, before each step that is not compiled, and
    `ended(optimizer)` after it where that was true, both within the span that `step_span` names. They must not
    raise.

    PyTorch's own hooks would not do: Dynamo reads them with the step, and since Python 3.13 gives that up for any.
    """
    optimizers = sys.modules.get("torch.optim.optimizer")
    span = getattr(sys.modules.get("torch.autograd.profiler"), "record_function", None)
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    step = _step_around(getattr(optimizers, "Optimizer", None))
    if span is None or step is None or is_compiling is None:
        missing.append(OPTIMIZERS)
        return

    # where Dynamo gives up the frame of the step, it looks at each call in there by itself
    begins, ended = aside(begins), aside(ended)
    enter, leave = span.__enter__, span.__exit__
    under_way: dict[int, Any] = {}

    @wraps(enter)
    def entered(self: Any) -> Any:
        result = enter(self)
        frame = sys._getframe(1)
        if frame.f_code is step and not is_compiling():
            optimizer = frame.f_locals.get("self")
            if optimizer is not None and begins(optimizer, frame):
                under_way[id(self)] = optimizer
        return result

    @wraps(leave)
    def left(self: Any, kind: Any, value: Any, traceback: Any) -> Any:
        if under_way and (optimizer := under_way.pop(id(self), None)) is not None and kind is None:
            ended(optimizer)
        return leave(self, kind, value, traceback)

    yield Patch(span, "__enter__", entered)
    yield Patch(span, "__exit__", left)


def _step_around(kind: Any) -> CodeType | None:
    """What PyTorch runs in the place of an optimizer's step: that, in a span."""
    made = getattr(getattr(kind, "profile_hook_step", None), "__code__", None)
    inner = (each for each in getattr(made, "co_consts", ()) if isinstance(each, CodeType))
    return next((code for code in inner if {"record_function", "self"} <= {*code.co_names, *code.co_varnames}), None)


def step_span(optimizer: Any) -> str:
    """What PyTorch's profiler calls an optimizer's step, with its hooks."""
    return f"Optimizer.step#{type(optimizer).__name__}.step"  # PyTorch 2.13


def after_optimizers_are_made(torch: Any, made: Callable[[Any, FrameType], None], missing: list[str]) -> Undo:
    """Have `made(optimizer, frame)` called as an optimizer is made, within the making. It must not raise."""
    kind = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    patch_step = getattr(kind, "_patch_step_function", None)
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if patch_step is None or is_compiling is None:
        missing.append(MADE)
        return lambda: None

    made = aside(made)

    @wraps(patch_step)
    def patched(self: Any) -> Any:
        result = patch_step(self)
        if not is_compiling():
            made(self, sys._getframe(1))
        return result

    return Patch(kind, "_patch_step_function", patched).undo


def is_making_optimizer(frame: FrameType) -> bool:
    """Whether an optimizer is being made, by the frames from that one outwards."""
    return any(
        each.f_code.co_name == "__init__" and each.f_code.co_filename.endswith("/torch/optim/optimizer.py")
        for each in frames(frame)
    )


def after_scaler_updates(scaler: Any, ended: Callable[[FrameType], None], missing: list[str]) -> Undo:
    """Have `ended(frame)` called, with the caller's frame, after each update of a gradient scaler, of the class given:
    there is one whether or not the optimizer's step was skipped. `ended` must not raise."""
    if (update := getattr(scaler, "update", None)) is None:
        missing.append(SCALERS)
        return lambda: None

    @wraps(update)
    def updated(*args: Any, **kwargs: Any) -> Any:
        result = update(*args, **kwargs)
        ended(sys._getframe(1))
        return result

    return Patch(scaler, "update", updated).undo


def around_compiled_calls(
    module: ModuleType,
    enter: Callable[[int, FrameType], Callable[[], None]],
    missing: list[str],
    *,
    made: Callable[[int, FrameType], None],
    made_before: bool,
) -> Undo:
    """Have `enter(number, frame)` called before each call of a result of torch.compile from now on, and of an earlier
    result, if that was `made_before`; and what that returns, after it. The number is that of the call of torch.compile,
    within which `made(number, frame)` is called; `frame` is the wrapper's around the result: `compiled` shows of which
    function. None may raise."""
    kind = getattr(module, "OptimizeContext", None)
    make = getattr(kind, "__init__", None)
    base = getattr(kind, "__mro__", (None, None))[1]
    if make is None or "enter_exit_hooks" not in getattr(getattr(base, "__init__", None), "__code__", make).co_names:
        missing.append(COMPILED)
        return lambda: None

    numbers = count(1)
    contexts: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def call_begins(number: int) -> Callable[[], None]:
        frame = sys._getframe(1)
        if frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:  # before Python 3.12
            frame = frame.f_back
        return enter(number, frame)

    def is_ours(hook: Any) -> bool:
        return getattr(hook, "func", None) is call_begins

    def watch(context: Any) -> int:
        number = next(numbers)
        contexts[number] = context
        context.enter_exit_hooks.append(partial(call_begins, number))
        return number

    @wraps(make)
    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        made(watch(self), sys._getframe(1))

    def entered(context: Any) -> None:
        if not any(map(is_ours, context.enter_exit_hooks)):
            watch(context)  # whose hooks are being called: this one, too

    patches = [Patch(kind, "__init__", making)]
    if made_before and (patch := _around_entering(module, entered, missing)) is not None:
        patches.append(patch)

    def undo() -> str | None:
        for context in list(contexts.values()):  # each gets another list: a call may be going through this one
            context.enter_exit_hooks = [hook for hook in context.enter_exit_hooks if not is_ours(hook)]
        return "; ".join(filter(None, (patch.undo() for patch in patches))) or None

    return undo


def _around_entering(module: ModuleType, entered: Callable[[Any], None], missing: list[str]) -> Patch | None:
    """Have `entered(context)` called in each call of what torch.compile returned, by the one function of a module's
    that all contexts call."""
    if (tag := getattr(module, "install_generation_tagging_init", None)) is None:
        missing.append(COMPILED_BEFORE)
        return None

    @wraps(tag)
    def tagged() -> None:
        tag()
        for frame in islice(frames(sys._getframe(1)), 5):
            if "enter_exit_hooks" in frame.f_code.co_names and (context := frame.f_locals.get("self")) is not None:
                entered(context)
                return

    return Patch(module, "install_generation_tagging_init", tagged)


def given(frame: FrameType) -> Any:
    """What a call of torch.compile, within which `frame` is, was given; None where that cannot be seen."""
    return _of_torch_compile(frame, "model")


_SITES: dict[int, tuple[ReferenceType[Any], Args]] = {}
"""By the id of a backend, for as long as it lives: the user's line that called torch.compile with it."""


def keep_site(frame: FrameType, place: Args) -> None:
    """Remember the user's line that gave a call of torch.compile, within which `frame` is, its backend."""
    backend = getattr(_of_torch_compile(frame, "backend"), "compiler_fn", None)  # since PyTorch 2.8
    if callable(backend) and type(backend).__weakrefoffset__:
        number = id(backend)
        _SITES[number] = ref(backend, lambda _: _SITES.pop(number, None)), place


def site(backend: Any) -> Args | None:
    """That line, by the backend; None where it is not known."""
    known = _SITES.get(id(backend))
    return known[1] if known is not None and known[0]() is backend else None


def _of_torch_compile(frame: FrameType, name: str) -> Any:
    for each in islice(frames(frame), 12):
        if each.f_code.co_name == "compile" and each.f_code.co_filename.endswith("/torch/__init__.py"):
            return variables(each).get(name)
    return None


def dispatch_mode() -> str:
    """The class of the innermost TorchDispatchMode that this thread is in; "" where it is in none, or that cannot be
    seen."""
    current = getattr(sys.modules.get("torch.utils._python_dispatch"), "_get_current_dispatch_mode", None)
    mode = current() if current is not None else None
    return type(mode).__name__ if mode is not None else ""


def compiled(frame: FrameType) -> Any:
    """The function given to torch.compile, by the frame of the wrapper around it; None where that cannot be seen."""
    return frame.f_locals.get("fn")


def stepped(function: Any, kind: type) -> Any:
    """The optimizer, of class `kind`, whose step a function given to torch.compile is; None where it is another."""
    steps = (each for each in _wrapped(function) if getattr(each, "__name__", "") == "step")
    owners = (getattr(each, "__self__", None) for each in steps)
    return next((owner for owner in owners if isinstance(owner, kind)), None)


def unwrapped(function: Any) -> Any:
    """What torch, or a decorator, has wrapped for it to be compiled."""
    *_, innermost = _wrapped(function)
    return innermost


def _wrapped(function: Any) -> Iterator[Any]:
    for _ in range(8):
        yield function
        if (function := getattr(function, "__wrapped__", None)) is None:
            return
