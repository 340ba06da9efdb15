"""Functions that Numba compiles, and compiles again for each of the reasons that it has."""

from __future__ import annotations

import contextlib

import numba
import numpy as np

import coldstep


@numba.njit
def scale(x, by):
    return x * by


@numba.njit
def train_step(weights, batch, power=2):
    loss = 0.0
    for row in range(batch.shape[0]):
        for column in range(batch.shape[1]):
            loss += scale(batch[row, column], weights[column]) ** power
    return loss


def twice(x):
    return x + x


@numba.jit(forceobj=True)
def slow(x):
    return len(str(x))


@numba.njit
def broken(x):
    return x.nothing


WEIGHTS, BATCH = np.ones(4), np.ones((8, 4))
BATCHES = {2: BATCH.astype(np.float32), 4: np.asfortranarray(BATCH)}
for n in range(9):
    with coldstep.step():
        if n == 5:
            train_step(WEIGHTS, BATCH, 3)
        else:
            train_step(WEIGHTS, BATCHES.get(n, BATCH))
for fast in (False, True):
    numba.njit(fastmath=fast)(twice)(1)
numba.njit(twice)(1)
slow(1)
with contextlib.suppress(numba.core.errors.TypingError):
    broken(1)
