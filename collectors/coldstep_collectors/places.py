"""Says whose code a file is, and which frame of a stack is the innermost of the user's."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType, ModuleType

from coldstep.events import Args

_OURS = ("coldstep", "coldstep_collectors", "coldstep_viewers")
_INSTALLED = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3[.\d]*/|/coldstep_(?:collectors|viewers)/|/tracer/coldstep/"
    r"|/torch/(?:_\w+/|nn/(?:modules|parallel|attention)/|optim/|utils/|autograd/|fx/)"  # built from source
)


class Places:
    """Knows the standard library, coldstep itself and `packages`; what is not installed, either, is the user's."""

    def __init__(self, *packages: ModuleType) -> None:
        folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
        folders += [_folder(module) for module in packages]
        folders += [_folder(sys.modules[name]) for name in _OURS if name in sys.modules]  # perhaps installed editable
        self._library = tuple(os.path.join(folder, "") for folder in folders)
        self._known: dict[str, bool] = {}

    def is_users(self, file: str) -> bool:
        """Whether the user wrote the code in `file`."""
        return not self.is_known(file) and "/site-packages/" not in file and "/dist-packages/" not in file

    def is_known(self, file: str) -> bool:
        """Whether `file` is the standard library's, coldstep's, or of one of the packages given."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._find(file)
        return known

    def users_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost of the user's frames, from `frame` outwards."""
        return next((each for each in frames(frame) if self.is_users(each.f_code.co_filename)), None)

    def _find(self, file: str) -> bool:
        if file.startswith("<"):  # generated code belongs to who generates it; these are typed in by a person
            return not file.startswith(("<stdin>", "<string>", "<ipython"))
        return os.path.abspath(file).startswith(self._library)


def is_installed(file: str) -> bool:
    """Whether a file of some other machine's belongs to an installed package or the standard library, by its path."""
    if file.startswith("<"):
        return not file.startswith(("<stdin>", "<string>", "<ipython"))
    return _INSTALLED.search(file) is not None


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """`frame` and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def location(file: str, line: int, function: str) -> Args:
    """A place as events tell it; the function without those around it."""
    path = file if file.startswith("<") else os.path.abspath(file)
    return {"file": path, "line": line, "function": function.rpartition("<locals>.")[2]}


def _folder(module: ModuleType) -> str:
    return os.path.dirname(os.path.abspath(module.__file__ or ""))
