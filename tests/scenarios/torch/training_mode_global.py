"""The model is a global of the compiled step."""
# expect: training_mode - on -> off

import torch

import coldstep

model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())


@torch.compile(backend="eager")
def step(x):
    return model(x)


for training in (True, True, False, True):
    model.train(training)
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
