"""What to change so that a further process loads what was compiled: by the reason, or by what the keys differ in."""

from __future__ import annotations

from collections.abc import Iterable

from coldstep.analysis.cache_keys import CACHE_FOLDER

_BY_REASON = {
    "threshold": "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 stores every program",
    "late": "set jax_compilation_cache_dir before the first compile, in the environment: JAX_COMPILATION_CACHE_DIR",
    "disabled": "JAX: set JAX_COMPILATION_CACHE_DIR, and leave jax_enable_compilation_cache on from the start",
    "host_callback": "take jax.debug.print and callbacks out of what is to be stored",
    "not_first_process": "let process 0 run first, or give all processes one directory",
    "corrupt": "delete the entry",
    "full": "raise jax_compilation_cache_max_size, or free the disk",
    "read_only": "make the directory writable to the process that compiles",
    "no_backward": "run one backward where the cache is filled: until then its graph is never stored",
    "evicted": "give both runs one directory, and it more room",
}
_BY_COMPONENT = {
    f"compile_options.{CACHE_FOLDER}": "keep the directory at one path, or set "
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none",
    "XLA flags": "give all processes the same XLA_FLAGS, LIBTPU_INIT_ARGS and --xla… arguments",
    "compression": "install zstandard everywhere, or nowhere",
    "cpp_runtime_thread_count": "give all processes the same number of threads: OMP_NUM_THREADS, torch.set_num_threads",
    "torch_version": "give all processes the same build of torch",
    "jax_lib version": "give all processes the same jaxlib",
}


def advice(why: str | None, components: Iterable[str] = ()) -> str:
    """For a reason (one of `vocabulary.UNWRITTEN`), or the names of the components that differ; "" where there is
    nothing to say."""
    if why in _BY_REASON:
        return _BY_REASON[why]
    return next((_BY_COMPONENT[name] for name in components if name in _BY_COMPONENT), "")
