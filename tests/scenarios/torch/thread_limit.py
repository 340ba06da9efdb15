"""The limit of variants is raised on the main thread, and another compiles."""
# expect: shape x f32[2] -> f32[3]
# finding: thread_limit

import threading

import torch

torch._dynamo.config.recompile_limit = 3


@torch.compile(backend="eager", dynamic=False)
def step(x):
    return x * 2


def train():
    torch._dynamo.config.recompile_limit = 2
    for n in (2, 3, 4, 5):
        step(torch.ones(n))


thread = threading.Thread(target=train)
thread.start()
thread.join()
