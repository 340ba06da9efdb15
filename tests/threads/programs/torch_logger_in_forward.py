"""Runs a compiled upsampling block that logs when it has to change the size of its output."""

# /// thread
# address = "https://github.com/deepspeedai/DeepSpeed/pull/6999"
# asked = "Logger calls inside compiled training code break the graph."
# answer = """\
# Dynamo does not trace logging methods unless they are listed as methods to ignore: \
# torch._dynamo.config.ignore_logger_methods (the fix sets it), or move the call out of the compiled code."""
# stack = "torch"
# mechanism = "graph_break:side_effect"
# argument = "logger.info"
# before = ""
# after = ""
# line = 46
# lines_accepted = [46, 52, 55]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = """\
# List the logger's method in torch._dynamo.config.ignore_logger_methods (ignore_logging_functions in new \
# versions)."""
# cure_lines = [
#     {line = 35, code = """
# torch._dynamo.config.ignore_logging_functions.add(logging.Logger.info)
# logger = logging.getLogger(__name__)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Upsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, image, size):
        image = torch.relu(self.convolution(image))
        if image.shape[-1] != size:
            logger.info("forward the size %s to force the output size", size)
            image = nn.functional.interpolate(image, size=(size, size))
        return self.convolution(image)


torch.manual_seed(0)
model = torch.compile(Upsample(), backend="eager")
with torch.no_grad():
    for _ in range(4):
        print("value", repr(model(torch.randn(1, 3, 8, 8), 12).sum().item()))
