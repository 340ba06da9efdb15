"""`python -m examples.cliffs [CASE…]`: which sweeps there are, in which stacks, and over which n."""

from __future__ import annotations

from benchmarks.study.cases import Study, Sweep
from benchmarks.study.runner import main

_UNTRACEABLE = dict.fromkeys(("mask", "where", "branch", "cond", "size", "static"), (8,))
STUDY = Study("examples.cliffs", {
    "loops": Sweep("n products in a row, in one compiled function", (("loop", "scan"), ("loop", "while")), {
        "jax": {"loop": (1, 4, 16, 64, 256), "nested": (16, 64), "scan": (1, 4, 16, 64, 256), "fori": (16, 256),
                "while": (16, 256)},
        "aot_eager": {"loop": (1, 4, 16, 64, 256), "nested": (16, 64), "scan": (4, 64, 256), "while": (4, 256)},
        "inductor": {"loop": (4, 64), "scan": (4,)},
        "tensorflow": {"loop": (4, 64, 256), "while": (4, 256)},
    }),
    "branches": Sweep("n branches on data, one after the other", (("if", "cond"), ("if", "where")), {
        "jax": {"if": (1, 4, 16), "cond": (1, 4, 16), "where": (1, 16)},
        "aot_eager": {"if": (1, 4, 16), "cond": (1, 4, 16), "where": (1, 16)},
        "inductor": {"if": (8,), "cond": (8,), "where": (8,)},
    }),
    "shapes": Sweep("batches of n lengths", (("as_is", "padded"), ("as_is", "bucketed"), ("as_is", "dynamic")), {
        "jax": {"as_is": (1, 2, 4, 8, 16), "padded": (1, 4, 16), "bucketed": (1, 4, 16)},
        "aot_eager": {"as_is": (1, 4, 8, 9, 16), "dynamic": (1, 16), "padded": (1, 16), "bucketed": (1, 16)},
        "inductor": {"as_is": (4,), "dynamic": (4,), "padded": (4,)},
        "tensorflow": {"as_is": (1, 4, 16), "dynamic": (1, 16)},
    }),
    "batching": Sweep("one function on n examples", (("loop", "vmap"), ("vmap", "einsum")), {
        "jax": {"loop": (1, 4, 16, 64), "vmap": (1, 16, 64), "einsum": (1, 16, 64)},
        "aot_eager": {"loop": (1, 4, 16, 64), "vmap": (1, 64), "einsum": (1, 64)},
        "inductor": {"loop": (16,), "vmap": (16,), "einsum": (16,)},
    }),
    "reads": Sweep("a value read on the host after each of n parts of a step", (("each", "once"),), {
        "jax": {"each": (1, 8, 32), "once": (1, 32)},
        "aot_eager": {"each": (1, 8, 32), "once": (1, 32)},
        "inductor": {"each": (8,), "once": (8,)},
    }),
    "fresh": Sweep("n functions, made anew or with constants", (("fresh", "kept"), ("baked", "argument")), {
        "jax": {"fresh": (1, 4, 16), "kept": (1, 16), "baked": (1, 4, 16), "argument": (1, 16)},
        "aot_eager": {"fresh": (1, 4, 16), "kept": (1, 16), "baked": (1, 4, 16), "argument": (1, 16)},
    }),
    "blocks": Sweep("n equal blocks of a network, trained", (("unrolled", "scanned"), ("unrolled", "regional")), {
        "jax": {"unrolled": (1, 4, 16, 64), "scanned": (1, 16, 64), "regional": (1, 16, 64)},
        "aot_eager": {"unrolled": (1, 4, 16, 64), "scanned": (4, 64), "regional": (1, 16, 64)},
        "inductor": {"unrolled": (16,), "scanned": (16,), "regional": (16,)},
    }),
    "untraceable": Sweep("programs that do not trace", (("mask", "where"), ("branch", "cond"), ("size", "static")), {
        "jax": _UNTRACEABLE, "aot_eager": _UNTRACEABLE,
    }),
})  # fmt: skip


if __name__ == "__main__":
    main(STUDY)
