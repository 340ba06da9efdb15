"""Calls each of our functions that reads a frame's local variables, with a frame as its framework has it, without one.

`test_frames.py` runs this on every Python: since 3.13 `f_locals` is no dict. It prints what each returned, and which of
our functions ran.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

from coldstep import errors, places
from coldstep_collectors import names
from coldstep_collectors.jax._private import calls as jax_calls
from coldstep_collectors.jax._private import hooks as jax
from coldstep_collectors.jax._private import names as jax_names
from coldstep_collectors.steps._private import trainers
from coldstep_collectors.steps.transformed import Transformed
from coldstep_collectors.tensorflow import describe as tensorflow_functions
from coldstep_collectors.tensorflow._private import hooks as tensorflow
from coldstep_collectors.torch._private import artifacts, breaks, calls, frames
from coldstep_collectors.torch_xla._private import hooks as torch_xla

READERS: dict[str, Any] = {}


def reader(function: Any) -> Any:
    READERS[function.__name__] = function
    return function


def of(file: str, source: str, **known: Any) -> ModuleType:
    """A module of a framework's: what it calls `read` is ours, and has the frame that called it."""
    name = file.removesuffix(".py").replace("/", ".")
    module = sys.modules[name] = ModuleType(name)
    module.__dict__.update(known, __file__=file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def raised(error: Exception) -> None:
    raise error


@reader
def a_functions_variables() -> Any:
    def program(x: int) -> Any:
        y = x + 1
        return places.variables(sys._getframe()), y

    return program(1)[0]


@reader
def a_signals_handler() -> Any:
    def handler(number: int, frame: Any) -> None:
        raise KeyError(number)

    signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    except KeyError as error:
        return errors.interrupts(error)


@reader
def a_hook() -> Any:
    hook = names.Hook(None, names.Form("m:f", ("newer",)), names.Form("m:f", ("older",)))

    def program(older: int) -> Any:
        return hook.local(sys._getframe())

    return program(7)


class Jax(jax.Internals):
    """As it is where JAX's modules have the two functions below."""

    def __init__(self, pjit: ModuleType, pxla: ModuleType) -> None:
        self._pjit_file, self._pxla_file, self._jax_files = pjit.__file__, pxla.__file__, "jax/"
        self.facts = {"program", "function", "executable", "lowering", "dispatch"}
        self._calls, self._compilation = jax_names.Names(None, ()), jax_names.Names(None, ())
        self._calls.at["cache_miss"] = [("function", ("fun", "jit_info", "args", "kwargs"))]
        self._compilation.file = pxla.__file__
        self._compilation.at["_cached_compilation"] = [("executable", ("xla_executable",))]
        self._rules = {}


@reader
def a_compilation_of_jaxs() -> Any:
    pxla = of(
        "jax/_src/interpreters/pxla.py",
        "def from_hlo(read, committed=True): return _cached_compilation(read)\n"
        "def _cached_compilation(read, computation='hlo', da=('cpu:0',), compiler_options_kvs=(), xla_executable=8):\n"
        "    return read()\n",
    )
    debug = SimpleNamespace(result_paths=("result[0]",))
    program = SimpleNamespace(eqns=[SimpleNamespace(params={})], out_avals=["f32[]"], effects=(), debug_info=debug)
    pjit = of(
        "jax/_src/pjit.py",
        "def cache_miss(read, *args, **kwargs):\n"
        "    fun, jit_info = 'train', None\n"
        "    return _pjit_call_impl_python(read)\n"
        "def _pjit_call_impl_python(read):\n"
        "    jaxpr = program\n"
        "    return from_hlo(read)\n",
        from_hlo=pxla.from_hlo,
        program=program,
    )
    internals = Jax(pjit, pxla)

    def read() -> Any:
        frame = sys._getframe(1)
        dispatch, results = internals.dispatch(frame), internals.results(frame)
        internals.read(dispatch)
        made = internals._made(frame, internals._compilation, "executable")
        assert results is not None
        operations = jax.operations(internals.jaxpr(frame))
        return dispatch.function, dispatch.program, dispatch.devices, results.paths, operations, made

    return pjit.cache_miss(read, 1)


@reader
def a_slow_call_of_jaxs() -> Any:
    gradient = SimpleNamespace(source_info=SimpleNamespace(name_stack="transpose(jvp(f))"), params={})

    def cache_miss(*args: Any, **kwargs: Any) -> Any:
        fun, outs, jaxpr = "train", [0.5], SimpleNamespace(eqns=[gradient])
        frame = sys._getframe()
        return jax_calls.called(frame), jax_calls.computes_gradients(frame), fun, outs, jaxpr

    return cache_miss(1, scale=2)[:2]


@reader
def a_transforms_call_of_jaxs() -> Any:
    ours = type("BatchTrace", (), {"parent_trace": type("EvalTrace", (), {})()})()
    of("jax/_src/core.py", "", trace_ctx=SimpleNamespace(trace=ours))
    sites: Any = SimpleNamespace(is_users=lambda file: True, users_frame=lambda frame: frame, awake=lambda: True)
    watcher = Transformed(sites, raised)

    def train(x: int) -> None: ...

    def cache_miss(fun: Any) -> None:
        watcher._ended(sys._getframe())

    for _ in range(2):
        cache_miss(train)
    return [(line.function.rpartition(".")[2], line.transform, line.calls) for line in watcher._lines.values()]


@reader
def a_look_up_of_tensorflows() -> Any:
    [form] = tensorflow.names.LOOK_UP.forms
    module = of(
        form.file,
        f"def {form.name}(read, options):\n"
        "    lookup_func_type, current_func_context, tracing_options = 'type', 'context', options\n"
        "    return read()\n",
    )
    cache = SimpleNamespace(lookup=lambda *asked: asked)
    return getattr(module, form.name)(
        lambda: tensorflow.lookup(sys._getframe()), SimpleNamespace(function_cache=cache)
    )[1:]


@reader
def a_librarys_method() -> Any:
    class Layer:
        def call(self) -> Any:
            return tensorflow_functions.running(sys._getframe())

    return Layer().call()[1]


@reader
def keras_loop() -> Any:
    def fit(self: Any, begin_step: int, end_step: int) -> Any:
        adapter = SimpleNamespace(batch_size=32, partial_batch_size=5, num_batches=4)
        epoch_iterator = SimpleNamespace(data_adapter=adapter, steps_per_epoch=None)
        return trainers.rows_of_keras_batch(sys._getframe(), None), epoch_iterator

    return [fit(None, step, step)[0] for step in (0, 3)]


@reader
def torch_xlas_compile() -> Any:
    module = of(
        "torch_xla/torch_xla.py",
        "def inner(read, func): return leaving(read)\n"
        "def leaving(read): return _compile(read)\n"
        "def _compile(read): return sync(read)\n"
        "def sync(read): return read()\n",
    )
    internals: Any = SimpleNamespace(_folder="torch_xla/")
    return module.inner(lambda: torch_xla.Internals.syncing(internals, sys._getframe(1)).function, "train")


@reader
def an_event_of_torchs() -> Any:
    wanted = []
    ours: Any = SimpleNamespace(wants=lambda *event: wanted.append(event) or True)
    module = of("torch/_logging.py", "def emit(name, metadata, handlers): return bool(handlers)")
    handlers = artifacts._Selective(ours, names.Form("torch._logging:emit", ("name", "metadata")), [])
    return module.emit("graph", {"id": 1}, handlers), wanted


@reader
def what_torch_compile_was_given() -> Any:
    [form] = frames.names.REGION.forms
    module = of(
        form.file,
        "class _TorchDynamoContext:\n"
        "    def __call__(self, fn):\n"
        "        def compile_wrapper(): return fn()\n"
        "        return compile_wrapper\n",
    )

    def train() -> Any:
        compiling: Any = SimpleNamespace(caller=sys._getframe(1))
        return frames.region(compiling)[0] is train, calls.compiled(sys._getframe(1)) is train

    return module._TorchDynamoContext()(train)()


@reader
def a_call_of_what_torch_compile_returned() -> Any:
    entered: list[Any] = []
    module = of("torch/eval_frame.py", "def install_generation_tagging_init(): pass")
    patch = calls._around_entering(module, entered.append, [])

    class Context:
        enter_exit_hooks = ()

        def call(self) -> None:
            module.install_generation_tagging_init()
            assert not self.enter_exit_hooks

    context = Context()
    context.call()
    assert patch is not None
    patch.undo()
    return entered == [context]


@reader
def a_graph_break_in_a_loop() -> Any:
    [form] = breaks.names.LOOP.forms
    module = of(
        form.file,
        "class Translator:\n"
        "    def maybe_has_backedge(self): return True\n"
        "    def step(self, read): return read() and self.maybe_has_backedge()\n",
    )
    return module.Translator().step(breaks.gives_up_frame)


@reader
def an_optimizers_step() -> Any:
    seen: list[str] = []
    profiler = of(
        "torch/autograd/profiler.py",
        "class record_function:\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, kind, value, traceback): pass\n",
    )
    module = of(
        "torch/optim/optimizer.py",
        "class Optimizer:\n"
        "    def profile_hook_step(func):\n"
        "        def wrapper(*args, **kwargs):\n"
        "            self, *_ = args\n"
        "            with torch.record_function():\n"
        "                return func(*args, **kwargs)\n"
        "        return wrapper\n",
        torch=profiler,
    )
    torch = SimpleNamespace(compiler=SimpleNamespace(is_compiling=lambda: False))
    optimizer = module.Optimizer()

    def begins(given: Any, frame: Any) -> bool:
        seen.append("begins" if given is optimizer else "another")
        return True

    patches = [*calls.around_optimizer_steps(torch, begins, lambda _: seen.append("ends"), [])]
    module.Optimizer.profile_hook_step(lambda _: None)(optimizer)
    for patch in patches:
        patch.undo()
    return seen


def main() -> None:
    top = Path(places.__file__).parents[2]
    ran: set[CodeType] = set()
    sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)
    returned = {name: read() for name, read in READERS.items()}
    sys.setprofile(None)
    ours = {code for code in ran if code.co_filename.startswith(str(top))}
    print(json.dumps([returned, sorted(f"{Path(code.co_filename).name}:{code.co_qualname}" for code in ours)]))


if __name__ == "__main__":
    main()
