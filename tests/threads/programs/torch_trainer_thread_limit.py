"""Trains in a worker thread, as a GUI trainer does, with a compiled update for each parameter's shape."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/186537"
# asked = """\
# Since 2.12 the recompile limit set at start-up is ignored: the compiled optimizer hits the limit of 8 and runs \
# eagerly."""
# answer = """\
# Dynamo's config is local to a thread since 2.12, and the training thread starts with the defaults: set it again \
# in the thread that compiles (what the asker's trainer merged)."""
# stack = "torch"
# mechanism = "config"
# argument = "torch._dynamo.config.recompile_limit"
# before = "64"
# after = "8"
# line = 30
# lines_accepted = [30, 35, 40, 45, 49]
# compiles = [8, 12]
# counted = "graphs that Dynamo compiled for twelve shapes (as it is, the last four shapes run eagerly)"
# cure = "Set recompile_limit at the start of the function that the thread runs."
# cure_lines = [{line = 40, code = "def train():\n    torch._dynamo.config.recompile_limit = 64"}]
# cure_environment = {}
# losses = "equal"
# ///

import threading

import torch

torch._dynamo.config.recompile_limit = 64
torch.manual_seed(0)
parameters = [torch.randn(4, width) for width in range(2, 14)]


@torch.compile(backend="eager", dynamic=False)
def update(parameter, gradient):
    parameter.mul_(0.99).sub_(0.1 * gradient.sign())


def train():
    for _ in range(3):
        loss = torch.zeros(())
        for parameter in parameters:
            loss += parameter.square().sum()
            update(parameter, 2 * parameter)
        print("loss", repr(loss.item()))


trainer = threading.Thread(target=train)
trainer.start()
trainer.join()
