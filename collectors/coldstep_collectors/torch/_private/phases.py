"""The spans that PyTorch's compiler announces, by name: what phase of the ledger and what part of a compile each is."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.torch._private import names

BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler")

_GENERATES = {"fx_codegen_and_compile", "GraphLowering.compile_to_fn"}  # the latter before PyTorch 2.5
WAIT, LOAD = "async_compile.wait", "PyCodeCache.load_by_key_path"
AHEAD, AHEAD_LOAD = "fullgraph_capture", "AOTCompiledFunction.deserialize"
"""The span of a compile ahead of the calls; and ours around a load of that, of which PyTorch announces none."""
CUDA_GRAPHS = "inductor.cudagraphs"
"""The phase in which a compiled graph is not run but recorded, to be replayed from then on, or that is prepared."""
_NAMES = {
    "dynamo.trace": ("dynamo", "_compile.compile_inner", "bytecode_tracing", AHEAD),
    "dynamo.guards": ("build_guards",),
    "gc": ("gc",),
    "aot.joint": ("create_aot_dispatcher_function", "aot_collect_metadata", "aot_trace_joint_graph"),
    "aot.partition": ("min_cut_rematerialization_partition",),
    "aot.backward": ("entire_backward_compile",),
    "inductor.passes": (
        *("_recursive_pre_grad_passes", "_recursive_joint_graph_passes", "_recursive_post_grad_passes"),
        "additional_fake_tensor_prop",
    ),
    "inductor.lowering": (
        *("compile_fx.<locals>.fw_compiler_base", "compile_fx.<locals>.bw_compiler", "inductor_compile"),
        *("fx_codegen_and_compile", "GraphLowering.run"),
    ),
    "inductor.codegen": (
        *("GraphLowering.compile_to_fn", "code_gen", "GraphLowering.codegen", "GraphLowering.codegen_subgraph"),
        *("Scheduler.__init__", "Scheduler.fused_nodes", "Scheduler.codegen", "WrapperCodeGen.generate"),
        *("PythonWrapperCodegen.generate", "CppWrapperCpu.generate", "CppWrapperGpu.generate"),
    ),
    "inductor.cpp": ("compile_file", "AotCodeCompiler.compile", "aoti_precompile_header"),
    "inductor.triton": (
        *("async_compile.precompile", "reload_kernel_in_parent", "StaticAutotunerFuture.warm_precompile"),
        *("benchmark_fused_nodes", "benchmark_codegened_module"),
    ),
    "inductor.cache": (
        *(AHEAD_LOAD, LOAD),  # of the latter, but in what compiles: see `phase_of`
        *("inductor_codecache_torch_key", "CacheBase.get_system.triton_key", "AOTAutogradCache.inductor_load"),
        *("CompiledArtifact.load", "CompiledArtifact.save", "TritonBundler.collect", "TritonBundler.read_and_emit"),
        "TritonBundler.load_cached_static_autotuners",
    ),
    CUDA_GRAPHS: ("cudagraphify.get_container", "CUDAGraphNode.record"),
}
_PHASES = {name: phase for phase, names_of_spans in _NAMES.items() for name in names_of_spans}
_PREFIXES = {
    "inductor.passes": ("pass.", "fx.bucketing."),
    "inductor.triton": ("CachingAutotuner.", "CUTLASSGemmTemplate."),
}
_TUNES = ("_template_autotuning", "_template_precompiling")
_BUILDS = ("inductor.cpp", "inductor.triton")


def phase_of(name: str, enclosing: Collection[str]) -> str | None:
    """The ledger's phase for a span, by its name and those of the spans that are open; None for a span that is not
    known: its time stays with what encloses it. A generated module is loaded as it is made, and from the cache. While
    choices are compiled and timed, all is autotuning."""
    if _tunes(name) or any(map(_tunes, enclosing)):
        return AUTOTUNE
    return _own_phase(name, enclosing)


def compiles_a_choice(name: str, enclosing: Collection[str]) -> bool:
    """Whether a span is the compiling in an autotuning, and not the timing."""
    if name.endswith(_TUNES):
        return name.endswith(_TUNES[1])
    return any(map(_tunes, enclosing)) and _own_phase(name, enclosing) in _BUILDS


@lru_cache(maxsize=1024)
def _tunes(name: str) -> bool:
    return name.endswith(_TUNES)


def times_choices(name: str) -> bool:
    """Whether a span is the timing of an operation's choices."""
    return name.endswith(_TUNES[0])


def _own_phase(name: str, enclosing: Collection[str]) -> str | None:
    phase = _PHASES.get(name) if name != LOAD or _GENERATES.isdisjoint(enclosing) else "inductor.codegen"
    return _of_prefix(name) if phase is None else phase


@lru_cache(maxsize=1024)
def _of_prefix(name: str) -> str | None:
    return next((each for each, prefixes in _PREFIXES.items() if name.startswith(prefixes)), None)


def part_of(name: str, forward: str = names.FORWARD.forms[0].says[0]) -> str | None:
    """Which part of a compile a span is: forward, of the name that this version has for it, backward, attempt (of a
    restart), ahead (of its calls), load (of a function compiled ahead), or None."""
    if name == forward:
        return "forward"
    if name in (AHEAD, AHEAD_LOAD):
        return "ahead" if name == AHEAD else "load"
    if name in BACKWARD:
        return "backward"
    attempt = name.removeprefix("compile_attempt_")  # PyTorch 2.13: "compile_attempt_0" is the first
    return "attempt" if attempt != name and attempt.isdecimal() and attempt[0] != "0" else None
