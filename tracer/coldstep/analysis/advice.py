"""What to change about a recompile, per cause and stack: a concrete line, never a link. Of graph breaks: `breaks`."""

from __future__ import annotations

import re
from collections.abc import Callable

from coldstep._util.figures import listed
from coldstep.analysis.patterns import differing, dims, is_number, is_zero_or_one
from coldstep.context import run_of_its_cell
from coldstep.model import Recompile, Trace

_MAX_ARGUMENTS = 3  # that are named
_LAST_BATCH = (
    "pad the last batch to the size of the others, with a mask (unmasked padding changes the results), or drop it "
    "({drop}), which leaves its rows out"
)
_SMALLER = (
    "pad {arguments} to one size, or drop the last batch where this is that of an epoch ({drop}), which leaves its "
    "rows out; mask what is padding"
)
_ONE_SIZE = "pad {arguments} to one size, or to a few (powers of two), and mask what is padding"

READ_AFTER_SYNC = "Read values after torch_xla.sync(), not before: each read compiles and runs what is pending."
_TWO_MODES = (
    "Two modes are two variants, and both are kept: going back compiles nothing. Call both once before you measure."
)

_JITTED_ONCE = " jit the function once, outside the loop: a function made anew is compiled again, whatever it holds."

_NEEDED = (
    "Where range(), a slice or a shape needs the number, a tensor would break the graph: keep its values few there."
)

_ADVICE = {
    "jax": {
        "shape": "JAX compiles once for each shape: {fixed}.",
        "weak_type": "Give {argument} a strong type from the start: jnp.float32(…) of its value instead of a Python "
        "number or jnp.asarray(…).",
        "type": "Pass {argument} in its final form at the first call: zeros of the right shapes instead of None.",
        "sharding": "Put {argument} where it belongs once, before the loop: jax.device_put((params, state), sharding).",
        "device": "Keep {argument} on one device: jax.device_put({argument}, device) once, before the loop.",
        "committed": "Commit everything once before the loop, jax.device_put((params, state), device), or nothing: "
        "{argument} was uncommitted in one call and committed in another.",
        "donation": "Call one jitted function with one donate_argnums: this compiles the same code with two.",
        "static_argument": "Each value of {argument} is compiled in: keep them few, and give objects __eq__ and "
        "__hash__ by content, or each new one is another value.",
        "pytree": "Give {argument} the same structure (keys, lengths, node types) at every call.",
        "keyword": "Pass {argument} in every call or in none, and always by position or always by keyword.",
        "config": "Set {argument} once, before the first call: every value of it compiles again.",
        "closure": "Pass {argument} as an argument instead of closing over it, and" + _JITTED_ONCE,
        "global": "Pass {argument} as an argument instead of reading the global, and" + _JITTED_ONCE,
        "module_attribute": "Pass {argument} as an argument (an attribute is read when the function is traced, and "
        "never again), and" + _JITTED_ONCE,
        "layout": "Give {argument} one memory layout, once, before the loop.",
        "new_function": "Make the function once, outside the loop: a new lambda, partial or bound method is a new "
        "function to jax.jit.",
        "cache_cleared": "Do not clear JAX's caches between steps.",
    },
    "dynamo": {
        "shape": "Mark the dimension that varies, before the first call and where the function is called: "
        "torch._dynamo.maybe_mark_dynamic({argument}, {dim}); or {fixed}.",
        "type": "Pass {argument} in its final form at the first call, a tensor instead of None or a number.",
        "layout": "Give {argument} the same strides at every call, where it is made: "
        ".clone(memory_format=torch.contiguous_format).",
        "device": "Move {argument} to one device before the call.",
        "requires_grad": "Give {argument} the same requires_grad at every call (detach() it, or never).",
        "aliasing": "Pass {argument} as a tensor of its own at every call (clone() it).",
        "python_scalar": "A number is compiled in: pass {argument} as a tensor where it is only computed with. "
        + _NEEDED,
        "module_attribute": "A number in an attribute is compiled in: keep {argument} out of the compiled function, or "
        "pass it as an argument.",
        "global": "A global's value is compiled in: pass {argument} as an argument, and as a tensor where it is only "
        "computed with. " + _NEEDED,
        "closure": "A captured value is compiled in: pass {argument} as an argument, and as a tensor where it is only "
        "computed with. " + _NEEDED,
        "container": "Keep the length and keys of {argument} the same, or preallocate a tensor of the largest size.",
        "training_mode": _TWO_MODES,
        "grad_mode": _TWO_MODES,
        "keyword": "Call with the same arguments in the same way, by position or by keyword, each time.",
        "autocast": "Enter autocast in the same way at every call: each setting is a variant of its own.",
        "config": "Set {argument} once, before the first call.",
        "identity": "Keep {argument} alive and the same object for as long as the function is called.",
        "new_function": "Make and compile the function once, outside the loop.",
        "cache_cleared": "Do not call torch.compiler.reset() between steps.",
    },
    "torch_xla": {
        "shape": "torch_xla compiles once for each shape: {fixed}.",
        "training_mode": "Two modes are two graphs: that is no growth. Run both once before you measure.",
        "optimizer_state": "Give each parameter p its state before the first step, {argument}[p] = {{key: "
        "torch.zeros_like(p), …}} for the keys {after} (a 'step' is torch.tensor(0.0)), then call torch_xla.sync() "
        "once.",
        "gradient_state": "Begin each step with the same gradients: optimizer.zero_grad(), which makes them None, "
        "before every backward; or, to add to them, zeros and a torch_xla.sync() before the first.",
        "pending_setup": "Call torch_xla.sync() once before the loop: {argument} was still to be computed when the "
        "first step began, so that step's graph computed it, too.",
        "host_read": READ_AFTER_SYNC,
        "baked_constant": "torch_xla compiles 0 and 1 into a graph, and takes other numbers as inputs: keep {argument} "
        "away from both, or in a tensor of one element, torch.tensor([…], device=device).",
        "aliasing": "torch_xla gives Python numbers of equal value one input, and two were equal in one of the two "
        "graphs only: keep one of them in a tensor of one element, torch.tensor([…], device=device), made before the "
        "loop.",
        "graph": "Do the same operations in each step: torch.where or a factor in a tensor instead of a Python branch; "
        'with torch.compile(backend="openxla"), compile the loss, too.',
    },
    "tensorflow": {
        "shape": "Leave the dimension that varies open, tf.function(…, input_signature=[tf.TensorSpec([None, …])]), or "
        "reduce_retracing=True, which opens it in one trace more (under jit_compile=True XLA still compiles for each "
        "size); or {fixed}.",
        "type": "Pass {argument} in its final form at the first call, a tensor instead of None or a number.",
        "requires_grad": "Give {argument} the same trainable at every call: each is a trace of its own.",
        "aliasing": "Pass {argument} as a variable of its own at every call, or always as the same one.",
        "python_scalar": "Pass {argument} as a tensor, tf.constant({argument}): each value of a Python number, bool "
        "or string is traced. Where the code needs the value itself, keep its values few.",
        "module_attribute": "Pass {argument} as an argument, a tensor (tf.constant), or keep it in a tf.Variable, and "
        "make the tf.function once: an attribute is read when the function is traced, and never again.",
        "global": "Pass {argument} as an argument, a tensor (tf.constant), or keep it in a tf.Variable, and make the "
        "tf.function once: a global is read when the function is traced, and never again.",
        "closure": "Pass {argument} as an argument, a tensor (tf.constant), or keep it in a tf.Variable, and make the "
        "tf.function once: it is read when the function is traced, and never again.",
        "pytree": "Give {argument} the same structure (keys, lengths, node types) at every call.",
        "keyword": "Call with the same arguments each time.",
        "config": "Call the function under the same {argument} each time: it is part of what a trace is kept for.",
        "new_function": "Make the tf.function once, outside the loop: each one has traces of its own. (Keras makes a "
        "new one at each model.compile().)",
        "identity": "Make the object behind {argument} once, and keep it: TensorFlow knows it by identity, traces for "
        "each new one, and keeps the traces of those that are gone.",
    },
}
_ANY = {
    "dtype": "Give {argument} one dtype at every call: cast it once, where the data is made (a cast to a narrower "
    "dtype rounds).",
    "optimizer_state": "Create the optimizer's state before the first step, or leave the optimizer's step out of the "
    "compiled function.",
    "gradient_state": "Give gradients the same state in every step: one backward before the first compiled step, and "
    "zero_grad(set_to_none=False) after it and in every step.",
    "unknown": "See the evidence: none of the known causes could be shown.",
}
# goes before the advice for the cause alone
_BY_PATTERN = {
    "tensorflow": {
        "relaxed shape": "TensorFlow has left the dimension open by itself, so this happens once. To save this trace, "
        "too, say so before the first call, tf.function(…, input_signature=[tf.TensorSpec([None, …])]).",
    },
    "jax": {
        "fed_back_output dtype": "The step returns {argument} as {after}, though it took {before}: cast it back in "
        "the step, .astype(…), which rounds it, or begin with {after}. A NumPy number promotes (np.float32(0.1)), a "
        "Python number does not.",
        "fed_back_output weak_type": "The step returns {argument} strongly typed: begin with a strong type, too, "
        "jnp.float32(0) or jnp.zeros(()) instead of a Python number or jnp.asarray(0.0).",
        "fed_back_output shape": "The step returns {argument} in another shape than it took: write into an array "
        "of fixed size (jax.lax.dynamic_update_slice), or {fixed}.",
        "fed_back_output sharding": "The step returns {argument} spread over the devices in another way than it "
        "took it: begin so, jax.device_put((params, state), sharding) once before the loop, with the sharding that "
        "it comes back with ({after}).",
        "fed_back_output committed": "The step returns {argument} pinned to its device, since another argument "
        "was: put everything there once before the loop, jax.device_put((params, state), device), or leave all of it "
        "unpinned.",
    },
    "dynamo": {
        "fed_back_output requires_grad": "{argument} comes out of a compiled function with its history: pass it on "
        "as {argument}.detach(), or with gradients from the first call on.",
        "growing shape": "Mark the dimension that grows, before the first call and where the function is called: "
        "torch._dynamo.maybe_mark_dynamic({argument}, {dim}); or {fixed}.",
    },
}
_MANY_OBJECTS = (
    "Each {object} has a variant of its own: that is no growth, as long as no new one is made while the training runs."
)
_PARAMETER = "force_parameter_static_shapes"
_PARAMETER_ADVICE = (
    "PyTorch compiles in the sizes of parameters, whatever is marked dynamic: set "
    "torch._dynamo.config.force_parameter_static_shapes = False before the first call, or keep {argument} at one size."
)
_FREED = "Make the object behind {argument} once, outside the loop, and keep it: each new one compiles again."
_OPEN = (
    "PyTorch has made the dimension dynamic by itself, so this happens once. To save this compile, too, say so before "
    "the first call, where the function is called: torch._dynamo.maybe_mark_dynamic({argument}, {dim}); or {fixed}."
)
_OPEN_NUMBER = (
    "PyTorch has made the number a symbol by itself, so this happens once. To save this compile, too, pass {argument} "
    "as a tensor, unless a slice or a shape needs the number: there a tensor would break the graph."
)
_RATE = (
    "A learning rate that is a number is compiled in: make the optimizer with lr=torch.tensor(…), and write into that, "
    ".fill_(…), where the program now assigns {argument}. A scheduler that puts a number in its place undoes this."
)
_CELL_AGAIN = (
    "The cell that defines this function ran again. Its source is the same, but the function is a new one, and "
    "compiles again. Define it in a cell of its own, and run that cell once."
)
_SETTING = (
    "A number among an optimizer's settings is compiled in: leave {argument} as it is, or the optimizer's step out of "
    "the compiled function."
)
_CLOSED = (
    "The size is compiled in, by dynamic=False, a static mark, or code that needs the number (a branch, range(), "
    "view()): let it vary, or {fixed}."
)
_STATIC_CHOICE = "Each value of {argument} is a program of its own: keep them few."
_STATIC_NUMBER = (
    "Take {argument} off static_argnums or static_argnames: as an argument like any other its value is not compiled in "
    "(in Equinox, where each Python number is static, pass jnp.asarray({argument})). Where the code needs the number "
    "itself, for a shape or a branch, it has to stay static: keep its values few."
)
_STATIC_FIELD = (
    "{argument} is static where it is held: hold it in an array, if the code only computes with it. Else each value of "
    "it is a program of its own: keep them few."
)
_CONSTANTS = ("python_scalar", "module_attribute", "global", "closure")
_A_CHOICE = (
    "Each value of {argument} is a variant of its own: keep them few, and call with each once before you measure; or "
    "choose between two functions outside."
)
_OPEN_WITHIN = (
    "PyTorch has made the dimension dynamic by itself, so this happens once. To save this compile, too, {fixed}."
)
_SHAPE_WITHIN = "PyTorch compiles again for another size: {fixed}."
_TOLD_NUMBER = (
    "A number that says how an operation works (a shift, an axis, a size) is compiled in, and {argument} changed: each "
    "value is a graph of its own, so keep them few."
)
_XLA = {
    True: "XLA compiles for each size, however open TensorFlow's own trace is: {fixed}.",
    False: "XLA compiles for each shape, and for each value that a shape depends on, without a word from TensorFlow: "
    "keep both the same at every call, or do without jit_compile=True here, which rounds in another way.",
}
"""What to do where XLA compiled again below a trace, by whether a shape is why."""
_OF_KERAS = {
    True: "TensorFlow has left the dimension open by itself, so this happens once. To save this trace, too, make all "
    "batches that Keras is given equally large: {fixed}.",
    False: "Keras makes the tf.function of this loop, and compiles it for the sizes of the batches that it is given: "
    "{fixed}.",
}
"""Of a loop of Keras', by whether TensorFlow has opened the dimension: it takes no input_signature."""
_ZERO_OR_ONE = "PyTorch compiles sizes 0 and 1 for themselves, whatever is dynamic: {fixed}."


def advise(
    trace: Trace,
    stack: str,
    row: Recompile,
    is_open: bool | None = None,
    named: Callable[[str], str] = lambda argument: argument,
    within: bool = False,
) -> str:
    """One sentence that names the change to make; the argument's path and dimension are filled in.

    `is_open` tells whether the new variant takes every further size or number, None where that is not known; `named`
    how the user would write an argument; `within` that it is a library that calls the function, with a tensor which the
    user never holds.
    """
    if stack not in _ADVICE:
        return _of_others(trace, stack, row)
    below = (
        stack == "tensorflow" and not (within and row.cause == "shape") and bool(trace.details[row.compile].evidence)
    )
    text = _XLA[row.cause == "shape"] if below else _text(stack, row, is_open, within)
    argument = named(row.argument) if row.argument else "it"
    alike = [named(change.argument) for change in row.changes if change.mechanism == row.cause and change.argument]
    fixed = _ONE_SIZE
    if not (row.argument is None or _is_a_mask(row)):
        smaller = _is_a_smaller_batch(row) or (within and row.pattern == "relaxed")
        fixed = _LAST_BATCH if row.pattern == "last_batch" else _SMALLER if smaller else _ONE_SIZE
    return text.format(
        argument=argument,
        dim=next(iter(differing(row.before, row.after)), "dim"),
        fixed=fixed.format(
            arguments=listed(alike or [argument], _MAX_ARGUMENTS),
            drop="drop_remainder=True" if stack == "tensorflow" else "drop_last=True",
        ),
        before=row.before,
        after=row.after,
        object=(row.after or "").removeprefix("another ") or "object",
    )


def _of_others(trace: Trace, stack: str, row: Recompile) -> str:
    """What a collector of others advises: a text of the trace's, from anybody, and no format string."""
    text = trace.vocabulary.advice.get((stack, row.cause), "")
    if not text and row.cause == "unknown":
        return _ANY["unknown"]
    said = {"argument": row.argument or "it", "before": row.before or "none", "after": row.after or "none"}
    return re.sub(r"\{(argument|before|after)\}", lambda found: said[found[1]], text)


def _is_a_smaller_batch(row: Recompile) -> bool:
    at, sizes = differing(row.before, row.after), [dims(text) for text in (row.before, row.after)]
    smaller = at == [0] and all(text and text[0].isdigit() for text in sizes) and int(sizes[0][0]) > int(sizes[1][0])
    return smaller and not is_zero_or_one(row.before, row.after)


def _is_a_mask(row: Recompile) -> bool:
    """Whether it is a tensor of booleans that varies: no batch of data."""
    return (row.after or "").startswith("bool")


def _reshapes(row: Recompile) -> bool:
    return any(change.mechanism == "shape" for change in row.changes)


def _is_a_choice(row: Recompile) -> bool:
    """Whether what differed is one of a few values, and no number that could be a tensor."""
    said = row.after or row.before or ""  # a log may not tell what it is now
    return said.startswith(("'", '"')) or said in ("True", "False")


def _is_compiled_in(row: Recompile) -> bool:
    """Whether one of two lazy graphs holds a 0 or 1 that the other does not, or has one input less for it."""
    told = {line.partition(":")[0]: line.partition(": ")[2] for line in row.evidence}
    was, _, now = told.get("graph inputs", "").partition(" → ")
    held = [told.get(f"constants only {when}", "").rpartition(" ")[2] for when in ("before", "now")]
    return was != now or bool({"0", "1", "-1"}.intersection(held))


def _text(stack: str, row: Recompile, is_open: bool | None, within: bool) -> str:
    if row.cause == "new_function" and run_of_its_cell(row.before) != run_of_its_cell(row.after):
        return _CELL_AGAIN
    if row.pattern == "mode_toggle":
        return _TWO_MODES
    if row.cause == "shape" and any(_PARAMETER in text for text in row.evidence):
        return _PARAMETER_ADVICE
    if stack == "tensorflow" and row.cause == "shape" and within:
        return _OF_KERAS[row.pattern == "relaxed"]
    if row.cause == "identity" and (row.after or "").startswith("another "):
        return _FREED if "freed" in (row.before or "") else _MANY_OBJECTS
    if row.cause == "identity" and "freed" in (row.before or ""):
        return _FREED
    if stack == "jax" and row.cause == "static_argument" and (is_number(row.after) or _is_a_choice(row)):
        if _reshapes(row) or _is_a_choice(row):
            return _STATIC_CHOICE
        return _STATIC_NUMBER if (row.argument or "").isidentifier() else _STATIC_FIELD
    if stack == "dynamo" and row.cause == "shape" and is_zero_or_one(row.before, row.after):
        return _ZERO_OR_ONE
    if stack == "dynamo" and row.cause in _CONSTANTS and _is_a_choice(row):
        return _A_CHOICE
    if stack == "dynamo" and "param_groups[" in (row.argument or "") and row.cause in _CONSTANTS:
        return _RATE if (row.argument or "").endswith("['lr']") else _SETTING
    if stack == "torch_xla" and row.cause == "baked_constant" and not _is_compiled_in(row):
        return _TOLD_NUMBER
    if within and is_open is not False and row.cause == "shape" and stack == "dynamo":
        return _OPEN_WITHIN if is_open else _SHAPE_WITHIN
    if is_open is not None and row.cause == "shape":
        return _OPEN if is_open else _CLOSED
    if is_open:
        return _OPEN_NUMBER
    by_pattern = _BY_PATTERN.get(stack, {}).get(f"{row.pattern} {row.cause}")
    return by_pattern or _ADVICE.get(stack, {}).get(row.cause) or _ANY.get(row.cause) or _ANY["unknown"]
