"""`expect_no_recompile()`: a block of any program in which nothing may be compiled again."""

from __future__ import annotations

import os
import sys
import tempfile
from types import TracebackType

from coldstep.blind_spots import RECOMPILES
from coldstep.errors import ColdstepError
from coldstep.notices.recompiled import Recompiled
from coldstep.session import active
from coldstep.tracing import Block, quiet_trace


class RecompileError(ColdstepError, AssertionError):
    """Something was compiled again although no recompile was expected. `recompiles` lists the recompiles."""

    def __init__(self, recompiles: list[Recompiled], kept: str | None) -> None:
        self.recompiles = recompiles
        """In the order in which they ended."""
        head = "a recompile" if len(recompiles) == 1 else f"{len(recompiles)} recompiles"
        lines = [f"{head} where none was expected", *map(str, recompiles)]
        super().__init__("\n".join([*lines, f"The trace: {kept}"] if kept else lines))


class expect_no_recompile:
    """Raise RecompileError, with cause and place, at the end of the block if anything in the block was compiled again.

    Works inside a trace and without one. Without one, it records the block itself, and keeps that trace only if it
    raises. First compiles are allowed. Raises RuntimeError if it could not see everything.
    """

    def __enter__(self) -> None:
        self._found: list[Recompiled] = []
        self._own: Block | None = None
        if (session := active()) is None:
            handle, path = tempfile.mkstemp(prefix="coldstep-", suffix=".pftrace")
            os.close(handle)
            self._own = quiet_trace(path)
            session = self._own.__enter__()
        self._session = session
        session.listeners.listen(self._found.append)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._session.listeners.tell(sys._getframe(1))
        finally:
            self._session.listeners.unlisten(self._found.append)
            if self._own is not None:
                self._own.__exit__(kind, error, traceback)
        path = self._session.path if self._own is not None else None
        if error is None and self._found:
            raise RecompileError(self._found, path)
        unseen = self._unseen(path) if error is None else []
        if path is not None:
            os.unlink(path)
        if unseen:
            raise RuntimeError(f"expect_no_recompile() did not see everything: {'; '.join(unseen)}")

    def _unseen(self, path: str | None) -> list[str]:
        """Why a recompile may not have been seen; by what a trace at `path` tells, where it is the block's own."""
        if self._session.failures:
            return list(self._session.failures)
        if path is None:
            unseen = self._session.attached.unseen(RECOMPILES)
            return [f"the collector {name} could not be attached wholly" for name in unseen]
        from coldstep.analysis.unobserved import unknown
        from coldstep.loading import load

        why = unknown(load(path), RECOMPILES)
        return [why] if why is not None else []
