"""Decodes two sequences with rotary angles taken from positions cut out of a growing mask."""

# /// thread
# address = "https://github.com/huggingface/transformers/pull/32227"
# asked = "Compiled decoding of a transformer recompiles or captures again although each step has the same shapes."
# answer = """\
# A maintainer: position_ids is a slice of a longer tensor, so its stride changes at each step; clone it with \
# memory_format=torch.contiguous_format (contiguous() is not enough for a batch of one)."""
# stack = "torch"
# mechanism = "layout"
# argument = "positions"
# before = "(20, 1)"
# after = "(21, 1)"
# line = 42
# lines_accepted = [32, 42, 43]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Clone the positions with memory_format=torch.contiguous_format before the compiled call."
# cure_lines = [
#     {line = 42, code = "        positions = mask.cumsum(-1)[:, -1:].clone(memory_format=torch.contiguous_format)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch

torch.manual_seed(0)
frequencies = 1.0 / 10.0 ** torch.arange(0, 1, 0.25)


@torch.compile(backend="eager")
def rotate(x, positions):
    angles = positions.unsqueeze(-1) * frequencies
    return x * torch.cos(angles) + x.flip(-1) * torch.sin(angles)


with torch.no_grad():
    hidden = torch.randn(2, 1, 4)
    for length in range(20, 26):
        mask = torch.ones(2, length)
        positions = mask.cumsum(-1)[:, -1:]
        hidden = rotate(hidden, positions)
        print("value", repr(hidden.sum().item()))
