"""Waits in a job's process for the import of a framework, and begins a trace there; prints nothing, breaks nothing.

It runs as the interpreter starts, in every Python below `COLDSTEP=FILE`: the standard library alone, and little of it.
"""

from __future__ import annotations

import os
import sys

import coldstep_shim
from coldstep_shim import CHILDREN, FILE, JOB, MOST_ANCESTORS, RAYS_HELPERS, found_after, parent_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

BEGINS = ("jax", "tensorflow", "torch_xla", "torch._dynamo", "triton", "vllm")
"""With the import of one of these a process may compile. `import torch` alone cannot; what imports vLLM will."""
_NO_PACKAGES = ("coldstep", "coldstep_collectors", "coldstep_viewers")
_HELPERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "backend.resource_tracker",
    "_inductor/compile_worker",
    "__autotune_main__",
    *RAYS_HELPERS,
)
"""In the command of a Python that runs no code of the program's: multiprocessing's, joblib's, Inductor's, Ray's own."""
_FORKSERVER = "multiprocessing.forkserver"


class Door:
    """A finder that finds nothing itself: it has the loaders of `BEGINS` begin a trace before they load, and in a rank
    that a launcher has started, which trains for certain, the loader of its first package."""

    def __init__(self, servers_pid: int | None, is_rank: bool) -> None:
        self._servers_pid = servers_pid  # a forkserver: it is no process of the program's, but those that it forks are
        self._is_rank = is_rank

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders after us find; to find is not to import, so nothing begins here."""
        begins = name in BEGINS or (self._is_rank and _of_the_program(name))
        spec = found_after(self, name, path, target) if begins else None
        if spec is not None:
            self._watch(spec)
        return spec

    def _watch(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        if spec.has_location and hasattr(loader, "create_module") and not hasattr(loader, "archive"):
            try:
                # on the loader itself: whoever looks at it, or puts another around it, finds what Python made
                loader.create_module = self._creating(spec, loader)
            except (AttributeError, TypeError):
                return  # one that takes no attribute: its module is not seen

    def _creating(self, watched: ModuleSpec, loader: Any) -> Callable[[ModuleSpec], Any]:
        def create_module(spec: ModuleSpec) -> Any:
            vars(loader).pop("create_module", None)
            self._is_rank = False
            if os.getpid() != self._servers_pid:
                _begin(watched)
            return loader.create_module(spec)

        return create_module


def _of_the_program(name: str) -> bool:
    """Whether a package is one that the program imports: not Python's, not ours, and none that `site` needs."""
    runs = hasattr(sys.modules.get("__main__"), "__file__")
    return runs and "." not in name and name not in sys.stdlib_module_names and name not in _NO_PACKAGES


def _begin(spec: ModuleSpec) -> None:
    try:
        _own("coldstep")
        from coldstep.following import begin

        begin(spec)
    except Exception:
        pass  # the program goes on without a trace


def _own(name: str) -> None:
    """Import our own package: by now a file of the user's may be the first of that name."""
    if name not in sys.modules:
        from importlib.machinery import PathFinder

        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        spec = PathFinder.find_spec(name, [root])
        if spec is not None and spec.loader is not None:
            from importlib.util import module_from_spec

            module = sys.modules[name] = module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise


def _words(pid: int, what: str) -> list[bytes]:
    with open(f"/proc/{pid}/{what}", "rb") as file:
        return file.read().split(b"\0")


def _job() -> str:
    """The job of a process that nobody told of one: that of the topmost process above it with the same variable; of a
    worker of Ray's that has the variable from its driver alone, Ray's own job, one on all machines."""
    pid, (above, born) = os.getpid(), parent_of(os.getpid())
    for _ in range(MOST_ANCESTORS):
        try:
            if not any(word.startswith(b"COLDSTEP=") for word in _words(above, "environ")):
                break
            pid, (above, born) = above, parent_of(above)
        except OSError:  # another user's, or gone
            break
    session = next((word for word in sys.orig_argv if word.startswith("--session-name=")), "")
    if pid == os.getpid() and session and (rays := os.environ.get("RAY_JOB_ID")):
        return f"{''.join(filter(str.isdigit, session))}{rays}:0:"
    return f"{pid:08x}{born:012x}:{pid}:"


def _open() -> None:
    """Have this process wait, once; and have those below it know whose they are."""
    words = " ".join(getattr(sys, "orig_argv", ()))
    if os.environ.get(CHILDREN) == "0" or os.getuid() != os.geteuid() or any(word in words for word in _HELPERS):
        return
    os.environ[FILE] = os.path.join(os.path.abspath(os.environ[FILE]), "")[: None if _is_folder() else -1]
    job, root, inherited = (os.environ.get(JOB) or _job()).split(":")
    rank = os.environ.get("RANK", "")
    os.environ[JOB] = f"{job}:{root}:{rank}"
    coldstep_shim.inherited_rank = inherited
    is_ours = any(os.path.basename(word) == "coldstep" for word in sys.orig_argv[1:3])
    if not is_ours:  # `coldstep run` begins a trace itself, and no other command is to be traced
        sys.meta_path.insert(0, Door(os.getpid() if _FORKSERVER in words else None, rank not in ("", inherited)))


def _is_folder() -> bool:
    path = os.environ[FILE]
    return path.endswith(os.sep) or os.path.isdir(path)


try:  # noqa: SIM105  # contextlib takes longer to import
    _open()
except Exception:
    pass  # no /proc, a working folder that is gone: the program runs as if nothing were
