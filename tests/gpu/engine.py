"""Starts a process by spawn, as servers start their engine; it compiles on the device $DEVICE, and once anew."""

import multiprocessing
import os

import torch


def engine() -> None:
    """What the other process does."""
    device = os.environ["DEVICE"]
    model = torch.compile(torch.nn.Linear(64, 64).to(device))
    for batch in (8, 16, 32):
        model(torch.ones(batch, 64, device=device)).sum().item()


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=engine, name="EngineCore")
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
