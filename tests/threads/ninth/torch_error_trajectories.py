"""Follows the error of gradient descent on random examples for a number of steps, in NumPy that PyTorch compiles."""

import numpy as np
import torch


@torch.compile(backend="aot_eager")
def trajectories(errors, inputs, rate):
    norms = []
    for step in range(inputs.shape[0]):
        drawn = inputs[step]
        losses = np.einsum("bd,bd->b", errors, drawn)
        errors = errors - rate * np.einsum("bd,b->bd", drawn, losses)
        norms.append((errors * errors).sum(axis=1))
    return np.stack(norms)


generator = np.random.default_rng(0)
scale = np.sqrt(1.0 / np.arange(1, 9))
for _ in range(3):
    inputs = scale * generator.standard_normal((150, 16, 8))
    errors = np.ones((16, 8))
    print("value", repr(float(trajectories(errors, inputs, 0.1)[-1].mean())))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/111441"
# asked = "torch.compile of a simple NumPy loop takes 34 seconds. Could it be faster?"
# answer = """\
# Dynamo unrolls loops, and is not fast at tracing them: compile the loop's body."""
# stack = "torch"
# mechanism = "unrolled"
# argument = "range(inputs.shape[0])"
# before = ""
# after = ""
# line = 10
# lines_accepted = [7, 8, 12, 13]
# compiles = [1, 1]
# counted = "seconds of the first call: 25 to 3"
# cure = "Compile the body alone."
# cure_lines = [
#   {line = 7, code = '''
# @torch.compile(backend="aot_eager")
# def descend(errors, drawn, rate):
#     losses = np.einsum("bd,bd->b", errors, drawn)
#     return errors - rate * np.einsum("bd,b->bd", drawn, losses)
#
# '''},
#   {line = 12, code = ""},
#   {line = 13, code = "        errors = descend(errors, drawn, rate)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
