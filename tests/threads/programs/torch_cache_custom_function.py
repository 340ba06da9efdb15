"""Evaluates a compiled model with a custom backward, then starts a second worker that does the same."""

# /// thread
# address = "https://github.com/facebookresearch/fairchem/pull/2162"
# asked = """\
# With caches that an earlier process has filled, a compiled model still spends most of a cold compilation at each \
# start."""
# answer = """\
# A PyTorch maintainer: AOTAutogradCache refuses every graph that holds a custom autograd.Function unless \
# autograd_cache_allow_custom_autograd_functions is set; set it."""
# stack = "torch"
# mechanism = "cache_miss"
# argument = "Square.apply"
# before = ""
# after = ""
# line = 53
# lines_accepted = [51, 53, 60]
# compiles = [2, 1]
# counted = "graphs that AOTAutograd traced anew in the two processes (counters['aot_autograd']: bypasses and misses)"
# cure = "Set TORCHINDUCTOR_AUTOGRAD_CACHE_ALLOW_CUSTOM_AUTOGRAD=1 (or the config flag before the first compilation)."
# cure_lines = []
# cure_environment = {TORCHINDUCTOR_AUTOGRAD_CACHE_ALLOW_CUSTOM_AUTOGRAD = "1"}
# losses = "equal"
# ///

import os
import subprocess
import sys
import tempfile

import torch

os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return torch.addmm(gradient @ x.T, x.T, gradient)


def work():
    torch.manual_seed(0)
    weight = torch.randn(8, 8, requires_grad=True)
    model = torch.compile(lambda x: Square.apply(x @ weight))
    for _ in range(3):
        loss = model(torch.randn(8, 8)).sum()
        loss.backward()
        print("loss", repr(loss.item() + weight.grad.sum().item()), flush=True)


work()
if "second" not in sys.argv:
    subprocess.run([sys.executable, __file__, "second"], check=True)
