"""The small GPT of gpt_torch.py under torch.compile, on two ranks that average their gradients.

`coldstep run torchrun --nproc-per-node 2 examples/gpt_ranks.py`
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from gpt_torch import GPT, VOCABULARY, batches
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import coldstep


def main() -> None:
    """Train; rank 1 has other batches than rank 0."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.compile(GPT()))
    optimizer = torch.optim.Adam(model.parameters())
    for batch in batches():
        with coldstep.step():
            tokens = (batch + dist.get_rank()) % VOCABULARY
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            coldstep.wait(loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
