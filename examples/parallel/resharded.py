"""A sharded product, one step with an input that is sharded otherwise: as it is, or put as the others are before."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.parallel import stacks


def work(stack: str, way: str, n: int) -> Work:
    return _jax(way, n) if stack == "jax" else _torch(stack, way, n)


def _jax(way: str, n: int) -> Work:
    jax, mesh, counted = stacks.jax_on(n)
    parts = jax.sharding.PartitionSpec
    across, whole = (jax.sharding.NamedSharding(mesh, spec) for spec in (parts("x"), parts()))
    x, w = jax.numpy.ones((n * stacks.ROWS, stacks.WIDTH)), jax.device_put(jax.numpy.eye(stacks.WIDTH), whole)
    given = iter(stacks.turns(jax.device_put(x, across), jax.device_put(x, whole)))

    def score(x: Any) -> Any:
        return jax.numpy.tanh(x @ w).sum()

    made = jax.jit(score)
    return Work(
        lambda: made(jax.device_put(next(given), across) if way == "put" else next(given)), lambda: score(x), counted
    )


def _torch(backend: str, way: str, n: int) -> Work:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch, mesh = stacks.ranks()
    x, w = torch.ones(n * stacks.ROWS, stacks.WIDTH), distribute_tensor(torch.eye(stacks.WIDTH), mesh, [Replicate()])
    given = iter(stacks.turns(*(distribute_tensor(x, mesh, [placement]) for placement in (Shard(0), Replicate()))))

    def score(x: Any) -> Any:
        return torch.tanh(x @ w).sum()

    made = torch.compile(score, backend=backend)

    def step() -> Any:
        x = next(given)
        return made(x.redistribute(mesh, [Shard(0)]) if way == "put" else x).full_tensor()

    counted = torch._dynamo.utils.counters["stats"]
    return Work(step, lambda: score(next(given)).full_tensor(), lambda: counted["unique_graphs"])
