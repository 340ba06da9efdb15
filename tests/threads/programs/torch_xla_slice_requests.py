"""Serves a varying number of requests from a fixed buffer on an XLA device."""

# /// thread
# address = "https://github.com/vllm-project/vllm/issues/16282"
# asked = "Serving on torch_xla goes on compiling after the warm-up, although the model's own shapes are padded."
# answer = """\
# A maintainer: preparing inputs on the device (a slice with a Python bound, a copy, ones) makes a new graph for \
# each number of requests; prepare them on the CPU and transfer tensors of fixed size."""
# stack = "torch_xla"
# mechanism = "shape"
# argument = "scores"
# before = "3"
# after = "5"
# line = 40
# lines_accepted = [40, 41, 42]
# compiles = [4, 1]
# counted = "compilations (met.metric_data('CompileTime')[0])"
# cure = "Make a mask of fixed size on the CPU, transfer it, and multiply instead of slicing the device's tensor."
# cure_lines = [
#     {line = 40, code = """
#     keep = (torch.arange(16) < count).float().to(device)
#     scores = (hidden @ weight).squeeze(1) * keep"""},
#     {line = 41, code = "    value = scores.sum() / keep.sum()"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
weight = torch.randn(8, 1).to(device)
buffer = torch.randn(16, 8)
torch_xla.sync()

for count in [3, 5, 7, 5, 9]:
    hidden = torch.tanh(buffer.to(device))
    scores = (hidden @ weight).squeeze(1)[:count]
    value = scores.sum() / count
    torch_xla.sync()
    print("value", repr(value.item()))
