"""Warms a compiled scorer up, then calls it from a pool whose threads were started earlier."""

# /// thread
# address = "https://github.com/ecmwf/anemoi-core/issues/1330"
# asked = """\
# Compiled modules inside checkpointed regions get a second compilation in the backward pass, and sometimes the \
# run crashes."""
# answer = """\
# Dynamo guards on the number of intra-op threads, which is local to a thread, so a worker thread that has another \
# number recompiles; the fix (anemoi-core#1344) sets the number once, since each later change costs a \
# recompilation."""
# stack = "torch"
# mechanism = "config"
# argument = "torch.get_num_threads()"
# before = "3"
# after = "2"
# line = 42
# lines_accepted = [34, 42, 45, 50, 51]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Set the number of threads once, before the pool's threads start."
# cure_lines = [
#     {line = 34, code = "torch.set_num_threads(3)"},
#     {line = 42, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

from concurrent.futures import ThreadPoolExecutor

import torch

torch.set_num_threads(2)
torch.manual_seed(0)
requests = [torch.randn(256, 256) for _ in range(4)]
weight = torch.randn(256, 1)

pool = ThreadPoolExecutor(max_workers=1)
sizes = list(pool.map(lambda request: request.square().sum().item(), requests))

torch.set_num_threads(3)


@torch.compile(backend="eager")
def score(request):
    return torch.sigmoid(request @ weight).sum()


score(requests[0])
for size, value in zip(sizes, pool.map(score, requests), strict=True):
    print("value", repr(value.item() / size))
