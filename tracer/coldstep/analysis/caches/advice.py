"""What to change so that a further process loads what was compiled: by the reason, or by what the keys differ in."""

from __future__ import annotations

from collections.abc import Iterable

from coldstep.analysis.caches.keys import CACHE_FOLDER

_JAX, _TORCH_XLA = "xla.persistent", "torch_xla.persistent"
_INITIALIZE = "call torch_xla.runtime.initialize_cache before anything is compiled"
_BY_REASON = {
    "not_first_process": "let process 0 run first, or give all processes one directory",
    "corrupt": "delete the entry",
    "full": "free the disk",
    "read_only": "make the directory writable to the process that compiles",
    "no_backward": "run one backward where the cache is filled: until then its graph is never stored",
    "evicted": "give both runs one directory, and it more room",
}
_BY_LAYER = {
    (_JAX, "threshold"): "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 stores every program",
    (_JAX, "late"): "set jax_compilation_cache_dir before the first compile, in the environment: "
    "JAX_COMPILATION_CACHE_DIR",
    (_JAX, "disabled"): "set JAX_COMPILATION_CACHE_DIR, and leave jax_enable_compilation_cache on from the start",
    (_JAX, "host_callback"): "take jax.debug.print and callbacks out of what is to be stored",
    (_JAX, "full"): "raise jax_compilation_cache_max_size, or free the disk",
    (_TORCH_XLA, "late"): _INITIALIZE,
    (_TORCH_XLA, "disabled"): _INITIALIZE,
    (_TORCH_XLA, "read_only"): "leave readonly=True to processes that find the cache filled",
}
_BY_COMPONENT = {
    f"compile_options.{CACHE_FOLDER}": "keep the directory at one path, or set "
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none",
    "XLA flags": "give all processes the same XLA_FLAGS, LIBTPU_INIT_ARGS and --xla… arguments",
    "compression": "install zstandard everywhere, or nowhere",
    "cpp_runtime_thread_count": "give all processes the same number of threads: OMP_NUM_THREADS, torch.set_num_threads",
    "torch_version": "give all processes the same build of torch",
    "jax_lib version": "give all processes the same jaxlib",
    "mat_mul_precision": "give each precision a folder of its own",
}


def advice(layer: str, why: str | None, components: Iterable[str] = ()) -> str:
    """For a layer's reason (one of `vocabulary.UNWRITTEN`), or the names of the components that differ; "" where there
    is nothing to say."""
    known = _BY_LAYER.get((layer, why or "")) or _BY_REASON.get(why or "")
    return known or next((_BY_COMPONENT[name] for name in components if name in _BY_COMPONENT), "")
