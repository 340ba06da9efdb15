"""Compiles a small network with an own graph pass, in a job that is started twice with one cache directory."""

import os
import subprocess
import sys
import tempfile

if "JOB_CACHE" not in os.environ:
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            environment = {**os.environ, "JOB_CACHE": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
            subprocess.run([sys.executable, __file__], env=environment, check=True)
    sys.exit()

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass


def drop_unit_factors(graph):
    for node in list(graph.nodes):
        if node.target == torch.ops.aten.mul.Tensor and node.args[1] == 1.0:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


config.post_grad_custom_pre_pass = drop_unit_factors


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.linear(x)).sum(dim=1)


torch.manual_seed(0)
model = torch.compile(Network().eval())
with torch.inference_mode():
    for _ in range(3):
        print("value", repr(model(torch.randn(4, 8)).sum().item()))
# /// thread
# address = "https://github.com/torch-spyre/torch-spyre/pull/1346"
# asked = "Inductor's FX graph cache is not used when the backend has its own graph passes, so each process compiles."
# answer = """\
# A plain function as a pass cannot be put into the cache's key; make the pass a CustomGraphPass (with a uuid), which \
# makes graphs cacheable."""
# stack = "torch"
# mechanism = "cache_miss"
# argument = "config.post_grad_custom_pre_pass"
# before = ""
# after = ""
# line = 28
# lines_accepted = [21, 41, 44]
# compiles = [2, 1]
# counted = "graphs that Inductor compiled in both processes (with the cure the second reads the cache)"
# cure = "Make the pass an instance of a CustomGraphPass with a uuid."
# cure_lines = [
#   {line = 28, code = """
#
# class DropUnitFactors(CustomGraphPass):
#     def __call__(self, graph):
#         drop_unit_factors(graph)
#
#     def uuid(self):
#         return "drop unit factors 1"
#
#
# config.post_grad_custom_pre_pass = DropUnitFactors()"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
