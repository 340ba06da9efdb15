"""Programs that a cache on disk does not keep, so that each further process compiles them again."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep.analysis.caches.advice import advice
from coldstep.analysis.make_finding import of_compile
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.analysis.rules.jax import without_callback
from coldstep.model import Cache, Compile, Finding, Remedy, Trace
from coldstep.places import is_installed
from coldstep.vocabulary import CACHES, UNWRITTEN

_LEAST_NS = 100_000_000  # what takes less may as well be compiled again
_MOST = 0.5  # of all compiling: where a threshold keeps out less, it does what it is for
_REASONS = ("host_callback", "unpicklable", "threshold", "late", "unsafe", "read_only", "full")
_LAYERS = ("aot.autograd", "inductor.fx_graph", "xla.persistent", "torch_xla.persistent")
_MAY_BE_KEPT = 'torch._inductor.config.unsafe_marked_cacheable_functions["torch.amp.autocast_mode.{name}"] = "coldstep"'
_BY_WORDS = {
    "_enter_autocast": Row(
        "Enter torch.autocast around the call of the compiled function, and not in it: a graph with the entry in it "
        "is not kept. Or allow PyTorch to keep it, before the first compile: all that it depends on is in the graph.",
        above=_MAY_BE_KEPT.format(name="_enter_autocast") + "\n" + _MAY_BE_KEPT.format(name="_exit_autocast"),
    ),
    "HigherOrderOperator: with_effects": Row(
        "PyTorch keeps no graph with an operation in it that has an effect. If it is of torch.linalg (cholesky, inv, "
        "solve and lu_factor check for errors so), call the one that returns what the check found, and has it kept: "
        "torch.linalg.cholesky_ex(x, check_errors=True).L, inv_ex(…).inverse, solve_ex(…).result, lu_factor_ex(…)[:2]."
    ),
    "autograd_function_apply": Row(
        "PyTorch keeps no graph with a torch.autograd.Function in it, unless a setting allows it: "
        "torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True before the first compile.",
        environment={"TORCHINDUCTOR_AUTOGRAD_CACHE_ALLOW_CUSTOM_AUTOGRAD": "1"},
    ),
}
_BY_REASON = {
    "threshold": Row(
        "JAX stores only what took jax_persistent_cache_min_compile_time_secs to compile, 1 s unless set: set it to 0.",
        environment={"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"},
    ),
}


def unkept(trace: Trace) -> Iterator[Finding]:
    """One finding for each program of the user's."""
    rows = [row for row in trace.compiles if row.origin == "user" and row.outcome == "compiled"]
    whole = sum(row.wall_ns for row in rows)
    refusals = [(row, cache) for row in rows if (cache := _without(row)) is not None]
    small = sum(row.wall_ns for row, cache in refusals if cache.why == "threshold")
    for row, cache in refusals:
        if row.wall_ns < _LEAST_NS or (cache.why == "threshold" and small < _MOST * whole):
            continue
        reason = " ".join((cache.why_text.partition("\n")[0] or UNWRITTEN.get(cache.why or "", "")).split())
        text = f"each process compiles {row.function} anew: {_named(cache.layer)} does not keep it ({reason})"
        mended = _remedies(trace, row, cache, reason)
        yield of_compile(trace, row, "cache_miss", text, severity="note", remedies=mended)


def _without(row: Compile) -> Cache | None:
    """The cache that was asked to keep a compile, and did not."""
    for cache in row.caches:
        refused = cache.state == "bypass" and bool(cache.why_text or cache.why in _REASONS)
        if cache.layer in _LAYERS and (refused or (cache.written is False and cache.why in _REASONS)):
            return cache
    return None


def _named(layer: str) -> str:
    return CACHES[layer] if "'s " in CACHES[layer] else f"the {CACHES[layer]}"


def _remedies(trace: Trace, row: Compile, cache: Cache, reason: str) -> list[Remedy]:
    if (row.stack, cache.why) == ("jax", "host_callback"):
        return without_callback(trace, row)
    by_words = next((each for words, each in _BY_WORDS.items() if words in reason), None)
    known = advice(cache.layer, cache.why)
    general = Row(f"{known[:1].upper()}{known[1:]}." if known else "Take what the reason names out of the function.")
    place = Place(row.caller) if row.caller is not None and not is_installed(row.caller.file) else NOWHERE
    case = Case(f"{cache.layer}:{cache.why}", {}, place)
    return remedies(by_words or _BY_REASON.get(cache.why or "") or general, case)
