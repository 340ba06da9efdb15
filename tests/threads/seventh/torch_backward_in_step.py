"""Trains a policy by a compiled function that does the whole step: the loss, its gradients, and the update."""

import torch
from torch import nn
from torch.nn import functional as F


class Policy(nn.Module):
    def __init__(self, observations=6, actions=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(observations, 32), nn.Tanh(), nn.Linear(32, actions))

    def forward(self, observation):
        return F.log_softmax(self.net(observation), dim=-1)


class Learner:
    def __init__(self, policy):
        self.policy = policy
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)

    @torch.compile
    def update(self, observation, action, advantage):
        chosen = self.policy(observation).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = -(chosen * advantage).mean()
        loss.backward()
        return loss.detach()

    def learn(self, rollout):
        loss = self.update(*rollout)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


torch.manual_seed(0)
learner = Learner(Policy())
for _ in range(5):
    rollout = torch.randn(16, 6), torch.randint(0, 3, (16,)), torch.randn(16)
    print("loss", repr(learner.learn(rollout)))
# /// thread
# address = "https://github.com/pytorch/pytorch/pull/185033"
# asked = "Users of torch.compile still hit a graph break at Tensor.backward, though the lowering is there."
# answer = "Tensor.backward is rejected while trace_autograd_ops has its default; set it, and the call is traced."
# stack = "torch"
# mechanism = "other: graph break at a method that Dynamo does not trace"
# argument = "backward"
# before = ""
# after = ""
# line = 26
# lines_accepted = [23, 30, 40]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Set torch._dynamo.config.trace_autograd_ops."
# cure_lines = [
#   {line = 37, code = """
# torch._dynamo.config.trace_autograd_ops = True
# learner = Learner(Policy())"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
