"""What to change in the program, per cause and stack: a concrete line, never a link."""

from __future__ import annotations

import re

from coldstep.model import Recompile

_DIMS = re.compile(r"(?<=[\[,])[^,\]]+(?=[,\]])")
_LAST_BATCH = "pad the last batch to the size of the others, or drop it (drop_last=True)"
_ONE_SIZE = "pad {argument} to one size, or to a few"

_ADVICE = {
    "jax": {
        "shape": "JAX compiles once for each shape: {fixed}.",
        "weak_type": "Give {argument} a strong type from the start: jnp.float32(0) or jnp.zeros(()) instead of a "
        "Python number or jnp.asarray(0.0).",
        "type": "Pass {argument} in its final form at the first call: zeros of the right shapes instead of None.",
        "sharding": "Put {argument} where it belongs once, before the loop: jax.device_put((params, state), sharding).",
        "device": "Keep {argument} on one device: jax.device_put({argument}, device) once, before the loop.",
        "committed": "Commit everything once before the loop, jax.device_put((params, state), device), or nothing: "
        "{argument} was uncommitted in one call and committed in another.",
        "donation": "Call one jitted function with one donate_argnums: this compiles the same code with two.",
        "static_argument": "Pass {argument} as an array if the code allows it; else keep its values few, and give "
        "objects __eq__ and __hash__ by content.",
        "pytree": "Give {argument} the same structure (keys, lengths, node types) at every call.",
        "keyword": "Call with the same arguments in the same way, by position or by keyword, each time.",
        "config": "Set {argument} once, before the first call: every value of it compiles again.",
        "closure": "Pass {argument} as an argument instead of closing over it.",
        "new_function": "Make the function once, outside the loop: a new lambda, partial or bound method is a new "
        "function to jax.jit.",
        "cache_cleared": "Do not clear JAX's caches between steps.",
    },
    "dynamo": {
        "shape": "Mark the dimension that varies before the first call, torch._dynamo.mark_dynamic({argument}, {dim}), "
        "or {fixed}.",
        "type": "Pass {argument} in its final form at the first call, a tensor instead of None or a number.",
        "layout": "Call .contiguous() on {argument} where it is made, so that it always has the same strides.",
        "device": "Move {argument} to one device before the call.",
        "requires_grad": "Give {argument} the same requires_grad at every call (detach() it, or never).",
        "aliasing": "Pass {argument} as a tensor of its own at every call (clone() it).",
        "python_scalar": "Pass {argument} as a tensor (for an optimizer: lr=torch.tensor(…)): a number is compiled in.",
        "module_attribute": "Keep {argument} in a tensor or buffer, or out of the compiled function: a number in an "
        "attribute is compiled in.",
        "global": "Pass {argument} as an argument, as a tensor: a global's value is compiled in.",
        "closure": "Pass {argument} as an argument, as a tensor: a captured value is compiled in.",
        "container": "Keep the length and keys of {argument} the same, or preallocate a tensor of the largest size.",
        "training_mode": "Two modes are two variants: that is no growth. Warm up both before you measure.",
        "grad_mode": "Run with and without gradients in one mode each, or warm up both: each is a variant of its own.",
        "autocast": "Enter autocast in the same way at every call: each setting is a variant of its own.",
        "config": "Set {argument} once, before the first call.",
        "identity": "Keep {argument} alive and the same object for as long as the function is called.",
        "new_function": "Make and compile the function once, outside the loop.",
        "cache_cleared": "Do not call torch.compiler.reset() between steps.",
    },
}
_ANY = {
    "dtype": "Give {argument} one dtype at every call: cast it once, where the data is made.",
    "optimizer_state": "Create the optimizer's state before the first step (one step with zero gradients, then "
    "restore), or leave the optimizer's step out of the compiled function.",
    "gradient_state": "Give gradients the same state in every step: zero_grad(set_to_none=False), or one backward "
    "before the first compiled step.",
    "unknown": "See the evidence: none of the known causes could be shown.",
}


def advise(stack: str, row: Recompile) -> str:
    """One sentence that names the change to make; the argument's path and dimension are filled in."""
    text = _ADVICE.get(stack, {}).get(row.cause) or _ANY.get(row.cause) or _ANY["unknown"]
    argument = row.argument or "it"
    fixed = (_LAST_BATCH if row.pattern == "last_batch" else _ONE_SIZE).format(argument=argument)
    return text.format(argument=argument, dim=_dim(row), fixed=fixed)


def dims(text: str | None) -> list[str]:
    """The dimensions in an abstract value."""
    return _DIMS.findall(text or "")


def _dim(change: Recompile) -> int | str:
    """The first dimension that differs."""
    old, new = dims(change.before), dims(change.after)
    differing = [i for i, (was, now) in enumerate(zip(old, new, strict=False)) if was != now]
    return differing[0] if len(old) == len(new) and differing else "dim"
