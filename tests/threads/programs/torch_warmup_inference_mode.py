"""Warms a compiled model up with dummy inputs at server start, then answers requests."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/134249"
# asked = """\
# A function compiled in a warm-up under inference_mode is compiled again for the first real request (dispatch key \
# set mismatch)."""
# answer = """\
# The author, a maintainer: tensors created inside inference_mode lack the ADInplaceOrView key, and Dynamo guards \
# on the keys; so create the tensors of warm-up and of requests in the same mode (as vLLM's Habana fork did)."""
# stack = "torch"
# mechanism = "grad_mode"
# argument = ""
# before = "created in inference_mode"
# after = "created outside inference_mode"
# line = 44
# lines_accepted = [33, 40, 43, 44]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Build the dummy input outside inference_mode (or build the requests inside it)."
# cure_lines = [{line = 43, code = "with torch.no_grad():"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)).eval()


@torch.compile(backend="eager")
def encode(tokens):
    return torch.softmax(tokens * 0.5, dim=-1)


def answer(request):
    with torch.no_grad():
        return encoder(encode(request))


with torch.inference_mode():
    encode(torch.zeros(4, 8))

for _ in range(4):
    print("value", repr(answer(torch.randn(4, 8)).sum().item()))
