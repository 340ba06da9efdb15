"""Trains a classifier by a compiled task of model and criterion, and validates the model."""

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()) for _ in range(2)))
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))


class ClassificationTask(nn.Module):
    def __init__(self, model, criterion):
        super().__init__()
        self.model = model
        self.criterion = criterion

    def forward(self, images, target):
        output = self.model(images)
        return {"loss": self.criterion(output, target), "output": output}


def train_one_epoch(task, loader, optimizer):
    task.train()
    for images, target in loader:
        loss = task(images, target)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    return sum((model(images).argmax(1) == target).float().mean().item() for images, target in loader)


torch.manual_seed(0)
model = ConvNet()
task = ClassificationTask(model, nn.CrossEntropyLoss())
task = torch.compile(task, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
train_set = [(torch.randn(8, 3, 12, 12), torch.randint(0, 4, (8,))) for _ in range(4)]
validation_set = [(torch.randn(8, 3, 12, 12), torch.randint(0, 4, (8,))) for _ in range(8)]
for _ in range(4):
    loss = train_one_epoch(task, train_set, optimizer)
    print("loss", repr(loss), validate(model, validation_set))
# /// thread
# address = "https://github.com/huggingface/pytorch-image-models/issues/2693"
# asked = "Validation is as fast with torch.compile as without."
# answer = """\
# torch.compile is applied to the task, and validation calls the model, which is not compiled: compile the model \
# before the task is made of it."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "model"
# before = ""
# after = ""
# line = 48
# lines_accepted = [54, 42, 46]
# compiles = [1, 2]
# counted = "compiles in all (compilation metrics of Dynamo); with the cure the model has its own, in train and in eval"
# cure = "Compile the model and make the task of it."
# cure_lines = [
#   {line = 46, code = "model = torch.compile(ConvNet(), backend=\"aot_eager\")"},
#   {line = 48, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
