"""Compiles for other shapes, static arguments, donation and configuration; by hand; within grad."""

import jax
import numpy as np

import coldstep


def scale(x, n):
    return x * n


plain = jax.jit(scale, static_argnums=1)
donating = jax.jit(scale, static_argnums=1, donate_argnums=0)
for step, size, n in ((plain, 37, 2), (plain, 38, 2), (plain, 38, 3), (donating, 38, 3)):
    with coldstep.step():
        print(coldstep.wait(step(np.ones(size, np.float32), n)).sum())
with coldstep.step(), jax.default_matmul_precision("highest"):
    print(plain(np.ones(38, np.float32), 3).sum())
with coldstep.step("other"):
    print(jax.jit(scale, static_argnums=1).lower(np.ones(3), 2).compile()(np.ones(3)))
    print(jax.grad(lambda x: plain(x, 3).sum())(np.ones(38, np.float32)).sum())
