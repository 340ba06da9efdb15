"""The words that coldstep does not have: Numba's stack, its phases, and what to do about each cause."""

from __future__ import annotations

from coldstep.vocabulary import Cause, Kind, Phase, Stack, Words

OBJECT_MODE = "numba_object_mode"
SLOW = (
    "Take what Numba cannot compile out of the function, and decorate the rest with @njit, which refuses object mode."
)

_ADVICE = {
    "dtype": "Give {argument} one dtype at every call: convert it once, where it is made; or name the signatures, "
    "@jit([...]): then they compile at import, and other types are refused.",
    "shape": "Numba compiles once for each number of dimensions, whatever their sizes: give {argument} the same.",
    "layout": "Give {argument} one memory order at every call: np.ascontiguousarray({argument}) where it is made.",
    "type": "Pass {argument} as the same kind of object at every call.",
    "pytree": "A tuple's length and types are compiled in: pass {argument} as an array or a typed list.",
    "static_argument": "Each value of {argument} is compiled in: keep them few.",
    "keyword": "Give {argument} at every call, or never: a default is a type of its own.",
    "new_function": "Decorate the function once, outside the loop: each new one has compiled code of its own.",
}

VOCABULARY = Words(
    stacks=(Stack("numba", "Numba", "numba", ("numba", "llvmlite"), "numba", exact=True, in_call=True),),
    phases=(
        Phase("numba.start", "Numba registries", "#b9a3e3", "#7a62ad", "bright_magenta", compiles=True),
        Phase("numba.bytecode", "Numba bytecode analysis", "#9c7fd6", "#8d74c9", "bright_magenta", compiles=True),
        Phase("numba.passes", "Numba passes", "#8465c7", "#a48bdc", "bright_magenta", compiles=True),
        Phase("numba.types", "Numba type inference", "#6a48b3", "#bba6ea", "bright_magenta", compiles=True),
        Phase("numba.lower", "Numba lowering", "#c25f9f", "#dd8cc0", "magenta", compiles=True),
        Phase("numba.llvm", "LLVM compilation", "#8c2f6b", "#f0aad6", "magenta", compiles=True),
    ),
    causes=(
        Cause(
            "numba_option",
            "an option of the @jit decorator",
            advice="Decorate the function once: with {argument} {before} and {after} it is compiled for each.",
        ),
        *(Cause(name, "", advice=advice) for name, advice in _ADVICE.items()),
    ),
    findings=(Kind(OBJECT_MODE, "a function was compiled in object mode"),),
)
