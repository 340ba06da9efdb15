"""The names that PyTorch's private modules have had since 2.5: each hook, its forms, and the blind spot without it.

Of a hook's `has`, the order is what those who read it go by. Words of PyTorch's (spans, events, sentences) that a hook
does not stand on are in the modules that read them.
"""

from __future__ import annotations

from coldstep.blind_spots import AUTOTUNING, BREAKS, COMPILES, PHASES, RECOMPILES, RECORDINGS, Unseen
from coldstep_collectors.names import Form, Hook

NEWEST = "2.15"
"""The newest version that coldstep was held against. Of these the names were looked at: 2.5, 2.6, 2.8, 2.9, 2.10, 2.12,
2.13, 2.14, 2.15."""

_SPANS = Unseen(
    "compile phases (this version of PyTorch announces its spans in another way)", COMPILES, RECOMPILES, BREAKS, PHASES
)
_FRAMES = Unseen(
    "which functions compile, and with what inputs (this version of PyTorch compiles in another way)",
    *(COMPILES, RECOMPILES, BREAKS),
)
_GRAPHS = Unseen("the first execution of compiled graphs (this version of PyTorch finishes its graphs in another way)")
_CUDA_GRAPHS = Unseen("the recording of CUDA graphs (this version of PyTorch does it in another way)", RECORDINGS)
_OPEN = Unseen("which dimensions and numbers a graph leaves open")
_MARKS = Unseen("the marks of mark_dynamic and its like on a tensor")
_COMPILE = "torch._dynamo.convert_frame:_compile"
_DECORATORS = "torch._dynamo.decorators"
_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"


def _hook(unseen: str | None, path: str, has: tuple[str, ...] = (), says: tuple[str, ...] = ()) -> Hook:
    """One that has had its form since 2.5; `unseen` in plain words where nothing is concluded from silence about it."""
    words = Unseen(unseen) if unseen is not None and not isinstance(unseen, Unseen) else unseen
    return Hook(words, Form(path, has, says, "2.5-"))


# --- spans ----------------------------------------------------------------------------------------------------

LOGGER = _hook(_SPANS, "torch._dynamo.utils:get_chromium_event_logger")
EVENTS = _hook(_SPANS, "torch._dynamo.utils:ChromiumEventLogger", ("_log_timed_event", "log_instant_event"))
_FORWARD = Form(_COMPILE, says=("dynamo",), versions="2.6-")
_FORWARD_AFTER_ITS_REASONS = Form(_COMPILE, says=("_compile.compile_inner", "frame_phase_timing"), versions="2.5-2.5")
FORWARD = Hook(_FRAMES, _FORWARD, _FORWARD_AFTER_ITS_REASONS)
"""Names that announce a frame's compile, first in `says`. Without it one of another name would be taken for none."""
TOLD = Hook(
    Unseen(
        "graph breaks, and compiles refused at the limit of variants (this version of PyTorch tells of neither)", BREAKS
    ),
    _FORWARD,
)
"""Where it is missing, a frame is announced only after the reasons why its earlier variants did not do."""
CONTEXT = _hook("which forward a backward that is compiled later belongs to", "torch._guards:CompileContext.try_get")
COMPILED = _hook("whether anything was compiled before the trace", "torch._dynamo.utils:compilation_time_metrics")
COUNTED = _hook(None, "torch._dynamo.utils:counters")
"""Of PyTorch's own counters that of graphs is asked at the end, whether any was made that no hook saw."""
WAITING = Hook(
    Unseen("how many kernels are waited for, and whether a C++ compiler or Triton makes them"),
    Form("torch._inductor.async_compile:AsyncCompile.wait", ("scope",), versions="2.5-"),
)

# --- the frame that Dynamo compiles ---------------------------------------------------------------------------

FRAME = _hook(_FRAMES, _COMPILE, ("code", "locals", "compile_id"))
NUMBERS = Hook(
    Unseen("when PyTorch has forgotten all that it compiled (torch.compiler.reset)", RECOMPILES),
    Form("torch._guards:CompileId", ("frame_id", "frame_compile_id"), versions="2.5-"),
)
GLOBALS = _hook("the global variables that a guard looks at", _COMPILE, ("globals",))
ONE_GRAPH = _hook("whether a function may only be one graph (fullgraph=True)", _COMPILE, ("one_graph",))
MAY_BREAK = Hook(
    Unseen("whether a graph break is an error (torch._dynamo.error_on_graph_break)"),
    Form(_COMPILE, ("convert_frame_box",), ("error_on_graph_break",), "2.9-"),
    of="torch._dynamo:error_on_graph_break",
)
SUPPRESSED = _hook("whether errors of the compiler are suppressed", "torch._dynamo.config:suppress_errors")
TRACED = Hook(
    _OPEN, Form(_COMPILE, ("tracer_output",), versions="2.9-"), Form(_COMPILE, ("output",), versions="2.5-2.8")
)
GRAPH = Hook(
    _OPEN,
    Form("torch._dynamo.output_graph:DynamoTracerOutput", ("output_graph",), versions="2.9-"),
    of="torch._dynamo.output_graph:DynamoTracerOutput",
)
SYMBOLS = _hook(_OPEN, "torch.fx.experimental.symbolic_shapes:ShapeEnv._init", says=("var_to_sources", "replacements"))
GIVEN_UP = _hook("whether PyTorch gives up a function for good", _COMPILE, ("guarded_code",))
"""The local variable holds what the compile returns: where there is a graph its guarded code, else a `SKIPPED`."""
SKIPPED = Hook(
    GIVEN_UP.unseen,
    Form("torch._dynamo.types:ConvertFrameReturn", ("skip_reason",), versions="2.13-"),
    Form("torch._dynamo.types:ConvertFrameReturn", ("frame_exec_strategy", "apply_to_code"), versions="2.8-2.12"),
)
STRATEGY = Hook(
    None,  # before, no error said what becomes of the variants that there are
    Form("torch._dynamo.exc:TorchDynamoException.__init__", says=("frame_exec_strategy",), versions="2.12-"),
)
# since 2.10 a guard's own words tell it
BACKEND = _hook(None, _COMPILE, ("compiler_fn",))
BACKEND_OPTIONS = Hook(
    None, Form("torch:_TorchCompileWrapper.__init__", says=("compiler_name", "dynamic", "compiler_fn"), versions="2.8-")
)
NAME_OPTION = Hook(None, Form("torch:_TorchCompileInductorWrapper.__init__", says=("name",), versions="2.13-"))
AUTOMATIC = _hook(None, "torch._dynamo.config:automatic_dynamic_shapes")
SIZES_OPTION = Hook(
    None,
    Form("torch:_TorchCompileWrapper.__init__", says=("dynamic",), versions="2.5-"),
    Form("torch:_TorchCompileInductorWrapper.__init__", says=("dynamic",), versions="2.5-"),
)
AHEAD = Hook(
    Unseen("compiles ahead of the calls (torch.compile(…).aot_compile)", COMPILES, RECOMPILES),
    Form("torch._dynamo.aot_compile:aot_compile_fullgraph", ("model", "example_inputs", "backend"),
         ("fullgraph_capture",), "2.9-"),
    of="torch._dynamo.aot_compile",
)  # fmt: skip
AHEAD_LOADS = Hook(
    Unseen("loads and calls of functions compiled ahead (torch.compiler.load_compiled_function)", COMPILES),
    Form("torch._dynamo.aot_compile:AOTCompiledFunction", ("deserialize", "__call__", "_artifacts"),
         versions="2.9-"),
    of="torch._dynamo.aot_compile",
)  # fmt: skip
INLINED = Hook(
    Unseen("the function behind PyTorch's own wrapper around one of a library's"),
    Form("torch._dynamo.external_utils:wrap_inline", says=("inner", "fn"), versions="2.5-"),
)
REGION = Hook(
    Unseen("whether a library's function that compiles is compiled for the program"),
    Form("torch._dynamo.eval_frame:_TorchDynamoContext.__call__", says=("fn",), versions="2.5-"),
)
STACK = Hook(
    Unseen("through which functions of one name a graph break came"),
    Form("torch._dynamo.exc:Unsupported.__init__", says=("real_stack",), versions="2.5-"),
)
# without it such an error is read as one of Dynamo's own
OF_A_BACKEND = _hook(None, "torch._dynamo.exc:BackendCompilerFailed")
# since 2.10 a break's own words tell it
LOOP = _hook(None, "torch._dynamo.symbolic_convert:InstructionTranslatorBase", ("maybe_has_backedge",))
ISOLATED = Hook(
    Unseen("which variants of a function are those of which torch.compile (isolate_recompiles)", RECOMPILES),
    Form("torch._C._dynamo.eval_frame:get_eval_frame_isolate_recompiles_id", versions="2.13-"),
    of="torch._dynamo.eval_frame:_next_isolate_recompiles_id",
)
LIMIT = Hook(
    Unseen("the limit of variants of a function"),
    Form("torch._dynamo.config:recompile_limit", versions="2.8-"),
    Form("torch._dynamo.config:cache_size_limit", versions="2.5-2.6"),
)
TF32 = _hook("the setting allow_tf32, which a guard looks at", "torch._C:_get_cublas_allow_tf32")
MODES = _hook(
    "the modes of torch functions, which a guard looks at", "torch.overrides:_get_current_function_mode_stack"
)
PLAIN = _hook("tensors of a class with a __torch_function__ of its own", "torch._C:DisableTorchFunction")
# what a forecast stands on: without one of them it says so itself
EFFECTS = _hook(None, "torch._dynamo.output_graph:OutputGraph.call_user_compiler", ("self",))
MODIFIED = _hook(None, "torch._dynamo.side_effects:SideEffects", ("_get_modified_vars",))
ENTRIES = _hook(None, "torch._C._dynamo.eval_frame:_debug_get_cache_entry_list")
GUARDS = Hook(
    None,
    Form("torch._C._dynamo.guards:RootGuardManager", ("clone_manager", "check_verbose", "get_source"),
         versions="2.9-"),
)  # fmt: skip
GUARD_ROOT = Hook(None, Form("torch._dynamo.guards:GuardManagerWrapper.__init__", says=("root",), versions="2.9-"))
SIZES_SEEN = Hook(None, Form("torch._dynamo.pgo:get_code_state", versions="2.6-"))

NESTED = Hook(
    Unseen("how often a nested_compile_region is traced (this version of PyTorch does it in another way)"),
    Form("torch._dynamo.variables.invoke_subgraph", ("InvokeSubgraphHigherOrderVariable", "stamp_out_subgraph",
                                                     "get_fn_code", "hc_log"), versions="2.13-"),
)  # fmt: skip

# what keeps Dynamo away from coldstep's own code: without it, it compiles some
SKIPPED_FILES = _hook(None, "torch._dynamo.trace_rules", ("add", "get_mod_inlinelist"))
SWITCH = _hook(None, "torch._C._dynamo.eval_frame:set_eval_frame")

RESULT = Hook(
    Unseen("which tensors a compiled function has returned"),
    Form(f"{_WRAPPERS}:_AOTDispatchAutogradFunctionFactory.build", says=("CompiledFunction",), versions="2.12-"),
    Form(f"{_WRAPPERS}:AOTDispatchAutograd.post_compile", says=("CompiledFunction",), versions="2.5-2.10"),
)  # fmt: skip
DYNAMIC = _hook(_MARKS, f"{_DECORATORS}:mark_dynamic", says=("_dynamo_dynamic_indices",))
MAYBE_DYNAMIC = _hook(_MARKS, f"{_DECORATORS}:maybe_mark_dynamic", says=("_dynamo_weak_dynamic_indices",))
UNBACKED = _hook(_MARKS, f"{_DECORATORS}:mark_unbacked", says=("_dynamo_unbacked_indices",))
STATIC = _hook(_MARKS, f"{_DECORATORS}:mark_static", says=("_dynamo_static_indices",))

# --- structured trace -----------------------------------------------------------------------------------------

RECORDS = Hook(
    Unseen("graph breaks and guard failures (this version of PyTorch has no structured trace)", BREAKS),
    Form("torch._logging._internal:trace_log", versions="2.5-"),
)
# a handler among others sees the same, and has everything rendered for it
EMITTER = _hook(None, "torch._logging._internal:trace_structured", ("name", "metadata_fn"), says=("handlers",))

# --- Inductor -------------------------------------------------------------------------------------------------

COMPILED_GRAPH = Hook(
    _GRAPHS,
    Form("torch._inductor.output_code:CompiledFxGraph", ("post_compile", "current_callable", "fx_kwargs"),
         versions="2.6-"),
)  # fmt: skip
CUDA_GRAPH_RUNS = _hook(
    _CUDA_GRAPHS, "torch._inductor.cudagraph_trees:CUDAGraphTreeManager", ("run_eager", "record_function")
)
CUDA_GRAPH_IDS = Hook(
    _CUDA_GRAPHS,
    Form("torch._inductor.cudagraph_trees:CUDAGraphTreeManager.__init__", says=("id_to_mode", "id_to_compile_id"),
         versions="2.8-"),
)  # fmt: skip
_CACHES = Unseen("whether the caches on disk are turned off")
_INDUCTOR_CONFIG, _AUTOGRAD_CONFIG = "torch._inductor.config", "torch._functorch.config"
NO_CACHES = _hook(_CACHES, f"{_INDUCTOR_CONFIG}:force_disable_caches")
FX_CACHE = _hook(_CACHES, f"{_INDUCTOR_CONFIG}:fx_graph_cache")
AOT_CACHE = _hook(_CACHES, f"{_AUTOGRAD_CONFIG}:enable_autograd_cache")
_STORES = Unseen("what PyTorch's caches on disk stored, and why not (this version of PyTorch does it in another way)")
_INDUCTOR_CACHE, _AUTOGRAD_CACHE = "torch._inductor.codecache", "torch._functorch._aot_autograd.autograd_cache"
GRAPH_STORE = Hook(
    _STORES, Form(f"{_INDUCTOR_CACHE}:FxGraphCache", ("_save_graph", "_write_to_local_cache"), versions="2.9-")
)
GRAPH_LOOKUP = Hook(
    None,  # without it, an entry that could not be loaded is a miss
    Form(f"{_INDUCTOR_CACHE}:FxGraphCache", ("find_guarded_entry", "_get_tmp_dir_for_key"), versions="2.13-"),
)
AUTOGRAD_STORE = Hook(
    _STORES, Form(f"{_AUTOGRAD_CACHE}:AOTAutogradCache", ("save", "_write_to_local_cache"), versions="2.9-")
)
AUTOGRAD_KEY = Hook(
    Unseen("what the keys of AOTAutograd's cache are made of (this version of PyTorch makes them in another way)"),
    Form(f"{_AUTOGRAD_CACHE}:_get_debug_lines_for_cache_key", versions="2.13-"),
    Form(f"{_AUTOGRAD_CACHE}:autograd_cache_key", says=("debug_lines",), versions="2.9-2.12"),
)
"""In its older form it reports the components with its answer, as Inductor does."""
KERNELS = Hook(
    Unseen("which C++ kernels had been built already (this version of PyTorch writes them in another way)"),
    Form(f"{_INDUCTOR_CACHE}:write", versions="2.9-"),
)

# --- the profiler ---------------------------------------------------------------------------------------------

_PROFILER = Unseen("operators and kernels (this version of PyTorch has another profiler)")
PROFILER = Hook(
    _PROFILER,
    Form("torch.autograd.profiler", ("profile", "record_function", "_is_profiler_enabled", "_supported_activities",
                                     "_prepare_profiler", "_enable_profiler"), versions="2.5-"),
)  # fmt: skip
PROFILE = _hook(_PROFILER, "torch.autograd.profiler:profile", ("_prepare_trace", "_start_trace"))
EVENT = Hook(_PROFILER, Form("torch._C._autograd:_KinetoEvent", ("activity_type",), versions="2.12-"))
# set where a span has ended; without it, none is known to have
ENDED = Hook(None, Form("torch._C._autograd:_KinetoEvent", ("end_thread_id",), versions="2.12-"))
TOGGLE = Hook(None, Form("torch._C._autograd:_toggle_collection_dynamic", versions="2.12-"))
# record_function is seen, too, but looks up two operators when it is first used, which takes a millisecond
MARKER = Hook(None, Form("torch._C._profiler:_RecordFunctionFast", versions="2.3-"))

TUNER = _hook(
    Unseen("the choices of autotuning (this version of PyTorch announces them in another way)", AUTOTUNING),
    "torch._inductor.select_algorithm:AlgorithmSelectorCache",
    ("add_feedback_saver", "__call__"),
)

# --- who looks for which, and when ----------------------------------------------------------------------------

DYNAMO = {
    "torch": (EMITTER, TF32, MODES, PLAIN),
    "torch._dynamo": (
        *(FORWARD, TOLD, FRAME, CONTEXT, NUMBERS, GLOBALS, ONE_GRAPH, MAY_BREAK, SUPPRESSED, TRACED, GRAPH, SYMBOLS),
        *(GIVEN_UP, SKIPPED, STRATEGY, INLINED, REGION, STACK, ISOLATED, LIMIT, RESULT),
        *(DYNAMIC, MAYBE_DYNAMIC, UNBACKED, STATIC),
    ),
    "torch._dynamo.aot_compile": (AHEAD, AHEAD_LOADS),
    "torch._dynamo.variables.invoke_subgraph": (NESTED,),
    _INDUCTOR_CONFIG: (NO_CACHES, FX_CACHE),
    _AUTOGRAD_CONFIG: (AOT_CACHE,),
    _INDUCTOR_CACHE: (GRAPH_STORE, KERNELS),
    _AUTOGRAD_CACHE: (AUTOGRAD_STORE, AUTOGRAD_KEY),
}
"""The hooks of the collector `dynamo`, by the import that they are there after; `Spans` and `Artifacts` look for their
own."""
INDUCTOR = {
    "torch._inductor.select_algorithm": (TUNER,),
    "torch._inductor.compile_fx": (COMPILED_GRAPH, WAITING),
    "torch._inductor.cudagraph_trees": (CUDA_GRAPH_RUNS, CUDA_GRAPH_IDS),
}
"""Those of `inductor`."""
KINETO = (PROFILER, PROFILE, EVENT)
"""Those of `kineto`."""
