"""Compares samples with learned prototypes, without gradients, through one compiled helper that scales both."""

# /// thread
# address = "https://github.com/RBLN-SW/vllm-rbln/pull/770"
# asked = """\
# Under no_grad a helper shared by weights and activations is compiled again and again: requires_grad mismatch."""
# answer = """\
# no_grad does not clear requires_grad on parameters, activations have it cleared, so the guard flips; call \
# requires_grad_(False) on all the weights at load."""
# stack = "torch"
# mechanism = "requires_grad"
# argument = "tensor"
# before = "requires_grad=True"
# after = "requires_grad=False"
# line = 40
# lines_accepted = [30, 33, 40, 41]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Clear requires_grad on the learned tensor before it is used for inference."
# cure_lines = [
#     {line = 30, code = "prototypes = torch.randn(8, 8, requires_grad=True).requires_grad_(False)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch

torch.manual_seed(0)
prototypes = torch.randn(8, 8, requires_grad=True)


@torch.compile(backend="eager")
def normalise(tensor):
    return tensor / tensor.abs().amax(dim=1, keepdim=True)


with torch.no_grad():
    for _ in range(4):
        anchors = normalise(prototypes)
        samples = normalise(torch.randn(8, 8))
        print("value", repr((samples @ anchors).sum().item()))
