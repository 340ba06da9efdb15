"""Starts a process by spawn, as servers start their engine; it compiles, and once anew."""

import multiprocessing

from counting import jax_counted


def engine(sizes):
    """What the other process does."""
    jax, count = jax_counted()
    step = jax.jit(lambda x: x * 2)
    print([float(step(jax.numpy.ones(n)).sum()) for n in sizes], flush=True)
    count()


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=engine, args=([3, 4],), name="EngineCore_0")
    process.start()
    process.join()
    print("engine ended with", process.exitcode)
