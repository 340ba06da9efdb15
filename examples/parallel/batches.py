"""Data parallel: each of n devices, or ranks, has the weights (all, or a part to keep), and a part of the batch."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.study.program import Work
from examples.parallel import stacks


def work(stack: str, way: str, n: int, more: int = 0) -> Work:
    """Training; in one step each part of the batch has `more` rows."""
    if stack == "jax":
        return _jax(way, n, more)
    torch, mesh = stacks.ranks()
    x, other = (torch.ones(rows, stacks.WIDTH) for rows in (stacks.ROWS, stacks.ROWS + more))
    return stacks.trained(torch, stacks.parallel(torch, mesh, way), stack, stacks.turns(x, other))


def _jax(way: str, n: int, more: int) -> Work:
    jax, mesh, counted = stacks.jax_on(n)
    parts, named = jax.sharding.PartitionSpec, partial(jax.sharding.NamedSharding, mesh)
    weights = stacks.jax_weights(jax)
    batches = [jax.numpy.ones((n, stacks.ROWS + rows, stacks.WIDTH)) for rows in (0, more)]
    whole, part = stacks.jax_step(jax), stacks.jax_step(jax, mean=partial(jax.lax.pmean, axis_name="x"))

    def mapped(weights: Any, x: Any) -> Any:
        return jax.tree.map(lambda each: each.mean(0), jax.vmap(whole, (None, 0))(weights, x))

    step = {
        "vmap": lambda: jax.jit(mapped),
        "pmap": lambda: jax.pmap(part, "x", in_axes=(None, 0), out_axes=None),
        "jit": lambda: jax.jit(whole),
        "shard_map": lambda: jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(parts(), parts("x")), out_specs=parts())),
    }[way]()
    if way != "vmap":
        weights = jax.device_put(weights, named(parts()))
    given = jax.device_put(batches, named(parts("x"))) if way in ("jit", "shard_map") else batches
    train = stacks.jax_trained(step, weights, stacks.turns(*given))
    return Work(train, lambda: whole(weights, batches[0]), counted)
