# ruff: noqa: E402 (torchtitan asks for the accelerator as it is imported)
"""torchtitan's Trainer on a tiny Llama 3 of random weights and made-up data, compiled, in two processes.

torchtitan is made for accelerators: the first lines stand in for what it asks of one and a CPU does not have.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch._utils

torch._utils._get_available_device_type = lambda: "cpu"
torch._utils._get_device_module = lambda device_type: torch.cpu
torch.cpu.get_device_name = lambda device=None: "cpu"
torch.cpu.get_device_properties = lambda device=None: SimpleNamespace(total_memory=2**30)
torch.cpu.current_device = lambda: 0
torch.cpu.memory_stats = lambda device=None: {}
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda: None

from counts import dynamo_graphs, show
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.config import ConfigManager
from torchtitan.models import llama3
from torchtitan.models.llama3.model.args import TransformerModelArgs
from torchtitan.protocols import train_spec
from torchtitan.train import Trainer

ARGUMENTS = """
--model.name tiny --model.flavor tiny --training.steps 6 --training.local_batch_size 4 --training.seq_len 16
--training.mixed_precision_param float32 --metrics.log_freq 1 --debug.seed 0 --lr_scheduler.warmup_steps 2
--parallelism.data_parallel_replicate_degree 2 --parallelism.data_parallel_shard_degree 1
--activation_checkpoint.mode none --compile.enable --compile.backend aot_eager --comm.trace_buf_size 0
"""
losses: list[float] = []


class Tokens(torch.utils.data.IterableDataset):
    """Rows of made-up tokens."""

    def __iter__(self) -> Any:
        for n in range(1000):
            row = torch.arange(n, n + 17) * 7 % 61
            yield {"input": row[:-1]}, row[1:]


class Tiny(Trainer):
    """The trainer, which takes down each step's loss as it logs it."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        log = self.metrics_processor.log

        def logged(step: int, loss: float, *rest: Any, **more: Any) -> None:
            losses.append(float(loss))
            log(step, loss, *rest, **more)

        self.metrics_processor.log = logged


def loader(dp_world_size: int, dp_rank: int, **_: Any) -> Any:
    """What torchtitan reads its batches from."""
    return ParallelAwareDataloader(Tokens(), dp_rank=dp_rank, dp_world_size=dp_world_size, batch_size=4)


spec = llama3.get_train_spec()
spec.build_tokenizer_fn, spec.build_dataloader_fn = None, loader
spec.state_dict_adapter = None
spec.model_args = {"tiny": TransformerModelArgs(dim=32, n_layers=2, n_heads=2, vocab_size=64)}
train_spec.register_train_spec("tiny", spec)
trainer = Tiny(ConfigManager().parse_args(ARGUMENTS.split()))
trainer.train()
trainer.close()
torch.distributed.destroy_process_group()
show(losses, trainer.step, dynamo_graphs(), "torchtitan", "torch")
