"""Has a pool of multiprocessing compile; its workers are terminated. The argument: how many there are."""

import multiprocessing
import sys
import time

from counting import jax_counted


def work(n):
    """What a worker does with each item."""
    jax, count = jax_counted()
    value = float(jax.jit(lambda x: x + 1)(jax.numpy.ones(n)).sum())
    count()
    time.sleep(2)
    return value


if __name__ == "__main__":
    workers = int(sys.argv[1])
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        print(sorted(pool.map(work, range(3, 3 + workers), 1)))
