"""Trains a classifier on images that two augmentations change within the compiled step."""

import torch
from torch import nn
from torch.nn import functional as F


class BasicAugmentation(nn.Module):
    def __init__(self, p=0.5, p_batch=1.0):
        super().__init__()
        self.p = p
        self.p_batch = p_batch

    def batch_prob_generator(self, batch_shape):
        batch_prob = torch.bernoulli(torch.full((1,), self.p_batch))
        if batch_prob.sum() == 1:
            elem_prob = torch.bernoulli(torch.full((batch_shape[0],), self.p))
            batch_prob = batch_prob * elem_prob
        else:
            batch_prob = batch_prob.repeat(batch_shape[0])
        return batch_prob

    def forward(self, images):
        to_apply = self.batch_prob_generator(images.shape)
        return torch.where(to_apply.view(-1, 1, 1, 1) == 1, self.apply_transform(images), images)


class RandomBrightness(BasicAugmentation):
    def apply_transform(self, images):
        return (images * 1.2).clamp(0.0, 1.0)


class RandomHorizontalFlip(BasicAugmentation):
    def apply_transform(self, images):
        return images.flip(-1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.augment = nn.Sequential(RandomBrightness(p=1.0), RandomHorizontalFlip(p=1.0))
        self.features = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)

    def forward(self, images):
        return self.head(F.relu(self.features(self.augment(images))).mean((2, 3)))


torch.manual_seed(0)
model = Classifier()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.rand(8, 3, 16, 16), torch.randint(0, 4, (8,))
for _ in range(6):
    loss = F.cross_entropy(compiled(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/kornia/kornia/pull/3793"
# asked = "Every augmentation breaks the graph under torch.compile, at the gate that all of them share."
# answer = """\
# `if batch_prob.sum() == 1` branches on a tensor's value; take the product without a branch: it is the same."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "batch_prob.sum() == 1"
# before = ""
# after = ""
# line = 16
# lines_accepted = [15, 24, 55]
# compiles = [7, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Multiply the two without a branch."
# cure_lines = [
#   {line = 16, code = "        elem_prob = torch.bernoulli(torch.full((batch_shape[0],), self.p))"},
#   {line = 17, code = "        return batch_prob * elem_prob"},
#   {line = 18, code = ""},
#   {line = 19, code = ""},
#   {line = 20, code = ""},
#   {line = 21, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
