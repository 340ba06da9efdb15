"""JAX's private side of each call of a compiled function: the hook that C++ calls after it, and the end of a slow one.

C++ calls the post hook, made for `jax_debug_nans`, after every call on the fast path; a call that leaves it ends by
asking for the data of the next one. `missing` lists the absent parts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import Any

from coldstep.blind_spots import Unseen
from coldstep_collectors.jax._private.pmap import mapped
from coldstep_collectors.patch import Patch, Undo

FAST = Unseen("calls of a JAX function that is compiled already, from which steps are inferred")
SLOW = Unseen("calls of a JAX function that compile, from which steps are inferred")
_GRADIENT = "transpose("  # in the stack of names of an operation that grad has made
_MOST_EQUATIONS = 20_000  # that are searched for it
_TRANSFORMS = {"BatchTrace": "jax.vmap", "LinearizeTrace": "jax.grad", "JVPTrace": "jax.jvp"}
"""By how JAX calls what runs one, its best known name: `jax.value_and_grad` is `jax.grad`'s."""
PostHook = Callable[[Any, Any, Any, Any], None]


def on_fast_calls(hook: PostHook, missing: list[str]) -> Undo:
    """Have `hook(function, args, kwargs, output)` called after each call on the fast path, in its thread; the user's
    own hook, that of `jax_debug_nans`, is called as ever. `hook` must not raise."""
    api, config = sys.modules.get("jax._src.api"), sys.modules.get("jax._src.config")
    state = getattr(api, "_post_hook_state", None)
    options: list[Any] = [getattr(config, name, None) for name in ("debug_nans", "debug_infs")]
    unset = getattr(getattr(config, "config_ext", None), "unset", None)
    if state is None or unset is None or not all(hasattr(each, "_update_thread_local_hook") for each in options):
        missing.append(FAST)
        return lambda: None
    chained: dict[int, tuple[Any, PostHook]] = {}

    def with_ours(theirs: Any) -> Any:
        """A hook that calls ours, and theirs, which may raise; ours as it is where there is none."""
        if theirs is None or theirs is hook or any(both is theirs for _, both in chained.values()):
            return theirs or hook

        def both(fun: Any, args: Any, kwargs: Any, output: Any) -> None:
            hook(fun, args, kwargs, output)
            theirs(fun, args, kwargs, output)

        return chained.setdefault(id(theirs), (theirs, both))[1]

    def put_locally() -> None:
        # a thread that once held a check off has None, which hides the hook of all threads from then on, theirs too
        if (theirs := state.get_local()) is not unset:
            state.set_local(with_ours(theirs))

    def put_globally() -> None:
        state.set_global(with_ours(state.get_global()))

    originals = [(each, each._update_global_hook, each._update_thread_local_hook) for each in options]
    ours = [(_and_then(globally, put_globally), _and_then(locally, put_locally)) for _, globally, locally in originals]
    for each, (globally, locally) in zip(options, ours, strict=True):
        each._update_global_hook, each._update_thread_local_hook = globally, locally
    put_globally()
    put_locally()

    def undo() -> str | None:
        left = None
        for (each, globally, locally), own in zip(originals, ours, strict=True):
            if (each._update_global_hook, each._update_thread_local_hook) == own:
                each._update_global_hook, each._update_thread_local_hook = globally, locally
            else:
                left = "a wrapper of what JAX does when jax_debug_nans changes, which another one calls"
        without = {id(hook): None} | {id(both): theirs for theirs, both in chained.values()}
        if id(state.get_global()) in without:
            state.set_global(without[id(state.get_global())])
        if id(state.get_local()) in without:
            state.set_local(without[id(state.get_local())])
        return left

    return undo


def _and_then(original: Callable[[Any], None], put: Callable[[], None]) -> Callable[[Any], None]:
    @wraps(original)
    def updated(value: Any) -> None:
        original(value)
        put()

    return updated


def after_slow_calls(ended: Callable[[FrameType], None], missing: list[str]) -> Undo:
    """Have `ended(frame)` called as a call that left the fast path is about to return; `frame` is its own,
    from which `called` reads the call. `ended` must not raise."""
    pjit = sys.modules.get("jax._src.pjit")
    if (asks := getattr(pjit, "_get_fastpath_data", None)) is None:
        missing.append(SLOW)
        return lambda: None

    @wraps(asks)
    def asked(*args: Any, **kwargs: Any) -> Any:
        ours, frame = sys._getframe().f_code, sys._getframe(1)  # a frame that held itself would keep the arguments
        while frame.f_code is ours and frame.f_back is not None:  # two of us may watch
            frame = frame.f_back
        ended(frame)
        return asks(*args, **kwargs)

    stays = "a wrapper of what JAX asks at the end of a slow call, which another wrapper calls"
    return Patch(pjit, "_get_fastpath_data", asked, stays).undo


def called(frame: FrameType) -> tuple[Any, Any, Any, Any] | None:
    """Of a slow call that ends: the function that was given to `jit`, its arguments by position and by keyword, and
    what it returned. None where that cannot be seen, and where the call is a part of a function being traced."""
    core = sys.modules.get("jax._src.core")
    if (clean := getattr(core, "trace_state_clean", None)) is not None and not clean():
        return None
    local = frame.f_locals  # since Python 3.13 no dict: of its keys there is a list
    if not all(name in local for name in ("fun", "args", "kwargs", "outs")):
        return None
    return local["fun"], local["args"], local["kwargs"], local["outs"]


def transforms() -> list[str]:
    """Which of JAX's transforms run on this thread outside of any function that is traced, the innermost first: each
    takes the functions that it calls through Python, compiled as they may be. None of them where one is traced."""
    core = sys.modules.get("jax._src.core")
    trace = getattr(getattr(core, "trace_ctx", None), "trace", None)
    names: list[str] = []
    while (name := _TRANSFORMS.get(type(trace).__name__)) is not None:
        names.append(name)
        trace = getattr(trace, "parent_trace", None)
    return names if type(trace).__name__ == "EvalTrace" else []


def given(fun: Any) -> Any:
    """The function that the program has compiled: of what `jax.pmap` jits, the one that was given to that."""
    behind = mapped(fun)
    return fun if behind is None else behind.function


def caller(frame: FrameType) -> FrameType | None:
    """The frame that a slow call which ends in `frame` returns to: the first one outside JAX."""
    inside = os.path.join(os.path.dirname(sys.modules["jax"].__file__ or ""), "")
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith(inside):
        outer = outer.f_back
    return outer


def behind(function: Any) -> Any:
    """The function that a jitted one was made of; None for an operation that runs by itself."""
    made_of = getattr(function, "_fun", None)
    return None if getattr(made_of, "_apply_primitive", False) else made_of


def computes_gradients(frame: FrameType) -> bool | None:
    """Whether the program of the slow call that ends in `frame` has operations that grad made; None where
    its operations cannot be seen."""
    if (jaxpr := frame.f_locals.get("jaxpr")) is None:
        return None
    return any(_GRADIENT in str(names) for names in _names(jaxpr, [_MOST_EQUATIONS]))


def _names(jaxpr: Any, left: list[int]) -> Iterator[Any]:
    """The stacks of names of all operations, those of the last ones first: there the gradients are."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    for equation in reversed(getattr(jaxpr, "eqns", ())):
        left[0] -= 1
        if left[0] < 0:
            return
        yield getattr(equation.source_info, "name_stack", "")
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                yield from _names(part, left)
