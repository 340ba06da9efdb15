"""Looks tokens up in one shard of a vocabulary, warmed up with one request, then served in batches."""

import torch

FIRST, END = 16, 48


@torch.compile(dynamic=True, backend="aot_eager")
def masked_tokens(tokens):
    inside = (tokens >= FIRST) & (tokens < END)
    return torch.where(inside, tokens - FIRST, 0), ~inside


def embed(table, tokens):
    shifted, outside = masked_tokens(tokens)
    return table[shifted].masked_fill(outside[:, None], 0.0)


torch.manual_seed(0)
table = torch.randn(END - FIRST, 8)
embed(table, torch.zeros(1, dtype=torch.long))  # the warm-up
for batch in (2, 5, 3, 7, 4):
    tokens = torch.randint(0, 64, (batch,))
    print("value", repr(embed(table, tokens).sum().item()))
# /// thread
# address = "https://github.com/sgl-project/sglang/pull/24307"
# asked = "A function compiled with dynamic=True and warmed up at batch 1 compiles again at its first real batch."
# answer = """\
# Dynamo specializes sizes 0 and 1 whatever dynamic is: mark the dimension unbacked before the call."""
# stack = "torch"
# mechanism = "shape"
# argument = "tokens"
# before = "1"
# after = "2"
# line = 15
# lines_accepted = [8, 9, 14, 21]
# compiles = [2, 1]
# counted = "compiles of masked_tokens (counters['stats']['unique_graphs'])"
# cure = "Mark the dimension unbacked."
# cure_lines = [
#   {line = 15, code = '''
#     torch._dynamo.decorators.mark_unbacked(tokens, 0)
#     shifted, outside = masked_tokens(tokens)'''},
# ]
# cure_environment = {}
# losses = "equal"
# ///
