"""The names that JAX's private modules have had since 0.4.35, and which of them the JAX of this process has.

No version is asked for: each name is looked for by itself, and a fact is read where all that it takes is there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.blind_spots import COMPILES, DISPATCHES, PHASES, RECOMPILES, Unseen
from coldstep_collectors.names import Form, Hook, code_of, variables


@slotted
class Locals:
    """A function of JAX's as it stands on the stack, and the local variables of it that are read."""

    function: str
    """Its name in the module; with a dot, that of a function within another."""
    names: tuple[str, ...]


@slotted
class Reading:
    """The readings of one fact while one part of JAX runs: the forms that this part has had, newest first."""

    fact: str
    forms: tuple[Locals, ...]


_MADE = ("jit_func", "args", "kwargs")
_TO_DONATE = ("donated_invars",)
_TRACING = ("_trace_for_jit", "_infer_params_impl")  # since 0.9, and before

OPTIONS_APART = ("compiler_options_keys", "compiler_options_values")
"""A program's compiler options before 0.4.36."""

PJIT = (
    Reading("function", (Locals("_cpp_pjit.cache_miss", ("fun", "jit_info", "args", "kwargs")),)),
    Reading("function", (Locals("_infer_params", ("fun", "ji", "args", "kwargs")),)),
    Reading("made", (Locals("jit_trace", _MADE),)),
    Reading("made", (Locals("jit_lower", _MADE),)),
    Reading(
        "arguments", tuple(Locals(name, ("avals", "dynargs")) for name in ("_infer_params", "_infer_params_internal"))
    ),
    Reading("arguments", (Locals("_resolve_and_lower", ("jaxpr", "args")),)),
    Reading("arguments", tuple(Locals("_pjit_call_impl_python", ("jaxpr", name)) for name in ("arg_types", "args"))),
    Reading("donated", tuple(Locals(name, _TO_DONATE) for name in _TRACING)),
    Reading("donated", (Locals("_resolve_and_lower", _TO_DONATE),)),
    Reading("donated", (Locals("_pjit_call_impl_python", _TO_DONATE),)),
    Reading("lowering", (Locals("_resolve_and_lower", ("jaxpr",)),)),
    Reading("lowering", (Locals("_pjit_call_impl_python", ("jaxpr",)),)),
    Reading("names", tuple(Locals(name, ("dbg", *_TO_DONATE)) for name in _TRACING)),
    Reading("jaxpr", (Locals("_trace_for_jit", ("jaxpr",)), Locals("_create_pjit_jaxpr", ("jaxpr",)))),
)
"""The readings in `jax._src.pjit`. A fact with several readings is seen by all of them or not at all: what one phase
saw and another did not would look as if it had changed."""

PXLA = (
    Reading("module", (Locals("_cached_lowering_to_hlo", ("lowering_result",)),)),
    Reading(
        "program",
        (
            Locals("_cached_compilation", ("computation", "da", "compiler_options_kvs")),
            Locals("_cached_compilation", ("computation", "da", *OPTIONS_APART)),
        ),
    ),
    Reading("executable", (Locals("_cached_compilation", ("xla_executable", "da")),)),
    Reading("executable", (Locals("UnloadedMeshExecutable.from_hlo", ("committed",)),)),
)
"""The same in `jax._src.interpreters.pxla`."""

RUNS = ("_cpp_pjit.cache_miss", "_pjit_call_impl_python")
"""What runs a jitted function in `jax._src.pjit`, from its call to the end of all that is compiled for it."""

MAKES = {"jit_lower": True, "jit_trace": False, "lower": True, "trace": False}
"""What makes a program without running it, and whether it is lowered, too; before 0.6, within `_make_jit_wrapper`."""

OPTIONS = {
    "static": ("fun_signature", "static_argnums", "static_argnames"),
    "shardings": ("in_shardings_leaves", "out_shardings_leaves"),
    "options": ("backend", "keep_unused"),
}
"""The readings in the class `PjitInfo`: options of `jit` that make another program and are seen nowhere else."""

ARGUMENT = ("aval", "sharding", "committed")
"""The readings in the class `MetaTy`; before 0.8 there is none, but the arguments themselves."""

CONTEXT = (
    *("axis_env_state", "mesh_context_manager", "abstract_mesh_context_manager", "device_context"),
    *("compute_on_context_manager", "xla_metadata_context_manager", "pallas_tpu_interpret_mode_context_manager"),
    *("check_vma", "eager_constant_folding", "jax_allow_f16_reductions", "jax_check_static_indices"),
    *("jax_custom_vjp3", "jax_debug_key_reuse", "jax_default_device", "jax_default_matmul_precision"),
    *("jax_disable_jit", "jax_dynamic_shapes", "jax_enable_memories", "jax_enable_pgle", "jax_enable_x64"),
    *("jax_error_checking_behavior_divide", "jax_error_checking_behavior_nan", "jax_error_checking_behavior_oob"),
    *("jax_explicit_x64_dtypes", "jax_high_dynamic_range_gumbel", "jax_hlo_source_file_canonicalization_regex"),
    *("jax_mutable_array_checks", "jax_no_execution", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion"),
    *("jax_pgle_profiling_runs", "jax_ragged_dot_use_gpu_pallas_triton_lowering", "jax_random_seed_offset"),
    *("jax_remove_size_one_mesh_axis_from_type", "jax_scan3", "jax_sharding_in_types", "jax_softmax_custom_jvp"),
    *("jax_threefry_gpu_kernel_lowering", "jax_threefry_partitionable", "jax_use_direct_linearize"),
    *("jax_use_shardy_partitioner", "jax_use_simplified_jaxpr_constants", "jax_varying_axes_in_types"),
    "jax_xla_profile_version",
)
"""What JAX keys its caches with, by the names in its configuration: where it does not list them (before 0.10.1)."""


PYTHON_DISPATCH, REAL_TRACE = "jit_cpp_cache_miss", "trace_to_jaxpr"
"""The test events that are listened for."""
_DISPATCHED = Unseen("Python dispatches", DISPATCHES)
_BEFORE = Unseen("whether anything was compiled before the trace")
LISTENER = Hook(_DISPATCHED, Form("jax._src.util:test_event_listener", versions="0.4.38-"))
DISPATCHED = Hook(_DISPATCHED, Form("jax._src.pjit:_pjit_call_impl_python", says=(PYTHON_DISPATCH,), versions="0.7.2-"))
TRACED = Hook(
    Unseen("whether a trace was made anew, or found again", COMPILES),
    Form("jax._src.interpreters.partial_eval:trace_to_jaxpr", says=(REAL_TRACE,), versions="0.9-"),
    of="jax._src.pjit:_trace_for_jit",  # before 0.9 a phase called tracing is always a real trace
)
AVALS = Hook(
    Unseen("the arguments that a program is compiled for"),
    Form("jax._src.core:Jaxpr.with_consts", versions="0.11-"),  # which is whole by itself since it holds constants
    Form("jax._src.core:ClosedJaxpr", ("in_avals",), versions="0.4.35-0.10"),
)
ONE_LEVEL = Hook(
    Unseen("the structure of arguments, and None in them"),
    Form("jax.tree_util:default_registry.flatten_one_level_with_keys", versions="0.4.38-"),
    Form("jax._src.tree_util", ("default_registry", "_registry_with_keypaths"), versions="0.4.35-0.4"),
)
IS_CLEAN = Hook(
    Unseen("whether a mark stands in code that is being traced"),
    Form("jax._src.core:trace_state_clean", versions="0.4.35-"),
)
MEASURE = Hook(
    Unseen(
        "when a phase begins and ends (this version of jax.monitoring does not report it)", COMPILES, RECOMPILES, PHASES
    ),
    Form("jax._src.dispatch:log_elapsed_time", versions="0.4.35-"),
)
"""Needed only where `jax.monitoring` does not report when a phase begins (before 0.6)."""
START_BACKEND = Hook(
    Unseen("the start of backends", PHASES), Form("jax._src.xla_bridge:_init_backend", versions="0.4.35-")
)
PLUGINS = Hook(
    Unseen("how long the libraries of devices take to load", PHASES),
    Form("jax._src.xla_bridge:discover_pjrt_plugins", versions="0.4.35-"),
)
BACKENDS = Hook(_BEFORE, Form("jax._src.xla_bridge:backends_are_initialized", versions="0.4.35-"))
COMPILATIONS = Hook(_BEFORE, Form("jax._src.interpreters.pxla:_cached_compilation.cache_info", versions="0.4.35-"))
TRACES = Hook(
    Unseen("which functions had been compiled before the trace", RECOMPILES),
    Form("jax._src.interpreters.partial_eval:trace_to_jaxpr.cache_keys", versions="0.9-"),
)
"""Is asked for only where something may have been."""

_MADE_OF = Unseen("which programs grad and vmap made of a function", RECOMPILES)
VMAP = Hook(_MADE_OF, Form("jax._src.pjit:_pjit_batcher", versions="0.4.35-"))
JVP = Hook(_MADE_OF, Form("jax._src.pjit:_pjit_jvp", versions="0.4.35-"))
LINEARIZE = Hook(
    _MADE_OF,
    Form("jax._src.pjit:_pjit_linearize", versions="0.7-"),
    of="jax._src.pjit:_pjit_transpose_fancy",  # before, there was no such rule
)
PARTIAL_EVAL = Hook(_MADE_OF, Form("jax._src.pjit:_pjit_partial_eval", versions="0.4.35-"))
TRANSPOSE = Hook(
    _MADE_OF,
    Form("jax._src.pjit:_pjit_transpose_fancy", versions="0.7-"),
    Form("jax._src.pjit:_pjit_transpose", versions="0.4.35-0.6"),
)
TRANSFORMS = {
    "vmap": VMAP,
    "jvp": JVP,
    "linearize": LINEARIZE,
    "partial_eval": PARTIAL_EVAL,
    "transpose": TRANSPOSE,
}
"""What runs a jitted function that grad or vmap took apart eagerly: the program is then not the function's own."""

PMAP = Hook(
    Unseen("which functions jax.pmap compiles", RECOMPILES),
    Form("jax._src.pmap:_cached_shard_map", says=("_fun", "fun", "in_tree"), versions="0.9-"),
    of="jax._src.pmap:CachedShardMap",  # before, pmap was made another way, and is not looked into
)

HOOKS = (
    *(*TRANSFORMS.values(), LISTENER, DISPATCHED, TRACED, AVALS, ONE_LEVEL, IS_CLEAN, START_BACKEND, PLUGINS, PMAP),
    *(BACKENDS, COMPILATIONS),
)
"""Those that every trace needs."""
NEWEST = "0.12"
"""The newest version that coldstep was held against. Of these the names were looked at: 0.4.35, 0.4.38, 0.5.3, 0.6.2,
0.7.2, 0.8.3, 0.9.2, 0.10.0, 0.10.2, 0.12.0.1."""


class Names:
    """Which of these readings one module can be read by."""

    def __init__(self, module: Any, readings: tuple[Reading, ...]) -> None:
        self.file = getattr(module, "__file__", None)
        self.at: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
        """By the name of a function: the facts that are read there, and the local variables of each."""
        self.facts = {reading.fact for reading in readings}
        """What is seen."""
        forms = [(reading.fact, _first(module, reading)) for reading in readings]
        self.facts -= {fact for fact, form in forms if form is None}
        for fact, form in forms:
            if form is not None and fact in self.facts:
                self.at[form.function.rpartition(".")[2]].append((fact, form.names))


def _first(module: Any, reading: Reading) -> Locals | None:
    """The newest form that `module` has, with all the local variables of it."""
    for form in reading.forms:
        if (code := code_of(module, form.function)) is not None and {*form.names} <= {*variables(code)}:
            return form
    return None
