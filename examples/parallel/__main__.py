"""`python -m examples.parallel [CASE…]`: which programs there are, in which stacks, on how many devices."""

from __future__ import annotations

from benchmarks.study.cases import Study, Sweep
from benchmarks.study.runner import main

_DEVICES, _RANKS = (1, 2, 4, 8), (1, 2, 4)


def launcher(stack: str, n: int) -> tuple[str, ...]:
    """JAX has all devices in one process; PyTorch a process for each rank."""
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n))
    return () if stack == "jax" else ranks


STUDY = Study("examples.parallel", {
    "batches": Sweep("each of n trains on a part of the batch", (("pmap", "jit"), ("ddp", "fsdp"), ("vmap", "jit")), {
        "jax": {"jit": _DEVICES, "pmap": _DEVICES, "shard_map": _DEVICES, "vmap": _DEVICES},
        "eager": {"ddp": _RANKS, "fsdp": _RANKS},
        "aot_eager": {"ddp": _RANKS, "fsdp": _RANKS},
        "inductor": {"ddp": (2,), "fsdp": (2,)},
    }),
    "sizes": Sweep("one batch of another size", (("jit", "padded"), ("ddp", "padded"), ("one_rank", "padded")), {
        "jax": {"jit": (2, 8), "pmap": (2, 8), "shard_map": (2, 8), "padded": (2, 8)},
        "aot_eager": {"ddp": (2, 4), "fsdp": (2, 4), "one_rank": (2, 4), "padded": (2, 4)},
    }),
    "resharded": Sweep("one batch sharded otherwise", (("as_it_is", "put"),), {
        "jax": {"as_it_is": (2, 8), "put": (2, 8)},
        "aot_eager": {"as_it_is": (2, 4), "put": (2, 4)},
    }),
    "tensor": Sweep("each of n has a part of every weight", (("shard_map", "jit"), ("replicated", "tensor")), {
        "jax": {"jit": _DEVICES, "shard_map": _DEVICES},
        "eager": {"tensor": _RANKS},
        "aot_eager": {"replicated": (2,), "tensor": _RANKS},
        "inductor": {"replicated": (2,), "tensor": (2,)},
    }),
    "late": Sweep("the last rank sleeps for 3 s in step 5", (), {
        "aot_eager": {"ddp": (2, 4), "fsdp": (2,), "tensor": (2,)},
        "eager": {"ddp": (2,)},
    }),
}, launcher)  # fmt: skip


if __name__ == "__main__":
    main(STUDY)
