"""XLA's profiler as JAX and torch_xla hold it, each its own copy: the result comes in memory, theirs write a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from coldstep._util.slotted import slotted
from coldstep_collectors.profiler_session import MARK
from coldstep_collectors.xla import xplane

_MAX_BYTES = 1 << 26
_ELSEWHERE = "this version of {} keeps its profiler elsewhere"
_IMPORTS_TENSORFLOW = "this version's profiler imports TensorFlow, or complains on stderr"
_OPTIONS = {"host_tracer_level": 1, "python_tracer_level": 0, "enable_hlo_proto": False}


@slotted
class Copy:
    """Where one copy of the profiler is found."""

    owner: Any
    """The module that holds the class of its sessions, which the program's own sessions are of, too."""
    session: str
    """That class's name."""
    arguments: Callable[[], tuple[Any, ...]]
    mark: Callable[[str], Any]
    """An event of that name, as a context manager."""
    public: str
    """The public profiler's module, which knows of a session of the program's own."""


def of_jax(jax: Any) -> Copy | str:
    """JAX's copy, or in words why there is none."""
    owner: Any = sys.modules.get("jaxlib._profiler")
    if not hasattr(owner, "ProfilerSession") or not hasattr(owner, "ProfileOptions"):
        return _ELSEWHERE.format("JAX")
    if not hasattr(owner.ProfileOptions, "session_id"):  # it came with 0.8, where that import had gone
        return _IMPORTS_TENSORFLOW

    def arguments() -> tuple[Any, ...]:
        options = owner.ProfileOptions()
        for name, value in _OPTIONS.items():
            if hasattr(options, name):
                setattr(options, name, value)
        return (options,)

    return Copy(owner, "ProfilerSession", arguments, jax.profiler.TraceAnnotation, "jax._src.profiler")


def of_torch_xla(torch_xla: Any) -> Copy | str:
    """torch_xla's copy, or in words why there is none."""
    owner: Any = getattr(torch_xla._XLAC, "profiler", None)
    name = "TslProfilerSessionWrapper"
    if not hasattr(owner, name) or not hasattr(owner, "TraceMe"):
        return _ELSEWHERE.format("torch_xla")
    return Copy(owner, name, tuple, owner.TraceMe, "torch_xla.debug.profiler")


class XlaProfiler:
    """See `recording.Profiler`."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._session: Any = None
        self._begin: Any = None
        self._shared: Any = None

    any_time = any_thread = True
    unfinished: str | None = None

    def start(self, give_way: Callable[[], None]) -> bool:
        copy = self._copy
        state = getattr(sys.modules.get(copy.public), "_profile_state", None)
        if getattr(state, "profile_session", None) is not None:
            return False
        begin = getattr(copy.owner, copy.session)

        def shared(*args: Any, **kwargs: Any) -> Any:
            give_way()
            return begin(*args, **kwargs)

        self._begin, self._shared = begin, shared
        setattr(copy.owner, copy.session, shared)  # first: the program may begin one on another thread
        try:
            self._session = begin(*copy.arguments())
        except RuntimeError as error:
            self._unshare()
            if _is_taken(error):
                return False
            raise
        return True

    def mark(self) -> Any:
        return self._copy.mark(MARK)

    def stop(self, within: str) -> bytes | None:
        session, self._session = self._session, None
        try:
            saw: bytes = session.stop()
        except RuntimeError as error:
            if _is_taken(error):
                return None  # a session that the public profiler knows nothing of: ours fails only when it ends
            raise
        finally:
            self._unshare()
        return saw

    def _unshare(self) -> None:
        copy = self._copy
        if getattr(copy.owner, copy.session) is self._shared:
            setattr(copy.owner, copy.session, self._begin)

    def count(self, saw: bytes) -> int:
        return xplane.count(saw)

    def share(self, saw: bytes) -> float:
        return len(saw) / _MAX_BYTES


def _is_taken(error: RuntimeError) -> bool:
    return "ALREADY_EXISTS" in str(error)
