"""Trains with a hand-written Adam whose step is compiled and counts its steps in a Python integer."""

# /// thread
# address = "https://github.com/huggingface/pytorch-image-models/pull/2704"
# asked = "timm's own optimizers recompile under torch.compile, since they count steps in a Python number."
# answer = "The maintainer: hold the step count in the optimizer state as a tensor."
# stack = "torch"
# mechanism = "python_scalar"
# argument = "state['step']"
# before = "0"
# after = "1"
# line = 35
# lines_accepted = [28, 32, 35, 38, 47]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Start the step count as torch.zeros(()) and add to it in place."
# cure_lines = [{line = 28, code = "step = torch.zeros(())"}]
# cure_environment = {}
# losses = "close"
# ///

import torch

torch.manual_seed(0)
features = torch.randn(32, 8)
target = features.sum(dim=1, keepdim=True)
weight = torch.zeros(8, 1, requires_grad=True)
step = 0
state = {"step": step, "mean": torch.zeros(8, 1), "square": torch.zeros(8, 1)}


@torch.compile(backend="eager")
@torch.no_grad()
def adam_step(parameter, state, lr=0.1, beta1=0.9, beta2=0.99):
    state["step"] += 1
    state["mean"].lerp_(parameter.grad, 1 - beta1)
    state["square"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
    mean = state["mean"] / (1 - beta1 ** state["step"])
    square = state["square"] / (1 - beta2 ** state["step"])
    parameter.sub_(lr * mean / (square.sqrt() + 1e-8))


for _ in range(8):
    weight.grad = None
    loss = (features @ weight - target).square().mean()
    loss.backward()
    adam_step(weight, state)
    print("loss", repr(loss.item()))
