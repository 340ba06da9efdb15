"""Trains and validates by the compiled methods of one module, whose validation step logs a figure."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Figure:
    """An image of bars, as a plotting library draws them into an array."""

    def __init__(self, height=16):
        self.height = height

    def draw_bars(self, values, d):
        scaled = np.clip(values / d, 0.0, 1.0) * self.height
        rows = np.arange(self.height)[:, None]
        return (rows < scaled[None, :]).astype("float32")


class Experiment:
    def __init__(self):
        self.logged = []

    def log(self, image, title):
        self.logged.append((title, float(image.mean())))


class Forecaster(nn.Module):
    def __init__(self, experiment):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
        self.experiment = experiment

    def training_step(self, x, y):
        return F.mse_loss(self.net(x), y)

    def validation_step(self, x, y):
        predicted = self.net(x)
        self.log_errors((predicted - y).abs().mean(0))
        return F.mse_loss(predicted, y)

    def log_errors(self, errors):
        values = errors.detach().numpy()
        image = Figure().draw_bars(values, float(values.max()))
        self.experiment.log(image, "errors")


torch.manual_seed(0)
experiment = Experiment()
model = Forecaster(experiment)
training_step = torch.compile(model.training_step, backend="aot_eager")
validation_step = torch.compile(model.validation_step, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 8), torch.randn(32, 4)
for _ in range(5):
    loss = training_step(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        print("loss", repr(loss.item()), repr(validation_step(x, y).item()), experiment.logged[-1][1])
# /// thread
# address = "https://github.com/Lightning-AI/pytorch-lightning/issues/17214"
# asked = """\
# The model is faster compiled, but in the validation loop Dynamo compiles the functions that draw what is logged, \
# and hits the cache size limit. Is there a decorator that leaves this call out?"""
# answer = "Logging is bookkeeping that runs eagerly: disable the tracing at its boundary with torch.compiler.disable."
# stack = "torch"
# mechanism = "python_scalar"
# argument = "d"
# before = ""
# after = ""
# line = 43
# lines_accepted = [45, 40, 15, 62]
# compiles = [16, 3]
# counted = "compiles in all (compilation metrics of Dynamo)"
# cure = "Disable the compilation of the logging."
# cure_lines = [
#   {line = 43, code = """
#     @torch.compiler.disable
#     def log_errors(self, errors):"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
