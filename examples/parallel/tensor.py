"""Tensor parallel: each of n devices, or ranks, has a part of every weight, and the whole batch."""

from __future__ import annotations

from functools import partial

from benchmarks.study.program import Work
from examples.parallel import stacks


def work(stack: str, way: str, n: int) -> Work:
    if stack == "jax":
        return _jax(way, n)
    torch, mesh = stacks.ranks()
    x = torch.ones(stacks.ROWS, stacks.WIDTH)
    return stacks.trained(torch, stacks.parallel(torch, mesh, way), stack, stacks.turns(x, x))


def _jax(way: str, n: int) -> Work:
    jax, mesh, counted = stacks.jax_on(n)
    parts, named = jax.sharding.PartitionSpec, partial(jax.sharding.NamedSharding, mesh)
    x, whole = jax.numpy.ones((stacks.ROWS, stacks.WIDTH)), stacks.jax_weights(jax)
    specs = [{"up": parts(None, "x"), "down": parts("x", None)} for _ in whole]
    weights = jax.device_put(whole, jax.tree.map(named, specs, is_leaf=lambda each: isinstance(each, parts)))
    part = stacks.jax_step(jax, joined=partial(jax.lax.psum, axis_name="x"))
    plain = stacks.jax_step(jax)
    step = plain if way == "jit" else jax.shard_map(part, mesh=mesh, in_specs=(specs, parts()), out_specs=specs)
    train = stacks.jax_trained(jax.jit(step), weights, stacks.turns(x, x))
    return Work(train, lambda: plain(whole, x), counted)
