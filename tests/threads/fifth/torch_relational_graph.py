"""A relational graph layer that chooses its matrix product by a rule of thumb about the edges' types."""

import torch
from torch import nn


def use_segment_matmul_heuristic(num_segments, max_segment_size, in_channels, out_channels):
    x = torch.tensor([num_segments, max_segment_size, in_channels, out_channels], dtype=torch.float)
    return bool((x * torch.tensor([-0.02, 0.001, 0.003, 0.003])).sum() > 0)


class RGCNConv(nn.Module):
    def __init__(self, in_channels, out_channels, num_relations, use_segment_matmul=None):
        super().__init__()
        self.num_relations = num_relations
        self.use_segment_matmul = use_segment_matmul
        self.weight = nn.Parameter(torch.randn(num_relations, in_channels, out_channels) * 0.2)
        self.root = nn.Parameter(torch.randn(in_channels, out_channels) * 0.2)

    def forward(self, x, edge_index, edge_type):
        out = torch.zeros(x.shape[0], self.weight.shape[-1])
        use_segment_matmul = self.use_segment_matmul
        if use_segment_matmul is None:
            segment_count = torch.zeros(self.num_relations).index_add(0, edge_type, torch.ones(edge_type.shape[0]))
            use_segment_matmul = use_segment_matmul_heuristic(
                num_segments=self.num_relations,
                max_segment_size=int(segment_count.max()),
                in_channels=self.weight.shape[1],
                out_channels=self.weight.shape[2],
            )
        if use_segment_matmul:
            message = torch.einsum("ei,eio->eo", x[edge_index[0]], self.weight[edge_type])
            out = out.index_add(0, edge_index[1], message)
        else:
            for relation in range(self.num_relations):
                message = (x @ self.weight[relation])[edge_index[0]] * (edge_type == relation).float()[:, None]
                out = out.index_add(0, edge_index[1], message)
        return out + x @ self.root


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = RGCNConv(16, 16, 4)
        self.conv2 = RGCNConv(16, 2, 4)

    def forward(self, x, edge_index, edge_type):
        x = self.conv1(x, edge_index, edge_type).relu()
        return self.conv2(x, edge_index, edge_type).log_softmax(dim=-1)


torch.manual_seed(0)
net = Net()
model = torch.compile(net, backend="eager")
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(40, 16), torch.randint(0, 2, (40,))
edge_index, edge_type = torch.randint(0, 40, (2, 120)), torch.randint(0, 4, (120,))
for _ in range(4):
    optimizer.zero_grad()
    loss = nn.functional.nll_loss(model(x, edge_index, edge_type), y)
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pyg-team/pytorch_geometric/issues/8467"
# asked = "RGCNConv has hardly any speed-up with torch_geometric.compile(): six graph breaks."
# answer = """\
# int() and bool() of a tensor in the choice of segment_matmul break the graph; under compilation leave the rule \
# of thumb out (pull request 8783: use_segment_matmul = not is_compiling())."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "int(segment_count.max())"
# before = ""
# after = ""
# line = 27
# lines_accepted = [9, 20, 23, 25, 31, 48, 54]
# compiles = [8, 0]
# counted = "graph breaks (counters['graph_break'])"
# cure = "Choose by is_compiling() first."
# cure_lines = [
#   {line = 22, code = "        use_segment_matmul = torch.compiler.is_compiling() or self.use_segment_matmul"},
# ]
# cure_environment = {}
# losses = "close"
# ///
