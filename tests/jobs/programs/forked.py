"""Trains where the argument says: alone, in a fork of multiprocessing, or in one amid a compile of another thread."""

import multiprocessing
import os
import sys
import threading
import time

from counting import jax_counted

jax, count = jax_counted()
begun, ended = threading.Event(), threading.Event()


@jax.jit
def step(w, x):
    """One step."""
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


@jax.jit
def slow(x):
    """Is traced until the fork is over."""
    begun.set()
    ended.wait(60)
    return x * 2


def train():
    """The second batch is smaller."""
    w = jax.numpy.ones(4)
    for n in (8, 6, 6, 6, 6):
        w = step(w, jax.numpy.ones((n, 4)))
        until = time.monotonic() + 0.06
        while time.monotonic() < until:
            pass
    print(w.shape, flush=True)
    count()


if sys.argv[1] == "alone":
    train()
elif sys.argv[1] == "process":
    child = multiprocessing.get_context("fork").Process(target=train, name="Trainer")
    child.start()
    child.join()
    print("ended with", child.exitcode)
elif sys.argv[1] == "amid":
    thread = threading.Thread(target=slow, args=(1.0,))
    thread.start()
    begun.wait(60)
    if pid := os.fork():
        ended.set()
        thread.join()
        print("ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        count()
    else:
        train()
        if pid := os.fork():
            os.waitpid(pid, 0)
        else:  # it has nothing to say
            time.sleep(1)
            os._exit(0)
