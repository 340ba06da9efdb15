"""`python -m examples.flow_matching [CASE…]`: which programs there are, in which stacks, and over which n."""

from __future__ import annotations

from benchmarks.study.cases import Study, Sweep
from benchmarks.study.runner import main

_SIZES, _UPDATES = (1, 3, 5), {"flow": (0, 80, 3600)}
STUDY = Study("examples.flow_matching", {
    "sizes": Sweep("n sizes of molecules in a step", (("as_is", "padded"), ("as_is", "few"), ("as_is", "dynamic")), {
        "jax": {"as_is": _SIZES, "padded": _SIZES, "few": _SIZES},
        "aot_eager": {"as_is": _SIZES, "dynamic": _SIZES, "padded": _SIZES, "few": _SIZES},
        "inductor": {"as_is": (5,), "dynamic": (5,), "padded": (5,)},
    }),
    "price": Sweep("n rounds by each plan of a forecast", (), {
        "jax": {"plans": (2,)}, "aot_eager": {"plans": (2,)}, "inductor": {"plans": (2,)},
    }, is_repeated=False),
    "learnt": Sweep("n updates", (), {"jax": _UPDATES, "aot_eager": _UPDATES}, is_repeated=False),
})  # fmt: skip


if __name__ == "__main__":
    main(STUDY)
