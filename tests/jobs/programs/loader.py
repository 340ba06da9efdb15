"""A DataLoader whose worker compiles what it does with an item; the argument: how workers are started."""

import sys

import torch
from counting import torch_counted, torch_graphs

prepare = torch.compile(lambda x: x * 2 + 1, backend="eager", dynamic=False)


class Items(torch.utils.data.Dataset):
    """Items of two sizes."""

    before = 0

    def __len__(self):
        return 4

    def __getitem__(self, at):
        value = prepare(torch.ones(3 + at // 2))
        torch_counted(self.before)
        return value.sum()


def begin(worker):
    """A worker that is forked has its parent's count."""
    Items.before = torch_graphs()


if __name__ == "__main__":
    prepare(torch.ones(2))
    torch_counted()
    loader = torch.utils.data.DataLoader(
        Items(), batch_size=None, num_workers=1, multiprocessing_context=sys.argv[1], worker_init_fn=begin
    )
    print([float(value) for value in loader])
