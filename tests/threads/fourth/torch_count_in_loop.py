"""Looks for the rows of a grid that leave one choice open, with a compiled NumPy function."""

import numpy as np
import torch


@torch.compile(backend="eager")
def singles(grid):
    total = np.zeros(())
    for row in grid:
        if np.count_nonzero(row) == 1:
            total = total + row.sum()
    return total * 2.0


generator = np.random.default_rng(0)
for _ in range(4):
    grid = generator.integers(0, 9, (6, 4)) * (generator.random((6, 4)) < 0.3)
    print("value", repr(float(singles(grid))))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/119186"
# asked = "Nothing is logged for a function that torch.compile is put on."
# answer = """\
# It was not compiled: there is a graph break inside of a for loop, because of the conditional on \
# np.count_nonzero(res) == 1."""
# stack = "torch"
# mechanism = "graph_break:skipped_frame"
# argument = "np.count_nonzero(row) == 1"
# before = ""
# after = ""
# line = 11
# lines_accepted = [7, 8, 10]
# compiles = [0, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Select by the condition in place of branching on it."
# cure_lines = [
#   {line = 11, code = "        total = total + np.where(np.count_nonzero(row) == 1, row.sum(), 0)"},
#   {line = 12, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
