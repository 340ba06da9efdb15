"""The spans that PyTorch's compiler announces, by name: what phase of the ledger and what part of a compile each is."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from coldstep._util.expressions import expression
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.torch._private import names

BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler")
# PyTorch 2.13: "compile_attempt_1"
_RESTART = expression(r"compile_attempt_[1-9]\d*")

_GENERATES = {"fx_codegen_and_compile", "GraphLowering.compile_to_fn"}  # the latter before PyTorch 2.5
WAIT, LOAD = "async_compile.wait", "PyCodeCache.load_by_key_path"
AHEAD, AHEAD_LOAD = "fullgraph_capture", "AOTCompiledFunction.deserialize"
"""The span of a compile ahead of the calls; and ours around a load of that, of which PyTorch announces none."""
CUDA_GRAPHS = "inductor.cudagraphs"
"""The phase in which a compiled graph is not run but recorded, to be replayed from then on, or that is prepared."""
_PHASES = {
    "dynamo": "dynamo.trace",
    "_compile.compile_inner": "dynamo.trace",
    "bytecode_tracing": "dynamo.trace",
    AHEAD: "dynamo.trace",
    AHEAD_LOAD: "inductor.cache",
    "build_guards": "dynamo.guards",
    "gc": "gc",
    "create_aot_dispatcher_function": "aot.joint",
    "aot_collect_metadata": "aot.joint",
    "aot_trace_joint_graph": "aot.joint",
    "min_cut_rematerialization_partition": "aot.partition",
    "entire_backward_compile": "aot.backward",
    "_recursive_pre_grad_passes": "inductor.passes",
    "_recursive_joint_graph_passes": "inductor.passes",
    "_recursive_post_grad_passes": "inductor.passes",
    "additional_fake_tensor_prop": "inductor.passes",
    "compile_fx.<locals>.fw_compiler_base": "inductor.lowering",
    "compile_fx.<locals>.bw_compiler": "inductor.lowering",
    "inductor_compile": "inductor.lowering",
    "fx_codegen_and_compile": "inductor.lowering",
    "GraphLowering.run": "inductor.lowering",
    "GraphLowering.compile_to_fn": "inductor.codegen",
    "code_gen": "inductor.codegen",
    "GraphLowering.codegen": "inductor.codegen",
    "GraphLowering.codegen_subgraph": "inductor.codegen",
    "Scheduler.__init__": "inductor.codegen",
    "Scheduler.fused_nodes": "inductor.codegen",
    "Scheduler.codegen": "inductor.codegen",
    "PythonWrapperCodegen.generate": "inductor.codegen",
    "WrapperCodeGen.generate": "inductor.codegen",
    LOAD: "inductor.cache",  # but in what compiles: see `phase_of`
    "CppWrapperCpu.generate": "inductor.codegen",
    "CppWrapperGpu.generate": "inductor.codegen",
    "compile_file": "inductor.cpp",
    "AotCodeCompiler.compile": "inductor.cpp",
    "aoti_precompile_header": "inductor.cpp",
    "async_compile.precompile": "inductor.triton",
    "reload_kernel_in_parent": "inductor.triton",
    "StaticAutotunerFuture.warm_precompile": "inductor.triton",
    "benchmark_fused_nodes": "inductor.triton",
    "benchmark_codegened_module": "inductor.triton",
    "inductor_codecache_torch_key": "inductor.cache",
    "CacheBase.get_system.triton_key": "inductor.cache",
    "AOTAutogradCache.inductor_load": "inductor.cache",
    "CompiledArtifact.load": "inductor.cache",
    "CompiledArtifact.save": "inductor.cache",
    "TritonBundler.collect": "inductor.cache",
    "TritonBundler.read_and_emit": "inductor.cache",
    "TritonBundler.load_cached_static_autotuners": "inductor.cache",
    "cudagraphify.get_container": CUDA_GRAPHS,
    "CUDAGraphNode.record": CUDA_GRAPHS,
}
_PHASE_PREFIXES = {
    "pass.": "inductor.passes",
    "fx.bucketing.": "inductor.passes",
    "CachingAutotuner.": "inductor.triton",
    "CUTLASSGemmTemplate.": "inductor.triton",
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
    return next((named for prefix, named in _PHASE_PREFIXES.items() if name.startswith(prefix)), None)


def part_of(name: str, forward: str = names.FORWARD.forms[0].says[0]) -> str | None:
    """Which part of a compile a span is: forward, of the name that this version has for it, backward, attempt (of a
    restart), ahead (of its calls), load (of a function compiled ahead), or None."""
    if name == forward:
        return "forward"
    if name in (AHEAD, AHEAD_LOAD):
        return "ahead" if name == AHEAD else "load"
    if name in BACKWARD:
        return "backward"
    return "attempt" if name.startswith("compile_attempt_") and _RESTART.fullmatch(name) else None
