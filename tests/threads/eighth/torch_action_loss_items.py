"""Trains a policy that predicts chunks of actions; its forward returns the loss and what to log of it."""

import torch
from torch import nn
from torch.nn import functional as F


class ActionChunkPolicy(nn.Module):
    def __init__(self, state_dim=6, action_dim=2, chunk=4, latent=8, kl_weight=10.0):
        super().__init__()
        self.shape = chunk, action_dim
        self.kl_weight = kl_weight
        self.encoder = nn.Linear(state_dim + chunk * action_dim, 2 * latent)
        self.decoder = nn.Sequential(nn.Linear(state_dim + latent, 32), nn.ReLU(), nn.Linear(32, chunk * action_dim))

    def forward(self, batch):
        state, actions = batch["observation.state"], batch["action"]
        encoded = self.encoder(torch.cat((state, actions.flatten(1)), dim=-1))
        mu, log_sigma_x2 = encoded.chunk(2, dim=-1)
        latent = mu + log_sigma_x2.div(2).exp() * batch["noise"]
        predicted = self.decoder(torch.cat((state, latent), dim=-1)).unflatten(-1, self.shape)
        l1_loss = F.l1_loss(predicted, actions)
        loss_dict = {"l1_loss": l1_loss.item()}
        mean_kld = (-0.5 * (1 + log_sigma_x2 - mu.pow(2) - log_sigma_x2.exp())).sum(-1).mean()
        loss_dict["kld_loss"] = mean_kld.item()
        return l1_loss + mean_kld * self.kl_weight, loss_dict


torch.manual_seed(0)
policy = ActionChunkPolicy()
compiled = torch.compile(policy)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
for _ in range(6):
    batch = {"observation.state": torch.randn(16, 6), "action": torch.randn(16, 4, 2), "noise": torch.randn(16, 8)}
    loss, loss_dict = compiled(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()), repr(float(loss_dict["l1_loss"])))
# /// thread
# address = "https://github.com/huggingface/lerobot/pull/2159"
# asked = "Dynamo warns of graph breaks in the forward of the ACT policy."
# answer = """\
# Tensor.item() inside of forward() extracts a Python number and breaks the graph: return tensors in loss_dict, \
# and extract the numbers in the training script."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "l1_loss.item()"
# before = ""
# after = ""
# line = 23
# lines_accepted = [25, 35]
# compiles = [3, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Return the tensors."
# cure_lines = [
#   {line = 23, code = "        loss_dict = {\"l1_loss\": l1_loss.detach()}"},
#   {line = 25, code = "        loss_dict[\"kld_loss\"] = mean_kld.detach()"},
# ]
# cure_environment = {}
# losses = "close"
# ///
