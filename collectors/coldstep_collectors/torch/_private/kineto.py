"""PyTorch's profiler, the part below torch.profiler.profile."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from coldstep_collectors.names import is_older, missing
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.profiler_session import MARK
from coldstep_collectors.torch._private import names


class Kineto:
    """PyTorch's profiler: the part below torch.profiler.profile, which imports Inductor's settings when it begins."""

    def __init__(self) -> None:
        self._module: Any = sys.modules.get("torch.autograd.profiler")
        self._profile: Any = None
        self._marker: Any = names.MARKER.find() or getattr(self._module, "record_function", None)
        self._patches: list[Patch] = []
        self._outlived = not is_older(sys.modules["torch"].__version__, _OUTLIVED_SINCE)
        for library, name, _ in (_KINETOS, _C10S):
            _log_level(library, name)  # found here, and not in the first step

    unfinished: str | None = None  # in a process, which may be traced twice
    any_time = False  # begun within a compile, it makes that fail

    @property
    def any_thread(self) -> bool:
        """Whether a session may end on another thread than it began on."""
        return _all_threads() is not None

    @property
    def there(self) -> bool:
        """Whether this version of PyTorch has it."""
        return not missing(names.KINETO)

    @property
    def can_see_gpus(self) -> bool:
        """Whether it may look at GPUs: with an older CUDA it can crash a program that uses CUDA graphs."""
        version = getattr(sys.modules["torch"].version, "cuda", None)
        return version is None or tuple(map(int, str(version).split(".")[:2])) >= _SAFE_CUDA

    def start(self, give_way: Callable[[], None]) -> bool:
        """See `recording.Profiler`, as for all below. Where two sessions meet, PyTorch loses one without a word."""
        module = self._module
        if module._is_profiler_enabled:
            return False
        _let_forks_end()
        device = "cuda" if self.can_see_gpus and self._gpus_run() else None
        profile = module.profile(use_kineto=True, use_device=device, experimental_config=_all_threads())
        profile._prepare_trace()  # which the first time sets what is logged
        with _unlogged(*_KINETOS):  # newer versions do at the highest level of all
            profile._start_trace()
        self._profile = profile
        self._patches += [Patch(module, name, _after(give_way, getattr(module, name))) for name in _PROFILER_BEGINS]
        return True

    def _gpus_run(self) -> bool:
        """Built without CUPTI, PyTorch would record a CUDA event around every operator instead."""
        cuda: Any = sys.modules.get("torch.cuda")
        runs = cuda is not None and cuda.is_initialized()
        return runs and any(activity.name == "CUDA" for activity in self._module._supported_activities())

    def mark(self) -> Any:
        return self._marker(MARK)

    def stop(self, within: str) -> list[Any]:
        undo_all(self._patches)
        profile, self._profile = self._profile, None
        try:
            if not self._outlived:
                self._let_end()
        finally:
            with _unlogged(*_KINETOS):
                profile.__exit__(None, None, None)
        events = list(profile.kineto_results.events())
        if not self._outlived:
            unfinished = [(event.device_resource_id(), event.name()) for event in events if _is_unfinished(event)]
            with contextlib.suppress(ValueError):
                unfinished.remove((threading.get_native_id(), within))
            Kineto.unfinished = unfinished[0][1] if unfinished else None
        return events

    def _let_end(self) -> None:
        """Have no more recorded, and let other threads end what they are recording: PyTorch does not wait for that, and
        frees what they write to."""
        if (toggle := names.TOGGLE.find()) is not None:
            with _unlogged(*_C10S):
                toggle(False, {each for each in self._module._supported_activities() if each.name == "CPU"})
            time.sleep(_RECORDS_S)

    def count(self, saw: list[Any]) -> int:
        return len(saw)

    def share(self, saw: list[Any]) -> float:
        return len(saw) / _MAX_EVENTS


_SAFE_CUDA = 12, 6
# github.com/pytorch/pytorch/pull/187483 and /188172: before, a span's end is written to its session's memory, which has
# been freed, if another session runs by then; and a session's end does not wait for what other threads record
_OUTLIVED_SINCE = "2.14"
_RECORDS_S = 0.002  # a record takes less than a microsecond, where its thread has a processor
_SPANS = ("cpu_op", "user_annotation")
_MAX_EVENTS = 200_000
_PROFILER_BEGINS = ("_prepare_profiler", "_enable_profiler")


_KINETOS = "libtorch_cpu.so", "_ZN9libkineto6Logger14severityLevel_E", 6  # above the level of all that it logs
_C10S = "libc10.so", "FLAGS_caffe2_log_level", 2  # errors


@contextlib.contextmanager
def _unlogged(library: str, name: str, quiet: int) -> Iterator[None]:
    """Keep PyTorch from announcing our sessions on stderr, where it says so with that variable."""
    if (level := _log_level(library, name)) is None:
        yield
        return
    before, level.value = level.value, quiet
    try:
        yield
    finally:
        level.value = before


@cache
def _let_forks_end() -> None:
    """From its first session on a thread of PyTorch's profiler runs, for which a fork's child waits as it ends, for
    ever, since it has none: what is destroyed there, Python having ended, is left as it is. A child that another
    program takes the place of never comes to that."""
    import ctypes

    library = ctypes.CDLL(None)
    try:
        on_exit, leave, write_all = library.on_exit, library._exit, library.fcloseall
    except AttributeError:
        return  # another C library

    def leave_first() -> None:
        on_exit(leave, None)  # with the status that it is given
        on_exit(write_all, None)  # the last one comes first

    os.register_at_fork(after_in_child=lambda: atexit.register(leave_first))


def _is_unfinished(event: Any) -> bool:
    ended = getattr(event, "end_thread_id", None)
    return event.activity_type() in _SPANS and (ended is None or ended() == 0)


@cache
def _log_level(library: str, name: str) -> Any:
    """The variable of a library of PyTorch's by which it decides what it logs; None where it was built otherwise."""
    import ctypes  # PyTorch has imported it: no trace of something else needs to

    try:
        path = os.path.join(os.path.dirname(sys.modules["torch"].__file__ or ""), "lib", library)
        return ctypes.c_int.in_dll(ctypes.CDLL(path), name)
    except (OSError, ValueError):
        return None


def _after(give_way: Callable[[], None], begin: Callable[..., Any]) -> Callable[..., Any]:
    def shared(*args: Any, **kwargs: Any) -> Any:
        give_way()
        return begin(*args, **kwargs)

    return shared


def _all_threads() -> Any:
    """The setting by which the profiler sees every thread, and may end on another one than it began on."""
    config = getattr(sys.modules.get("torch._C._profiler"), "_ExperimentalConfig", None)
    try:
        return config(profile_all_threads=True) if config is not None else None
    except TypeError:  # an older PyTorch
        return None
