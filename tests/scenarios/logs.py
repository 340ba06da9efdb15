"""Runs programs once, with coldstep and the frameworks' own logs side by side, and holds `coldstep log` to the trace.

`python -m scenarios.logs` does so with every program. A log must give the causes of the trace, in their order, but for
what is not in it: `SILENT` names the programs where that is so, and why.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
import scenarios
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.model import Trace

LOGGING = {
    "TORCH_LOGS": "recompiles,graph_breaks,dynamic",
    "TORCH_TRACE": "torch_trace",
    "JAX_EXPLAIN_CACHE_MISSES": "1",
    "JAX_LOG_COMPILES": "1",
    "PT_XLA_DEBUG_LEVEL": "2",
    "PT_XLA_DEBUG_FILE": "torch_xla.txt",
}
"""All logs on; the files are in the folder that a program runs in."""
READ_AGAIN = """
import sys

if "torch" in sys.modules:
    from torch._logging import _internal

    _internal.LOG_TRACE_HANDLER = None
    _internal._init_logs()
if "jax" in sys.modules:
    import jax

    jax.config.update("jax_explain_cache_misses", True)
    jax.config.update("jax_log_compiles", True)
"""
"""Does what a framework does with these variables as it is imported; torch_xla reads its own later."""
TEXT, TRACE = "text", "trace"
"""The kinds of logs: what is printed, and the files of TORCH_TRACE."""

_OTHER_OBJECT = "another object of the same class runs the same code: the words do not tell that from a recompile"
_NEVER_SEEN = "JAX says no more than that it had not seen this function"
_NOT_TRACED = "JAX's explanation is silent where it does not trace again, and its other lines do not tell"
_BOTH = (TEXT, TRACE)
SILENT: dict[str, tuple[str, tuple[str, ...]]] = {
    "jax/attribute": (_NEVER_SEEN, (TEXT,)),
    "jax/clear_cache": (_NEVER_SEEN, (TEXT,)),
    "jax/clear_caches": (_NEVER_SEEN, (TEXT,)),
    "jax/closure": (_NEVER_SEEN, (TEXT,)),
    "jax/closure_default": (_NEVER_SEEN, (TEXT,)),
    "jax/closure_inner": (_NEVER_SEEN, (TEXT,)),
    "jax/closure_partial": (_NEVER_SEEN, (TEXT,)),
    "jax/compiler_options": (_NOT_TRACED, (TEXT,)),
    "jax/device_pinned": (_NOT_TRACED, (TEXT,)),
    "jax/donation": (_NOT_TRACED, (TEXT,)),
    "jax/global": (_NEVER_SEEN, (TEXT,)),
    "jax/lambda_and_shape": (_NEVER_SEEN, (TEXT,)),
    "jax/new_callable": (_NEVER_SEEN, (TEXT,)),
    "jax/new_grad": (_NEVER_SEEN, (TEXT,)),
    "jax/new_inner_function": (_NEVER_SEEN, (TEXT,)),
    "jax/new_lambda": (_NEVER_SEEN, (TEXT,)),
    "jax/new_method": (_NEVER_SEEN, (TEXT,)),
    "jax/new_partial": (_NEVER_SEEN, (TEXT,)),
    "jax/nothing_two_lambdas": (_OTHER_OBJECT, (TEXT,)),
    "jax/nothing_two_models": (_OTHER_OBJECT, (TEXT,)),
    "jax/out_shardings": (_NOT_TRACED, (TEXT,)),
    "torch/global_module": ("a module's name looks as an object's does", (TEXT,)),
    "torch/modules_many": (_OTHER_OBJECT, _BOTH),
    "torch/nothing_eager": ("nothing was compiled, nothing is logged", (TEXT,)),
    "torch/nothing_regional": (_OTHER_OBJECT, _BOTH),
    "torch/nothing_two_modules": (_OTHER_OBJECT, _BOTH),
    "torch/optimizer_state": ("the guard tells that the state was empty, not what it is now", _BOTH),
    "torch/scalar_slice": ("the start of a slice looks as an attribute does", (TEXT,)),
    "torch/type_number_tensor": ("the guard tells the number that was, not what is there now", (TEXT,)),
    "torch_xla/nothing_two_functions": (_OTHER_OBJECT, (TEXT,)),
}
_REPORTED_BY_TORCH_XLA = ("host_read",)
_OF_DYNAMO = ("torch_xla/openxla_shape",)
_OF_PMAP = ("jax/shape_pmap", "jax/static_pmap")  # whose programs JAX calls _fun, and does not explain
"""Programs whose recompile only Dynamo's own log tells: to torch_xla it is one more graph of a torch.compile call."""
_VAGUE = {
    "new_function": ("closure", "global", "module_attribute"),
    "module_attribute": ("global", "python_scalar"),
    "python_scalar": ("type",),
}
"""What a log may say in the place of causes that it cannot tell apart."""


@dataclass(slots=True)
class Captured:
    """A run that was logged in every way at once."""

    program: str
    folder: Path
    live: Trace
    logs: dict[str, Path] = field(default_factory=dict)
    """The log of each kind."""

    def trace_of(self, kind: str) -> Trace | None:
        """The trace that `coldstep log` makes; None where the log holds nothing."""
        out = self.folder / f"{kind}.pftrace"
        try:
            assert convert([str(self.logs[kind])], str(out), lambda read, total: None) == []
        except TraceError:
            return None
        return coldstep.load(out)


def capture(program: Path, folder: Path) -> Captured:
    """Run `program` under coldstep with all logs on."""
    stack = program.parent.name
    (folder / "logs_again.py").write_text(READ_AGAIN)
    live = scenarios.run(program, folder, LOGGING, settings=["logs_again"])
    traces, report = (folder / LOGGING[key] for key in ("TORCH_TRACE", "PT_XLA_DEBUG_FILE"))
    logs = {TEXT: report if stack == "torch_xla" else folder / f"{stack}-{program.stem}.log"}
    if stack == "torch" and traces.is_dir() and any(traces.iterdir()):
        logs[TRACE] = traces
    return Captured(f"{stack}/{program.stem}", folder, live, logs)


def complaints(run: Captured) -> list[str]:
    """What each log says that the trace does not, or the other way round, beyond what is not in it."""
    found = []
    for kind in run.logs:
        trace = run.trace_of(kind)
        expected, got = ([row.cause for row in each.recompiles] if each else [] for each in (run.live, trace))
        silent = kind in SILENT.get(run.program, ("", ()))[1]
        if not _agree(run.program, expected, got, silent):
            found.append(f"{run.program} ({kind}): the trace says {expected}, the log {got}")
    return found


def _agree(program: str, expected: list[str], got: list[str], silent: bool) -> bool:
    if program in (*_OF_DYNAMO, *_OF_PMAP):
        return got == []
    if program.startswith("torch_xla/"):
        expected = [cause if cause in _REPORTED_BY_TORCH_XLA else "unknown" for cause in expected]
    if not silent or not expected:  # of what is no recompile, a log may see one
        return silent or got == expected
    return len(got) == len(expected) and all(
        said in ("unknown", cause) or cause in _VAGUE.get(said, ()) for cause, said in zip(expected, got, strict=True)
    )


def main() -> int:
    """Run every program of this environment. The exit code is 1 where a log does not give the trace's causes."""
    found: list[str] = []
    for number, program in enumerate(scenarios.PROGRAMS, 1):
        with tempfile.TemporaryDirectory(prefix="coldstep-logs-") as folder:
            new = complaints(capture(program, Path(folder)))
        found += new
        print(f"{number}/{len(scenarios.PROGRAMS)} {program.parent.name}/{program.stem}", file=sys.stderr)
    print("\n".join(found) or f"{len(scenarios.PROGRAMS)} programs: the logs give the causes of the traces")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
