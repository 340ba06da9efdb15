"""Starts processes that compile and then leave at once, or are killed, or terminated: as the arguments say."""

import multiprocessing
import os
import signal
import sys
import time

from counting import jax_counted


def work(how):
    """What each of them does."""
    jax, count = jax_counted()
    jax.jit(lambda x: x + 1)(jax.numpy.ones(3)).block_until_ready()
    count()
    time.sleep(0.6)  # what the last quarter of a second did may not be written
    if how == "exits":
        os._exit(5)
    os.kill(os.getpid(), signal.SIGTERM if how == "terminated" else signal.SIGKILL)
    time.sleep(60)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    for how in sys.argv[1:]:
        process = context.Process(target=work, args=(how,), name=how)
        process.start()
        process.join()
        print(how, process.exitcode)
