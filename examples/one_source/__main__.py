"""`python -m examples.one_source [CASE…]`: which programs there are, in which stacks, and over which n."""

from __future__ import annotations

import sys

from benchmarks.study.cases import Study, Sweep
from benchmarks.study.runner import main
from examples.one_source.in_xla import PYTHON

_WAYS = {"native": (1, 4, 16), "keras": (1, 4, 16)}
_TRITON = {"triton": {"triton": (1, 4)}} if PYTHON.exists() else {}
STUDY = Study("examples.one_source", {
    "blocks": Sweep("n feed-forward blocks trained", (("native", "keras"),), {
        **dict.fromkeys(("jax", "eager", "aot_eager", "tensorflow", "tensorflow_xla"), _WAYS),
        "inductor": {"native": (4,), "keras": (4,)},
    }),
    "kernels": Sweep("a kernel over n blocks", (("plain", "pallas"),), {
        "jax": {"plain": (1, 16, 64), "pallas": (1, 16, 64)}, **_TRITON,
    }),
}, lambda stack, _: ("-m", "examples.one_source.in_xla") if stack == "triton" else ())  # fmt: skip


if __name__ == "__main__":
    if not _TRITON:
        print("kernels in triton: not installed here; make venv-xla builds what has it", file=sys.stderr)
    main(STUDY)
