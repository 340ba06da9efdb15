"""The names of TensorFlow's private modules, as data: the wrapped functions, and the blind spot without each."""

from __future__ import annotations

from coldstep.blind_spots import COMPILES, PHASES, RECOMPILES, Unseen
from coldstep_collectors.names import Form, Hook

_FUNCTIONS = "tensorflow.python.eager.polymorphic_function"
_TRACING = f"{_FUNCTIONS}.tracing_compilation"
_CONTEXT = "tensorflow.python.eager.context"
_NEWEST = "2.21-"


def _hook(unseen: str | None, path: str, *has: str) -> Hook:
    return Hook(unseen, Form(path, has, versions=_NEWEST))


TRACE = _hook(
    Unseen("what functions are traced", COMPILES, RECOMPILES, PHASES),
    f"{_TRACING}:_create_concrete_function",
    *("function_type", "type_context", "func_graph", "tracing_options"),
)
LOOK_UP = _hook(
    Unseen("under what a function was called, beside its arguments"),
    f"{_TRACING}:_maybe_define_function",
    *("lookup_func_type", "current_func_context", "tracing_options"),
)
CALL = _hook(
    Unseen("the first call of a graph, and XLA's compiles below it", COMPILES, RECOMPILES, PHASES),
    f"{_CONTEXT}:Context.call_function",
    *("name", "tensor_inputs", "num_outputs"),
)
VARIABLES = _hook(
    Unseen("the making of variables in a function's first call", PHASES),
    f"{_FUNCTIONS}.polymorphic_function:Function._initialize_uninitialized_variables",
    "initializers",
)
GRADIENTS = _hook(
    Unseen("the making of gradient functions", PHASES),
    f"{_FUNCTIONS}.concrete_function:_TapeGradientFunctions._build_functions_for_outputs",
    *("outputs", "inference_args", "input_tangents"),
)
AUTOGRAPH = _hook(
    Unseen("AutoGraph's share of a trace", PHASES),
    "tensorflow.python.autograph.pyct.transpiler:PyToPy.transform_function",
    *("fn", "user_context"),
)
START = _hook(Unseen("the start of devices", PHASES), f"{_CONTEXT}:Context.ensure_initialized")
LITERAL = _hook(
    Unseen("numbers that are taken for equal ones of another type"),
    "tensorflow.core.function.trace_type.default_types:Literal.__eq__",
    "other",
)
STARTED = _hook(None, f"{_CONTEXT}:context_safe")
TRACED = _hook(
    Unseen("which functions had been traced before the trace", RECOMPILES), f"{_TRACING}:_graph_building_time_counter"
)
SAVED = "tensorflow.python.saved_model.function_deserialization"
"""Where the functions stand that call what a saved model brought: closures over the names of its graphs."""
SAVED_HELPERS = ("_creator", "_initializer", "_destroyer")
"""What it calls, by its own names, to make and free what such a model holds: tables, and other resources."""
COMPILER_IR = _hook(None, f"{_FUNCTIONS}.compiler_ir:from_concrete_function", "concrete_fn")
_TYPES = f"{_FUNCTIONS}.function_type_utils"
# what a forecast stands on: without one of them it says so itself
CANONICAL = _hook(None, f"{_TYPES}:canonicalize_function_inputs")
TYPE_OF_CALL = _hook(None, f"{_TYPES}:make_canonicalized_monomorphic_type")
CONTEXT_OF_CALL = _hook(None, f"{_FUNCTIONS}.function_context:make_function_context")
CACHE = _hook(
    None, "tensorflow.core.function.polymorphism.function_cache:FunctionCache", *("lookup", "generalize", "add")
)

HOOKS = (TRACE, LOOK_UP, CALL, VARIABLES, GRADIENTS, AUTOGRAPH, START, LITERAL, TRACED)
"""Those that every trace needs."""
NEWEST = "2.21"
"""The newest version that coldstep was held against, and the only one that was looked at."""
