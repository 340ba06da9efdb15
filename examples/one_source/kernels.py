"""Kernels of one's own: in Pallas over n blocks, interpreted, beside plain JAX; in Triton, compiled and not run."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work

ROWS, WIDTH = 8, 128


def work(stack: str, way: str, n: int) -> Work:
    if stack == "triton":
        from examples.one_source.triton_kernel import compiled

        return Work(lambda: compiled(n), lambda: None)
    import jax
    from jax.experimental import pallas

    x = jax.numpy.ones((n * ROWS, WIDTH))

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = jax.numpy.tanh(x[...]) + y[...]

    block = pallas.BlockSpec((ROWS, WIDTH), lambda at: (at, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pallas.pallas_call(kernel, shape, grid=(n,), in_specs=[block, block], out_specs=block, interpret=True)

    def plain(x: Any, y: Any) -> Any:
        return jax.numpy.tanh(x) + y

    return Work.of(jax.jit(call if way == "pallas" else plain), plain, x, x)
