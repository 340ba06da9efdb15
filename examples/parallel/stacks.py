"""What the programs have in common: the devices or ranks, the network of each stack, and how a framework counts."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, repeat
from typing import Any

from benchmarks.study.program import Work

WIDTH, HIDDEN, LAYERS, ROWS = 64, 128, 4, 8
OTHER_AT = 1
"""The step whose input is of another size, or sharded otherwise: the steady ones come later."""
RATE = 0.01


stack = str
"""A stack is its name: jax, eager, or a backend of torch.compile."""


def turns(usual: Any, other: Any) -> Iterable[Any]:
    """The inputs of the steps, one of which differs."""
    return chain(repeat(usual, OTHER_AT), [other], repeat(usual))


def jax_on(n: int) -> tuple[Any, Any, Callable[[], int]]:
    """JAX, a mesh of n devices of this machine, and how often JAX counted a compile of its own since."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={n}"
    import jax

    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _seconds, **_: events.append(event))
    mesh = jax.make_mesh((n,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax, mesh, lambda: sum(event.endswith("backend_compile_duration") for event in events)


def jax_weights(jax: Any) -> Any:
    """The network of JAX."""
    up, down = jax.numpy.ones((WIDTH, HIDDEN)) / HIDDEN, jax.numpy.ones((HIDDEN, WIDTH)) / WIDTH
    return [{"up": up, "down": down} for _ in range(LAYERS)]


def jax_loss(jax: Any, weights: Any, x: Any, joined: Callable[[Any], Any] = lambda x: x) -> Any:
    """Its loss; `joined` sums what devices have a part of each."""
    for layer in weights:
        x = x + joined(jax.nn.gelu(x @ layer["up"]) @ layer["down"])
    return jax.numpy.square(x).mean()


def jax_step(jax: Any, joined: Callable[[Any], Any] = lambda x: x, mean: Any = None) -> Callable[[Any, Any], Any]:
    """A step of it, from weights and a batch to weights; `mean` joins the gradients of several parts of the batch."""

    def step(weights: Any, x: Any) -> Any:
        gradients = jax.grad(partial(jax_loss, jax, joined=joined))(weights, x)
        gradients = gradients if mean is None else mean(gradients)
        return jax.tree.map(lambda weight, gradient: weight - RATE * gradient, weights, gradients)

    return step


def jax_trained(step: Callable[[Any, Any], Any], weights: Any, inputs: Iterable[Any]) -> Callable[[], Any]:
    """Training of it, an input for each step."""
    state, given = [weights], iter(inputs)

    def train() -> Any:
        state[0] = step(state[0], next(given))
        return state[0]

    return train


def ranks() -> tuple[Any, Any]:
    """PyTorch and the mesh of the job's ranks."""
    import torch._dynamo
    import torch.distributed as dist

    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)
    return torch, dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))


def network(torch: Any) -> Any:
    """The network of PyTorch."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    torch.manual_seed(0)
    return Net()


def parallel(torch: Any, mesh: Any, way: str) -> Any:
    """The network as each rank has it: a copy, a part of each parameter, or a part of each product."""
    net = network(torch)
    if way == "tensor":
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        for block in net.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    elif way == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for module in (*net.blocks, net):
            fully_shard(module, mesh=mesh)
    elif way != "replicated":
        net = torch.nn.parallel.DistributedDataParallel(net)
    return net


def trained(torch: Any, net: Any, backend: str, inputs: Iterable[Any]) -> Work:
    """Training of a network, an input for each step."""
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    given = iter(inputs)

    def step(forward: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    made = net if backend == "eager" else torch.compile(net, backend=backend)
    counted = torch._dynamo.utils.counters["stats"]
    return Work(lambda: step(made, next(given)), lambda: step(net, next(given)), lambda: counted["unique_graphs"])
