"""A root and two processes that it spawns, which all compile again and again for some seconds; each says when."""

import multiprocessing
import os
import time

SECONDS = 9  # as long as kills come


def compiles():
    """Compile programs of some hundred milliseconds each; a file is there as long as one is open."""
    import jax

    parent, until = os.getppid(), time.monotonic() + SECONDS
    size = 3
    while time.monotonic() < until and os.getppid() == parent:
        size += 1

        @jax.jit
        def grows(x):
            for turn in range(1500):
                x = jax.numpy.tanh(x * turn) + 1
            return x

        open(f"open-{os.getpid()}", "w").close()
        grows(jax.numpy.ones(size)).block_until_ready()
        os.unlink(f"open-{os.getpid()}")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=compiles, name=f"worker{number}") for number in range(2)]
    for worker in workers:
        worker.start()
        print(worker.pid, flush=True)
    compiles()
    for worker in workers:
        worker.join()
