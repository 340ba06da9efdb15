"""coldstep: where a training step's first run goes, when it recompiles, and why it needs a second step to settle."""

from coldstep.recording import import_time

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from coldstep.marks import annotate, ready, step, steps, wait
    from coldstep.tracing import trace
finally:
    import_time.ended()

if TYPE_CHECKING:
    from coldstep.ahead.fit import Fit, would_fit
    from coldstep.ahead.forecast import Forecast, forecast
    from coldstep.ahead.forecast_rows import call
    from coldstep.expect import RecompileError, expect_no_recompile
    from coldstep.loading import load
    from coldstep.loading.summary import summary
    from coldstep.notices.coming import Coming
    from coldstep.notices.late import LateCompile, NotReadyError
    from coldstep.notices.recompiled import Recompiled

__all__ = [
    "Coming",
    "Fit",
    "Forecast",
    "LateCompile",
    "NotReadyError",
    "RecompileError",
    "Recompiled",
    "annotate",
    "call",
    "expect_no_recompile",
    "forecast",
    "load",
    "ready",
    "step",
    "steps",
    "summary",
    "trace",
    "wait",
    "would_fit",
]

# these take modules that the traced process should not pay for
_LATER = {
    "Coming": "notices.coming",
    "Forecast": "ahead.forecast",
    "LateCompile": "notices.late",
    "NotReadyError": "notices.late",
    "Fit": "ahead.fit",
    "RecompileError": "expect",
    "Recompiled": "notices.recompiled",
    "call": "ahead.forecast_rows",
    "expect_no_recompile": "expect",
    "forecast": "ahead.forecast",
    "load": "loading",
    "summary": "loading.summary",
    "would_fit": "ahead.fit",
}


def load_ipython_extension(shell: object) -> None:
    """`%load_ext coldstep`: the magics `%%coldstep` and `%coldstep_steps`."""
    from coldstep._util.installed import offered

    offered("coldstep.viewers", "magics")(shell)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"coldstep.{_LATER[name]}"), name)
    raise AttributeError(f"module 'coldstep' has no attribute {name!r}")
