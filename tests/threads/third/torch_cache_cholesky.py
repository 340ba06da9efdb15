"""Fits a Gaussian process by gradient descent on its likelihood, compiled."""

import math

import torch

torch.manual_seed(0)
x = torch.linspace(0.0, 1.0, 12)
y = torch.sin(6.0 * x)
log_scale = torch.zeros((), requires_grad=True)


@torch.compile
def negative_log_likelihood(log_scale):
    distance = (x[:, None] - x[None, :]) / (0.3 * torch.exp(log_scale))
    kernel = torch.exp(-0.5 * distance**2) + 0.05 * torch.eye(12)
    factor = torch.linalg.cholesky(kernel)
    whitened = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * whitened.square().sum() + factor.diagonal().log().sum() + 6.0 * math.log(2.0 * math.pi)


for _ in range(4):
    loss = negative_log_likelihood(log_scale)
    (gradient,) = torch.autograd.grad(loss, log_scale)
    log_scale = (log_scale - 0.02 * gradient).detach().requires_grad_()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/194005"
# asked = """\
# Graphs with linalg.cholesky, inv, solve or lu_factor are never cached: each process compiles them anew."""
# answer = """\
# These dispatch to an operation with an ordered effect that checks for errors, for which the caches are \
# bypassed; the _ex variants return the information in its place, and are cached."""
# stack = "torch"
# mechanism = "cache_miss"
# argument = "torch.linalg.cholesky"
# before = ""
# after = ""
# line = 17
# lines_accepted = [13, 14, 23]
# compiles = [1, 0]
# counted = "bypasses of FxGraphCache (counters['inductor']['fxgraph_cache_bypass'])"
# cure = "Take the factor of torch.linalg.cholesky_ex."
# cure_lines = [
#   {line = 17, code = "    factor = torch.linalg.cholesky_ex(kernel).L"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
