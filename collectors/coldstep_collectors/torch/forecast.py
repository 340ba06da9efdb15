"""Foretells what torch.compile compiles: a rehearsal by Dynamo itself, read as the trace of a run is read.

Automatic dynamic sizes and numbers, 0 and 1, marked dimensions, sources named in the environment, limits and guards are
Dynamo's own doing there. The causes are those that `coldstep report` would give for the rehearsal.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Signature, signature
from typing import Any

from coldstep.ahead.forecast_rows import Call, Foretold, ForetoldCompile, Sizes
from coldstep.errors import first_line, our_errors
from coldstep.session import Session
from coldstep.tracing import quiet_trace
from coldstep_collectors.torch._private.rehearsal import Rehearsal, Verdict
from coldstep_collectors.torch.describe import parts
from coldstep_collectors.values import dtype_text, is_plain, name_of

_MADE = ("compiled", "cache_hit", "skipped")
_CHANGES = "an earlier call changes what lies outside of the function, and what this one finds there is not known"


def foretell(function: Callable[..., Any], calls: Iterable[Call], feed: Mapping[str, str]) -> Foretold:
    """Which of these calls torch.compile will compile."""
    import torch
    import torch._dynamo

    if feed:
        raise ValueError("feed is for JAX: what a function returns is not known of PyTorch before it ran")
    rehearsal = Rehearsal(torch, function)
    forecaster = _Forecaster(torch, function, rehearsal)
    with tempfile.TemporaryDirectory(prefix="coldstep-forecast-") as folder:
        path = os.path.join(folder, "rehearsal.pftrace")
        with quiet_trace(path, ["dynamo"], judged=False) as session, rehearsal.prepared():
            for call in calls:
                forecaster.take(call)
        return forecaster.told(session)


class _Forecaster:
    """Takes the calls one by one."""

    def __init__(self, torch: Any, function: Any, rehearsal: Rehearsal) -> None:
        self._torch = torch
        self._rehearsal = rehearsal
        self._why = rehearsal.refused
        self._told = Foretold("dynamo", name_of(rehearsal.named), opens_sizes=True)
        if not hasattr(function, "get_compiler_config") and not getattr(function, "_compiled_call_impl", None):
            self._told.notes.append("the function is taken as if it were under torch.compile, without options")
        try:
            self._signature: Signature | None = signature(rehearsal.named)
        except (TypeError, ValueError):
            self._signature = None

    def take(self, call: Call) -> None:
        """Judge the next call."""
        number = self._told.next_call()
        self._told.sizes.append(self._sizes(call))
        if self._why:
            self._told.leave_open(number, self._why)
            return
        try:
            verdict = self._rehearsal.judge(call.args, call.kwargs)
        except our_errors() as error:
            verdict = Verdict("failed", error)
        match verdict.kind:
            case "compiled":
                row = ForetoldCompile(number)
                if not self._told.compiles and not self._rehearsal.is_new:
                    self._explain(row, call)
                self._told.compiles.append(row)
                self._why = _CHANGES if verdict.changes else ""
            case "limit" if self._told.limit_at is None:
                self._told.limit_at = number
            case "broken" | "skipped" | "failed":
                self._give_up(number, verdict)

    def told(self, session: Session) -> Foretold:
        """The whole forecast, with the causes that a report gives for its trace, which has ended."""
        made = [row.args for row in session.compiles() if row.args.get("outcome") in _MADE]
        if len(made) != len(self._told.compiles):
            for row in self._told.compiles[1:]:
                row.cause = "unknown"
        elif made:
            self._told.function = str(made[-1].get("function", self._told.function))
            if len(made) > 1:
                from coldstep.analysis.recompiles.causes import explain_in_turn  # here: one variant has no need of it

                explain_in_turn("dynamo", made, self._told.compiles)
        return self._told

    def _explain(self, row: ForetoldCompile, call: Call) -> None:
        """Why none of the variants that are there does, as far as a failed guard tells it."""
        from coldstep.analysis.rules.dynamo import read  # here: as above

        changes = (read(text).change() for text in self._rehearsal.failures(call.args, call.kwargs))
        row.explain(next(filter(None, changes), None))

    def _give_up(self, number: int, verdict: Verdict) -> None:
        error = first_line(verdict.error)
        if verdict.kind == "broken":
            self._why = f"the function has a graph break, and what runs there decides what compiles behind it: {error}"
            if number == 0 and self._rehearsal.is_new:
                self._told.compiles.append(ForetoldCompile(0))
                return
        elif verdict.kind == "skipped":
            self._why = "there is nothing in it that PyTorch would compile"
        else:
            self._why = f"a call fails: {error}"
        self._told.leave_open(number, self._why)

    # --- sizes ------------------------------------------------------------------------------------------------

    def _sizes(self, call: Call) -> Sizes:
        shapes: dict[str, tuple[int, ...]] = {}
        rest: list[tuple[str, str]] = []
        for name, value in self._arguments(call):
            for path, part in parts(name, value):
                if isinstance(part, self._torch.Tensor):
                    shapes[path] = tuple(part.shape)
                    rest.append((path, f"{dtype_text(part.dtype)} {part.requires_grad} {part.device}"))
                else:
                    rest.append((path, repr(part) if is_plain(part) else type(part).__qualname__))
        return Sizes(shapes, tuple(rest))

    def _arguments(self, call: Call) -> Iterator[tuple[str, Any]]:
        try:
            bound = self._signature.bind(*call.args, **call.kwargs) if self._signature is not None else None
        except TypeError:  # the call itself will fail
            bound = None
        if bound is not None:
            yield from bound.arguments.items()
        else:
            yield from ((f"args[{at}]", value) for at, value in enumerate(call.args))
            yield from call.kwargs.items()
